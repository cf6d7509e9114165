# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How commands of `satchel-surrogate` reach the daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from satchel.errors import UnavailableError
from surrogate.operator import credentials
from surrogate.settings import SurrogateSettings

if TYPE_CHECKING:
    from wire import HttpClient


def daemon(settings: SurrogateSettings) -> HttpClient:
    """The running one, or UnavailableError saying how to start it."""
    if not settings.socket.exists():
        raise UnavailableError(
            f"no surrogate answers at {settings.socket}",
            fix="start one with `satchel-surrogate serve`",
        )
    from wire import HttpClient  # --help gets by without it

    return HttpClient(settings.socket, peer="the surrogate")


def operator_status(settings: SurrogateSettings) -> dict[str, Any]:
    """What the running one tells its operator: HostStatus with every replica. Raises as `daemon`,
    and what a request raises."""
    return as_operator(settings, "GET", "/v1/status")


def as_operator(
    settings: SurrogateSettings, method: str, path: str, **fields: str
) -> dict[str, Any]:
    """What the running one answers to its operator; fields: of the JSON object that is sent. Raises
    as `daemon`, and what a request raises."""
    body = json.dumps(fields).encode() if fields else b""
    with daemon(settings) as surrogate:
        headers = credentials(settings.run)
        if fields:
            headers["Content-Type"] = "application/json"
        answer = surrogate.request(method, path, body=body, headers=headers)
        return dict(json.loads(answer.body))
