# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel stats`: what surrogates were good for."""

from __future__ import annotations

from dataclasses import asdict

import click

from client.platform.settings import ClientSettings
from client.state.savings import saved_since
from console import json_option, show

COLUMNS = ("surrogate", "operations", "seconds", "bytes", "day")


@click.command("stats")
@click.argument("service", required=False)
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=7,
    show_default=True,
    help="How many days to count, today included.",
)
@json_option
@click.pass_obj
def command(settings: ClientSettings, service: str | None, days: int, as_json: bool) -> None:
    """Show how much time and data surrogates saved recently.

    For each surrogate it counts the operations of SERVICE, or of all services, that it answered
    before home did, the seconds between, and the bytes that did not come from home. The last column
    is the last day. Carried services are
    not counted, because home does not answer them in parallel.
    """
    rows = saved_since(settings.state, service, days)
    empty = "no session has used a surrogate in these days"
    show([asdict(row) for row in rows], as_json=as_json, columns=COLUMNS, empty=empty)
