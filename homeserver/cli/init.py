# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home init`: make a home, or a bare store."""

from __future__ import annotations

from pathlib import Path

import click

from chunkstore import Store
from console import json_option, show
from homeserver.cli.context import Context
from satchel.paths import config_dir, config_file

SETTINGS = """\
# The settings of this home. It goes on to be yours when this machine gets a home of its own in
# /etc/satchel/home.toml. Every key has a default: see `man satchel`.
"""


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

    if click.get_current_context().find_root().params["config"] is None:
        _have_settings(config_dir() / "home.toml")
    Home.init(context.settings)
    answer = {
        "home": str(context.settings.data),
        "store": str(context.store),
        "allowed_signers": signers_line(context.settings),
    }
    show(answer, as_json=as_json)


def _have_settings(own: Path) -> None:
    """Of the person's own, where nothing says anything yet: see `config_file`."""
    if own.exists() or config_file(own.name) != own:
        return
    own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    own.write_text(SETTINGS)
