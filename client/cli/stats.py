# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel stats`: what surrogates were good for."""

from __future__ import annotations

from dataclasses import asdict

import click

from client.savings import saved_since
from client.settings import ClientSettings
from console import json_option, note, show

COLUMNS = ("surrogate", "operations", "seconds", "bytes", "day")


@click.command("stats")
@click.argument("service", required=False)
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=7,
    show_default=True,
    help="So many, today included.",
)
@json_option
@click.pass_obj
def command(settings: ClientSettings, service: str | None, days: int, as_json: bool) -> None:
    """Show what surrogates saved you of late.

    Of SERVICE, or of all: operations that a surrogate answered before home, the seconds by which it
    did, the bytes that did not come from home, and the last day. A session notes it after each move
    and at its end. Carried services are not compared with home, and save nothing here.
    """
    rows = saved_since(settings.state, service, days)
    show([asdict(row) for row in rows], as_json=as_json, columns=COLUMNS)
    if not rows:
        note("no session has used a surrogate in these days")
