# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel surrogates`: what is near."""

from __future__ import annotations

from dataclasses import asdict

import click

from client.places.nearby import nearby
from client.platform.settings import ClientSettings
from console import json_option, show
from wire import surrogates_here

COLUMNS = ("name", "known", "address", "port", "round_trip_ms", "runs", "load_percent", "price")


@click.command("surrogates")
@json_option
@click.pass_obj
def command(settings: ClientSettings, as_json: bool) -> None:
    """List the surrogates on this network and the known ones.

    The nearest is first. `known` is its name in client.toml. If that is `-`, pair with it first:
    nothing connects to it before, so its round trip is unknown. Announcements are not verified.
    """
    rows = [asdict(row) for row in nearby(settings, surrogates_here())]
    if not as_json:
        for row in rows:
            seconds = row["round_trip_seconds"]
            row["round_trip_ms"] = None if seconds is None else seconds * 1000
            row["load_percent"] = row["load"]
    empty = "none is near or known: `satchel pair CODE --at HOST --name NAME` gets to know one"
    show(rows, as_json=as_json, columns=COLUMNS, empty=empty)
