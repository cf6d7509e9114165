# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel plan`: the routes to a replica elsewhere, with what each is going to take."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

import click

from client.moves.history import History
from client.moves.routes import MoveRecord
from client.platform.running import running_session
from client.platform.settings import ClientSettings
from console import json_option, show
from satchel.names import check_name

COLUMNS = ("surrogate", "route", "seconds", "bytes", "limit")

PAST_COLUMNS = ("at", "surrogate", "route", "predicted", "seconds", "error")


@click.command("plan")
@click.argument("service")
@click.option("--at", "surrogate", help="To that surrogate only [default: to all others].")
@click.option("--history", is_flag=True, help="Show past moves, with their predicted times.")
@json_option
@click.pass_obj
def command(
    settings: ClientSettings, service: str, surrogate: str | None, history: bool, as_json: bool
) -> None:
    """Show the routes of SERVICE to other surrogates.

    It predicts the seconds from earlier moves and from how fast operations are. The row `stay` says
    how fast the nearest replica answers now. Each surrogate is asked whether it can run the
    machine. One that cannot, or does not answer, is named with the reason.
    """
    if history:
        _past(settings, check_name(service, "service"), as_json=as_json)
        return
    query = urlencode({"at": surrogate}) if surrogate else ""
    plans = running_session(settings, service).get_json(f"/v1/plan?{query}")["plans"]
    if as_json:
        show({"plans": plans}, as_json=True)
        return
    rows = [row(plan, route) for plan in plans for route in plan["routes"]]
    rows += [_stay(plan) for plan in plans[:1]]
    show(rows, as_json=False, columns=COLUMNS)
    for plan in plans:
        if not plan["host"]["runs"]:
            click.echo(plan["host"]["says"])
        if (count := plan["break_even_operations"]) is not None:
            click.echo(
                f"to {plan['surrogate']}: {plan['operations']} operations since the checkpoint; "
                f"from {count} on a new one from home is faster than replay"
            )


def row(plan: dict[str, Any], route: dict[str, Any]) -> dict[str, Any]:
    """Of a table of routes."""
    return {"surrogate": plan["surrogate"], **route, "seconds": f"{route['seconds']:.1f}"}


def _stay(plan: dict[str, Any]) -> dict[str, Any]:
    paces = [f"{seconds:.2f} s an operation at {name}" for name, seconds in plan["stay"].items()]
    return {"route": "stay", "seconds": "0.0", "limit": next(iter(paces), None)}


def _past(settings: ClientSettings, service: str, *, as_json: bool) -> None:
    moves = History.of(settings.state, service).moves()
    rows = [_made(move) for move in moves]
    median = statistics.median(move.error for move in moves) if moves else None
    if as_json:
        show({"moves": rows, "median_error": median}, as_json=True)
        return
    show(rows, as_json=False, columns=PAST_COLUMNS)
    if median is not None:
        click.echo(f"median error: {median:.0%}")


def _made(move: MoveRecord) -> dict[str, Any]:
    """All of docs/formats/client-state.md, and the error."""
    row = asdict(move) | {"route": move.route.value, "error": move.error}
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}
