# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel stop`: end a running session."""

from __future__ import annotations

import click

from client.cli.context import Context, pass_context
from client.control import running_session, wait_ended
from console import json_option, show
from satchel.errors import UnavailableError

STOP_SECONDS = 60.0


@click.command("stop")
@click.argument("service")
@json_option
@pass_context
def command(context: Context, service: str, as_json: bool) -> None:
    """End the session of SERVICE and its replicas on surrogates. Home goes on."""
    running_session(context.settings, service).post_json("/v1/stop", {})
    if not wait_ended(context.settings, service, STOP_SECONDS):
        raise UnavailableError(f"the session of {service} does not end")
    show({"stopped": service}, as_json=as_json)
