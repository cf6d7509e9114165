# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel config`: look at client.toml, and change it."""

from __future__ import annotations

import json

import click

from client.platform.configuration import configuration
from console import json_option, note, show


@click.group("config")
def command() -> None:
    """Read and change client.toml. `man satchel` lists every key."""


@command.command("get")
@click.argument("key")
@json_option
@click.pass_context
def get(context: click.Context, key: str, as_json: bool) -> None:
    """Show the value of KEY, such as `surrogates.cafe.port`.

    If client.toml does not say it, this is the default.
    """
    value = configuration(context).in_force(key, context.obj)
    if as_json or isinstance(value, dict):
        show(value, as_json=as_json)
        if value == {}:
            note(f"{key} is an empty table")
    else:
        click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@command.command("set")
@click.argument("key")
@click.argument("value")
@json_option
@click.pass_context
def set_(context: click.Context, key: str, value: str, as_json: bool) -> None:
    """Set KEY to VALUE; comments and all else stay as they are.

    A wrong value is refused, and changes nothing.
    """
    show({key: configuration(context).set(key, value)}, as_json=as_json)
