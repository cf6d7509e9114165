# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home init`: make a home, or a bare store."""

from __future__ import annotations

import click

from chunkstore import Store
from console import json_option, show
from homeserver.cli.context import Context


@click.command("init")
@json_option
@click.pass_obj
def command(context: Context, as_json: bool) -> None:
    """Make a home: a store, and the owner's key. With --store, only the store."""
    if not context.own_store:
        Store.create(context.store).close()
        show({"store": str(context.store)}, as_json=as_json)
        return
    from homeserver.home import Home, signers_line  # which needs what only daemons need

    Home.init(context.settings)
    answer = {
        "home": str(context.settings.data),
        "store": str(context.store),
        "allowed_signers": signers_line(context.settings),
    }
    show(answer, as_json=as_json)
