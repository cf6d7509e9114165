# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home forget`: take a volume's name away."""

from __future__ import annotations

import click

from chunkstore import Catalog
from console import json_option, show
from homeserver.cli.context import Context, pass_context


@click.command("forget")
@click.argument("name")
@json_option
@pass_context
def command(context: Context, name: str, as_json: bool) -> None:
    """Forget volume NAME. Its chunks stay until `prune`."""
    with context.open_store() as store:
        Catalog(store).remove(name)
    show({"forgotten": name}, as_json=as_json)
