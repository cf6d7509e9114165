# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home ls`: the volumes of the store."""

from __future__ import annotations

import click

from chunkstore import Catalog
from console import json_option, show
from homeserver.cli.context import Context


@click.command("ls")
@click.option("--all", "every", is_flag=True, help="Every version, not just the newest.")
@json_option
@click.pass_obj
def command(context: Context, every: bool, as_json: bool) -> None:
    """List the volumes of the store. NAME@VERSION is one version of a volume.

    It skips damaged volumes, and names them on standard error.
    """
    catalog = Catalog(context.store)
    rows = [
        {
            "name": entry.name,
            "version": entry.version,
            "size": entry.root.size,
            "created": entry.created,
        }
        for entry in (catalog.readable() if every else catalog.list())
    ]
    empty = "the store has no volume: `satchel-home import FILE NAME` brings one"
    show(rows, as_json=as_json, columns=("name", "version", "size", "created"), empty=empty)
