# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel pair`: get to know a home or a surrogate."""

from __future__ import annotations

from dataclasses import asdict

import click

from client.platform.configuration import configuration
from client.platform.pairing import pair_with
from client.platform.settings import ClientSettings
from console import json_option, show
from wire import Address


@click.command("pair")
@click.argument("code")
@click.option(
    "--at", "place", default="", help="The host that shows the code, as HOST or HOST:PORT."
)
@click.option("--name", default="", help="The surrogate's name here [default: its own name].")
@json_option
@click.pass_context
def command(context: click.Context, code: str, place: str, name: str, as_json: bool) -> None:
    """Get to know the home or surrogate that shows CODE.

    CODE is what `satchel-home pair` or `satchel-surrogate admit` shows: satchel://pair?..., or
    eight digits with --at. It makes keys if they are missing, and writes client.toml, known_hosts
    and allowed_signers, so you edit nothing by hand.
    """
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    paired = pair_with(Address.parse(code, place), settings, configuration(context), name=name)
    show(asdict(paired), as_json=as_json)
