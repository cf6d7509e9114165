# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel surrogate`: the surrogates that are known."""

from __future__ import annotations

import click

from client.platform.configuration import configuration
from client.platform.settings import ClientSettings
from client.state.surrogate_keys import SurrogateKeys
from console import json_option, show
from satchel.errors import ConflictError, NotFoundError
from satchel.names import check_name


@click.group("surrogate")
def command() -> None:
    """The surrogates that client.toml names.

    `satchel pair` adds one with its keys.
    """


@command.command("add")
@click.argument("name")
@click.argument("destination")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=22, help="The port of sshd [default: 22]."
)
@json_option
@click.pass_context
def add(context: click.Context, name: str, destination: str, port: int, as_json: bool) -> None:
    """Add surrogate NAME at DESTINATION, as USER@HOST.

    You see to the keys: put its host key into known_hosts, and have its operator let yours in.
    """
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    check_name(name, "surrogate")
    if name in settings.surrogates:
        fix = f"remove it with `satchel surrogate rm {name}`"
        raise ConflictError(f"there is a surrogate {name}", fix=fix)
    values = {"destination": destination, "port": port}
    configuration(context).merge(f"surrogates.{name}", values)
    show({"added": name}, as_json=as_json)


@command.command("rm")
@click.argument("name")
@json_option
@click.pass_context
def rm(context: click.Context, name: str, as_json: bool) -> None:
    """Remove surrogate NAME from client.toml. Its keys stay."""
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    settings.surrogate(name, fix="")
    configuration(context).remove(f"surrogates.{name}")
    show({"removed": name}, as_json=as_json)


@command.command("forget")
@click.argument("name")
@json_option
@click.pass_context
def forget(context: click.Context, name: str, as_json: bool) -> None:
    """Forget the key of surrogate NAME, and proofs against it.

    This also lifts a ban of the surrogate.
    """
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    check_name(name, "surrogate")
    if not SurrogateKeys(settings.state).forget(name):
        raise NotFoundError(f"nothing is known of a surrogate {name}", why="it has signed nothing")
    show({"forgotten": name}, as_json=as_json)
