# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home export`: a volume of the store into a file."""

from __future__ import annotations

from pathlib import Path

import click

from chunkstore import Catalog
from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from satchel.errors import UsageError


@click.command("export")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_context
def command(context: Context, name: str, file: Path, as_json: bool) -> None:
    """Export volume NAME into FILE, raw and sparse.

    FILE appears when it is complete. The daemon must not run.
    """
    if str(file) == "-":
        raise UsageError(
            "cannot export to standard output",
            why="what is written is sparse, and appears when it is complete",
            fix="name a file; or `satchel-home serve-volume`, from which nbdcopy makes a stream",
        )
    with context.open_store_to_read() as store:
        root = Catalog(store).get(name).root
        with bar(f"export {name}", quiet=as_json) as progress:
            store.export_file(root, file, progress=progress)
    show({"name": name, "file": str(file), "size": root.size}, as_json=as_json)
