# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home import`: a disk image into the store, under a name."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

from chunkstore import Store, StoreFull
from console import json_option, show
from homeserver.cli.context import Context
from homeserver.cli.prune import prune
from homeserver.places import with_identity
from homeserver.store import upkeep
from images import raw_view
from satchel.errors import SatchelError
from satchel.names import check_name
from satchel.progress import Progress


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name")
@click.option("--raw", "as_it_is", is_flag=True, help="FILE is raw, whatever it looks like.")
@json_option
@click.pass_obj
def command(context: Context, file: Path, name: str, as_it_is: bool, as_json: bool) -> None:
    """Import FILE as the newest version of volume NAME.

    FILE is raw or qcow2, or one compressed by xz, gzip, zstd or the like; other kinds of files are
    refused. When the command returns, the volume is durable. Older versions of NAME stay until
    `forget`. It says how much room the store has used for it, and how much at each level of zstd: 0
    is raw, and the slower the disk, the higher the level. It also counts new blocks that share
    their SHA-1 with another. If the daemon runs, it does this, and leaves room on the disk to
    machines.
    """
    check_name(name, "volume")

    def here(store: Store, progress: Progress) -> dict[str, Any]:
        before = store.pack_bytes
        try:
            return upkeep.import_volume(store, raw, name, progress)
        except StoreFull:
            store.give_back()
            if not before:  # what was made durable on the way is not given back
                with contextlib.suppress(SatchelError):
                    prune(context, dry_run=False, quiet=True)
            raise

    with raw_view(file, as_it_is=as_it_is) as raw:
        body = {"file": str(raw.resolve()), "name": name}  # /dev/stdin is another one there
        route = with_identity("/v1/import", raw)
        made = context.tend(f"import {name}", route, body, here, quiet=as_json)
    show(made, as_json=as_json)
