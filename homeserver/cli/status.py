# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home status`: what this home can run, and what runs."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context


@click.command("status")
@json_option
@click.pass_obj
def command(context: Context, as_json: bool) -> None:
    """Show what this host can run, and what runs.

    The first line says whether machines run under KVM or are emulated, and why.
    """
    status = context.daemon().get_json("/v1/status")
    if not as_json:
        for key in ("accelerators", "lacking"):  # `machines` says it
            del status[key]
        running = status["running"].items()
        status["running"] = ", ".join(f"{name} ({under})" for name, under in running) or "none"
    show(status, as_json=as_json)
