# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is done with a store by its name or as a whole: by a command, or by the daemon that has it
open. Each says what the command shows."""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chunkstore import Catalog, FileExists, Store, TableRoot
from homeserver.services.records import needed_roots
from homeserver.store.hurt import hurt_in
from images import raw_view
from satchel.files import sync_folder
from satchel.names import check_name
from satchel.progress import Progress, silent


def prune(store: Store, *, dry_run: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Remove the chunks that no volume, no checkpoint and no machine needs. A PruneReport.

    Checkpoints may be taken meanwhile: none that is being made loses anything."""
    with store.making():
        keep = needed_roots(store)
        return asdict(store.prune(keep, dry_run=dry_run, progress=progress))


def verify(store: Store, progress: Progress = silent) -> dict[str, Any]:
    """Read and check everything. A VerifyReport, and `hurt`: which volumes and checkpoints lack
    something; `ok` is about both. Whoever verifies beside others lets nobody prune meanwhile."""
    report = store.verify(progress)
    hurt = hurt_in(store, report)
    return {**report.to_json(), "ok": report.ok and not hurt, "hurt": hurt}


def settle(store: Store, progress: Progress = silent) -> dict[str, Any]:
    """Compress what was stored as it was. A SettleReport."""
    return asdict(store.settle(progress=progress))


def import_volume(
    store: Store, file: Path, name: str, progress: Progress = silent
) -> dict[str, Any]:
    """Store a raw file as the newest version of a volume. Durable on return.

    stored_bytes: what the packs grew by, collisions: what `Store` counts of them, meanwhile.
    bytes_by_level, chunks_by_level: as in `Level`, with "0" for what is raw. Raises BadName,
    NotFoundError, UsageError for what is no file, StoreFull: what was made durable until then stays
    until a prune.
    """
    check_name(name, "volume")
    catalog = Catalog(store)
    before, collisions = store.pack_bytes, store.collisions
    with raw_view(file, as_it_is=True) as raw, store.making():
        base = catalog.newest_of(raw.stat().st_size)
        root, levels = store.import_with_levels(raw, base=base, progress=progress)
        entry = catalog.add(name, root)
    return {
        "name": name,
        "version": entry.version,
        **root.to_json(),
        "stored_bytes": store.pack_bytes - before,
        "bytes_by_level": {str(each.level): each.bytes for each in levels},
        "chunks_by_level": {str(each.level): each.chunks for each in levels},
        "collisions": store.collisions - collisions,
    }


def export_volume(
    store: Store, name: str, file: Path, overwrite: bool, progress: Progress = silent
) -> dict[str, Any]:
    """Write NAME or NAME@VERSION to a sparse file, which appears when it is complete. Raises
    NameNotFound, FileExists for a file that was there unless `overwrite`, and as
    `Store.export_file`."""
    root = Catalog(store).get(name).root
    if overwrite or file.is_dir() or not file.parent.is_dir():
        store.export_file(root, file, progress=progress)
    else:
        _export_new(store, root, file, progress)
    return {"name": name, "file": str(file), "size": root.size}


def _export_new(store: Store, root: TableRoot, file: Path, progress: Progress) -> None:
    """Export to a name that nothing has, neither now nor when the file is complete."""
    there = FileExists(
        f"cannot export to {file}",
        why="a file of that name is there",
        fix="choose another name; --overwrite replaces the file",
    )
    if os.path.lexists(file):
        raise there
    made = file.with_name(f"{file.name}.complete-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        store.export_file(root, made, progress=progress)
        try:
            os.link(made, file)
        except FileExistsError as error:
            raise there from error
        except OSError as error:  # FAT has no links
            if os.path.lexists(file):
                raise there from error
            made.replace(file)
    finally:
        made.unlink(missing_ok=True)
    sync_folder(file.parent)
