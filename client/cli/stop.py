# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel stop`: end a running session."""

from __future__ import annotations

import time

import click

from client.cli.context import Context, pass_context
from client.control import control_socket, running_session
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
    deadline = time.monotonic() + STOP_SECONDS
    while control_socket(context.settings, service).exists():
        if time.monotonic() > deadline:
            raise UnavailableError(f"the session of {service} does not end")
        time.sleep(0.05)
    show({"stopped": service}, as_json=as_json)
