# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home stats`: what the store holds."""

from __future__ import annotations

from dataclasses import asdict

import click

from console import json_option, show
from homeserver.cli.context import Context


@click.command("stats")
@json_option
@click.pass_obj
def command(context: Context, as_json: bool) -> None:
    """Show the content of the store."""
    if context.serves_store:
        show(context.daemon().get_json("/v1/stats", timeout=None), as_json=as_json)
        return
    with context.open_store_to_read() as store:
        show(asdict(store.stats()), as_json=as_json)
