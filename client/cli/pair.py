# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel pair`: get to know a home or a surrogate."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from client.platform.configuration import configuration
from client.platform.pairing import pair_with_home, pair_with_surrogate
from client.platform.settings import ClientSettings
from console import json_option, show
from satchel.errors import UsageError
from wire import Address


@click.command("pair")
@click.argument("code", required=False, default="")
@click.option(
    "--at", "place", default="", help="The host that shows the code, as HOST or HOST:PORT."
)
@click.option("--home", is_flag=True, help="Pair with your home, and not with a surrogate.")
@click.option("--name", default="", help="The surrogate's name here [default: its own name].")
@click.option(
    "--replace", is_flag=True, help="Accept another home, or other keys of a known surrogate."
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    code: str,
    place: str,
    home: bool,
    name: str,
    replace: bool,
    as_json: bool,
) -> None:
    """Pair with the surrogate, or the home, that shows CODE.

    CODE is what `satchel-home pair` or `satchel-surrogate admit` shows: satchel://pair?..., or
    eight digits with --at. Without CODE it is read from standard input, so that other users of this
    machine do not see it among the processes. It makes keys if they are missing, and writes
    client.toml, known_hosts and allowed_signers, so you edit nothing by hand.
    """
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    if home and name:
        raise UsageError("a home has no name here", fix="leave out --name or --home")
    address = Address.parse(code or _read_code(), place)
    written = configuration(context)
    if home:
        paired = pair_with_home(address, settings, written, replace=replace)
    else:
        paired = pair_with_surrogate(address, settings, written, name=name, replace=replace)
    show(asdict(paired), as_json=as_json)


def _read_code() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("code", err=True)).strip()
    return sys.stdin.readline().strip()
