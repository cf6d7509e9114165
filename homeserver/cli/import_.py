# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home import`: a disk image into the store, under a name."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from chunkstore import Catalog, StoreFull
from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from homeserver.cli.prune import prune
from images import raw_view
from satchel.errors import SatchelError
from satchel.names import check_name


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name")
@click.option("--raw", "as_it_is", is_flag=True, help="FILE is raw, whatever it looks like.")
@json_option
@pass_context
def command(context: Context, file: Path, name: str, as_it_is: bool, as_json: bool) -> None:
    """Import FILE as the newest version of volume NAME.

    FILE is raw or qcow2; other formats are refused. Durable when it returns. Older versions of NAME
    stay until `forget`. Says what it took in the store, and how many new blocks have the SHA-1 of
    another one; they are stored all the same. The daemon must not run.
    """
    check_name(name, "volume")
    with context.open_store() as store:
        catalog = Catalog(store)
        before = store.pack_bytes
        with (
            raw_view(file, as_it_is=as_it_is) as raw,
            bar(f"import {name}", quiet=as_json) as progress,
        ):
            base = catalog.newest_of(raw.stat().st_size)
            try:
                root = store.import_file(raw, base=base, progress=progress)
            except StoreFull:
                store.give_back()
                if not before:  # what was made durable on the way is not given back
                    with contextlib.suppress(SatchelError):
                        prune(context, dry_run=False, quiet=True)
                raise
        entry = catalog.add(name, root)
        said = {"stored_bytes": store.pack_bytes - before, "collisions": store.collisions}
    show({"name": name, "version": entry.version, **root.to_json(), **said}, as_json=as_json)
