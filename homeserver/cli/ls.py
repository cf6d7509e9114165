# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home ls`: the volumes of the store."""

from __future__ import annotations

import click

from chunkstore import Catalog
from console import json_option, show
from homeserver.cli.context import Context, pass_context


@click.command("ls")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """List the volumes of the store."""
    with context.open_store() as store:
        rows = [
            {"name": entry.name, "size": entry.root.size, "created": entry.created}
            for entry in Catalog(store).list()
        ]
    show(rows, as_json=as_json, columns=("name", "size", "created"))
