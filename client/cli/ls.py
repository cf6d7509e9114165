# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel ls`: what there is to use."""

from __future__ import annotations

from typing import Any

import click

from client.places.home import services_at_home
from client.platform.running import session_runs
from client.platform.settings import HOME, ClientSettings
from console import json_option, show

COLUMNS = ("service", "where", "state", "operation")


@click.command("ls")
@json_option
@click.pass_obj
def command(settings: ClientSettings, as_json: bool) -> None:
    """List the services at home and the surrogates that are known.

    If home is out of reach it lists the rest, and the exit code says why.
    """
    services, failed = services_at_home(settings)
    rows = [_row(s["name"], HOME, s["state"], s["last_executed"]) for s in services]
    for socket in sorted(settings.run.glob("*.sock")):
        if session_runs(settings, socket.stem):
            rows.append(_row(socket.stem, "here", "session"))
    rows += [_row("-", name, "surrogate") for name in sorted(settings.surrogates)]
    show(rows, as_json=as_json, columns=COLUMNS)
    if failed:
        raise failed


def _row(service: str, where: str, state: str, operation: int | None = None) -> dict[str, Any]:
    return {"service": service, "where": where, "state": state, "operation": operation}
