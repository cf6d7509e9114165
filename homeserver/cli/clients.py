# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home clients`: the paired clients."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from console import json_option, show
from homeserver.cli.context import Context
from homeserver.cli.pair import authorized_keys_option
from homeserver.clients import Clients

COLUMNS = ("name", "key", "last_seen", "doors")


@click.command("clients")
@authorized_keys_option
@json_option
@click.pass_obj
def command(context: Context, authorized_keys: Path, as_json: bool) -> None:
    """List the paired clients.

    `key` is the fingerprint of the client's key, `doors` the number of its open connections.
    """
    rows = [asdict(client) for client in Clients(context.settings, authorized_keys).all()]
    for row in rows:
        del row["public"]
    empty = "no client is paired: `satchel-home pair` shows a code"
    show(rows, as_json=as_json, columns=COLUMNS, empty=empty)
