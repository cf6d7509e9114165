# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel status`: a running session."""

from __future__ import annotations

import time
from typing import Any

import click

from client.cli.livemap import live, volume_table
from client.platform.running import running_session, session_runs
from client.platform.settings import HOME, ClientSettings
from console import json_option, print_table, show
from satchel.ids import BLOCK_SIZE
from satchel.polling import POLL_SECONDS

FOR_PROGRAMS = (
    *("replicas", "surrogates", "divergences", "quarantined", "staged", "ports", "urls"),
    *("copies", "refreshed", "found", "offers", "moves", "sticks"),
)
"""What people are shown in another way."""


COLUMNS = (
    "name",
    "state",
    "operation",
    "lag",
    "first_responses",
    "fetched_bytes",
    "faults",
    "stalls",
    "stalled_seconds",
    "foreseen",
    "in_vain_bytes",
)

COPY_COLUMNS = ("place", "checkpoint", "seconds_behind", "written_bytes", "failure")

REFRESHED_COLUMNS = ("checkpoints", "bytes", "failure")

PORT_COLUMNS = ("front", "port", "local", "url")

STAGED_COLUMNS = ("surrogate", "bytes", "done", "error")

QUARANTINE_COLUMNS = ("surrogate", "operation", "restarted", "evidence")

STICK_COLUMNS = ("path", "generation", "free_bytes", "checkpoint", "damaged", "failure")

FOUND_COLUMNS = ("surrogate", "address", "port")

OFFER_COLUMNS = ("name", "address", "port", "runs", "price")

SOURCE_COLUMNS = (
    "replica",
    "source",
    "priority",
    "requests",
    "chunks",
    "bytes",
    "seconds",
    "overdue",
)


@click.command("status")
@click.argument("service")
@click.option("--follow", is_flag=True, help="Go on showing how volumes fill, until Ctrl-C.")
@json_option
@click.pass_obj
def command(settings: ClientSettings, service: str, follow: bool, as_json: bool) -> None:
    """Show the session of SERVICE.

    It shows the replicas, which of them answers first, the operations that home has confirmed
    (stable), and a map of each replica's volumes. On a terminal a part of the map is green if most
    of it came from the medium, yellow from home, grey from the surrogate's cache, and cyan from
    elsewhere. It is underlined if the machine has changed it.
    """
    session = running_session(settings, service)
    status = session.get_json("/v1/status")
    if as_json:
        show(status, as_json=True)
        return
    replicas = status["replicas"]
    click.echo(f"{_sentence(status)}\n")
    firsts = status.pop("first_responses", {})
    show({key: value for key, value in status.items() if key not in FOR_PROGRAMS}, as_json=False)
    click.echo()
    rows = [row | {"first_responses": firsts.get(row["name"], 0)} for row in replicas]
    show([_for_people(row) for row in rows], as_json=False, columns=COLUMNS)
    if table := volume_table(replicas):
        click.echo()
        print_table(table)
    refreshed = [status["refreshed"]] if status.get("refreshed") else []
    sources = [{"replica": r["name"]} | s for r in replicas for s in r["sources"] or ()]
    for title, rows, columns in (
        ("", status.get("ports"), PORT_COLUMNS),
        ("copies, and how far each is behind", status.get("copies"), COPY_COLUMNS),
        ("media", status["sticks"], STICK_COLUMNS),
        ("newer checkpoints on media", refreshed, REFRESHED_COLUMNS),
        ("", sources, SOURCE_COLUMNS),
        ("brought ahead, to where you are expected", status["staged"], STAGED_COLUMNS),
        ("found at another address, by their host keys", status["found"], FOUND_COLUMNS),
        ("here and unknown: pair? Nothing of it is verified", status["offers"], OFFER_COLUMNS),
        ("quarantined: answered otherwise than home", status["quarantined"], QUARANTINE_COLUMNS),
    ):
        if rows:
            click.echo(f"\n{title}" if title else "")
            show(rows, as_json=False, columns=columns)
    for row in replicas:
        if row.get("error"):
            click.echo(f"\n{row['name']}: {row['error']}")

    if follow:
        with live(lambda: session.get_json("/v1/status")):
            while session_runs(settings, service):
                time.sleep(POLL_SECONDS)


def _sentence(status: dict[str, Any]) -> str:
    """Say where the service is, and whether home has everything."""
    if (last := status.get("last_operation")) is None:  # one place leads; others may be prepared
        return f"{status['service']} is at {status['leader']}"
    away = [row["name"] for row in status["replicas"] if row["name"] != HOME]
    said = f"{status['service']} is at {' and '.join(away) or HOME}"
    unsent = max(0, last - status["stable_operation"]) if status["stateful"] else 0
    return f"{said}, {'home lacks some' if unsent else 'everything is at home'}, {unsent} unsent"


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes by source as `media 1.2 MiB, home 0 B`; nothing where nothing was fetched. foreseen: of
    the blocks that the machine touched; in vain: what was brought ahead and is not touched so far.
    """
    stalls = row["stalls"] or {"count": None, "seconds": None}
    foresight = row["foresight"]
    if foresight and foresight["touched"]:
        in_vain = (foresight["foreseen"] - foresight["used"]) * BLOCK_SIZE
        row |= {
            "foreseen": f"{foresight['used'] / foresight['touched']:.0%}",
            "in_vain_bytes": in_vain,
        }
    counted = row | {"stalls": stalls["count"], "stalled_seconds": stalls["seconds"]}
    return {key: None if value == {} else value for key, value in counted.items()}
