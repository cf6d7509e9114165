# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel ls`: what there is to use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from client.cli.context import Context, pass_context
from client.endpoints import HOME
from client.links import Links
from console import json_option, show
from satchel.errors import SatchelError

COLUMNS = ("service", "where", "state", "operation")


@click.command("ls")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """List the services at home and the surrogates that are known."""
    settings = context.settings
    rows: list[dict[str, Any]] = []
    with Links(settings, f"ls-{os.getpid()}") as links:
        try:
            for service in links.open(HOME, settings.home).get_json("/v1/services"):
                rows.append(
                    {
                        "service": service["name"],
                        "where": HOME,
                        "state": service["state"],
                        "operation": service["last_executed"],
                    }
                )
        except SatchelError as error:
            rows.append({"service": "-", "where": HOME, "state": str(error), "operation": None})
    for socket in sorted(Path(settings.run).glob("*.sock")):
        rows.append(
            {"service": socket.stem, "where": "here", "state": "session", "operation": None}
        )
    for name in sorted(settings.surrogates):
        rows.append({"service": "-", "where": name, "state": "surrogate", "operation": None})
    show(rows, as_json=as_json, columns=COLUMNS)
