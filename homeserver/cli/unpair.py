# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home unpair`: shut a client out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from console import json_option, note, show
from homeserver.cli.context import Context
from homeserver.cli.pair import authorized_keys_option
from homeserver.clients import Clients
from satchel.errors import UsageError


@click.command("unpair")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@authorized_keys_option
@json_option
@click.pass_obj
def command(context: Context, name: str, yes: bool, authorized_keys: Path, as_json: bool) -> None:
    """Shut the client NAME out, and end its work here.

    NAME is a name or a key of `satchel-home clients`. Its connections are cut, home continues
    without its nodes of shares, grants to surrogates that it used are revoked, and the keys of all
    logs change. Other clients reconnect by themselves.
    """
    context.require_own_store()
    clients = Clients(context.settings, authorized_keys)
    client = clients.find(name)
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"{client.name} is not unpaired without a question", fix="add --yes")
    if not yes:
        click.confirm(f"Unpair {client.name}, {client.key}?", abort=True, err=True)
    doors = clients.unpair(client)
    if context.serving:
        ended = context.daemon().post_json("/v1/clients/ended", {"doors": doors})
    else:
        with context.home() as home:
            ended = asdict(home.end_clients())
    show(
        {"unpaired": client.name, "key": client.key, "doors": len(doors), **ended}, as_json=as_json
    )
    if not as_json:
        note(
            "If it was stolen, its sticks are to be given other keys: `satchel-home media rotate`."
        )
