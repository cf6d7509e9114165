# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel stop`: end a running session."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from client.platform.running import running_session, wait_ended
from client.platform.settings import ClientSettings
from client.session.shutdown import UnsentOperations
from console import json_option, show
from satchel.errors import UnavailableError

STOP_SECONDS = 60.0


@click.command("stop")
@click.argument("service")
@json_option
@click.pass_obj
def command(settings: ClientSettings, service: str, as_json: bool) -> None:
    """End the session of SERVICE and its replicas on surrogates. Home continues.

    If home is unreachable, the operations that it lacks stay in the log, and the command lists
    them.
    """
    nothing = f"`satchel whereis {service}` says where it is used"
    answer = running_session(settings, service, nothing).post_json("/v1/stop", {})
    if not wait_ended(settings, service, STOP_SECONDS):
        raise UnavailableError(
            f"the session of {service} does not end",
            why=f"it was asked to {STOP_SECONDS:.0f} s ago",
            fix="end its `satchel run` with Ctrl-C",
        )
    unsent = UnsentOperations(**answer["unsent"]) if answer.get("unsent") else None
    rows: dict[str, Any] = {"stopped": service}
    if unsent:
        rows["unsent"] = asdict(unsent) if as_json else str(unsent)
    show(rows, as_json=as_json)
