# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home export`: a volume of the store into a file."""

from __future__ import annotations

from pathlib import Path

import click

from console import json_option, show
from homeserver.cli.context import Context
from homeserver.places import with_identity
from homeserver.store import upkeep
from satchel.errors import UsageError


@click.command("export")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is there.")
@json_option
@click.pass_obj
def command(context: Context, name: str, file: Path, overwrite: bool, as_json: bool) -> None:
    """Export volume NAME into FILE, raw and sparse.

    FILE appears when it is complete, and only its owner can read it. If the daemon runs, the daemon
    writes it.
    """
    if str(file) == "-":
        raise UsageError(
            "cannot export to standard output",
            why="the written file is sparse, and appears when it is complete",
            fix="name a file; or `satchel-home serve-volume`, from which nbdcopy makes a stream",
        )
    written = context.tend(
        f"export {name}",
        with_identity("/v1/export", file.absolute().parent),
        {"name": name, "file": str(file.absolute()), "overwrite": overwrite},
        lambda store, progress: upkeep.export_volume(store, name, file, overwrite, progress),
        quiet=as_json,
        opened=context.open_store_to_read,
    )
    show({**written, "file": str(file)}, as_json=as_json)
