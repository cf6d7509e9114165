# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket on which other commands of this client reach the uplink daemon.

GET  /v1/status   what `satchel uplink status` shows
GET  /v1/stats    what `satchel uplink stats` shows
POST /v1/flush    failed: bool; answers when each upload was tried
POST /v1/hold     seconds: number; 0: no longer
POST /v1/forget   number: of a failed upload, which goes with its bytes
POST /v1/tunnel   seconds, up, down: bytes that a program sent and received past uplink
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flask

from satchel.errors import NotFoundError, UsageError
from uplink.gateway.daemon import UplinkDaemon
from wire import HttpClient, install_errors

MOST_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 1 << 50


def control_socket(run: Path) -> Path:
    """Return the path of the control socket. run: the client's folder of sockets."""
    return run / "uplink.socket"


def entries_socket(run: Path) -> Path:
    """Return the path at which `satchel uplink run --namespace` hands over connections."""
    return run / "uplink-entries.socket"


def running_uplink(run: Path) -> HttpClient:
    """Return a client of the daemon. Raises NotFoundError if none runs."""
    path = control_socket(run)
    if not path.exists():
        raise NotFoundError("no uplink runs here", fix="`satchel uplink serve`")
    return HttpClient(path, peer="the uplink daemon")


def control_app(daemon: UplinkDaemon) -> flask.Flask:
    """The application behind the control socket."""
    app = flask.Flask("satchel-uplink", static_folder=None)
    install_errors(app)

    @app.get("/v1/status")
    def status() -> Any:
        return daemon.status()

    @app.get("/v1/stats")
    def stats() -> Any:
        return daemon.stats()

    @app.post("/v1/flush")
    def flush() -> Any:
        return daemon.flush(failed=_field("failed", bool, False))

    @app.post("/v1/hold")
    def hold() -> Any:
        seconds = float(_field("seconds", (int, float), 0))
        if not 0 <= seconds <= MOST_SECONDS:
            raise UsageError(
                "uploads are held for a week at most", why=f"{seconds} s were asked for"
            )
        daemon.flusher.hold(seconds)
        return daemon.flusher.status()

    @app.post("/v1/forget")
    def forget() -> Any:
        daemon.spool.forget(_field("number", int, 0))
        return {}

    @app.post("/v1/tunnel")
    def tunnel() -> Any:
        up, down = _field("up", int, 0), _field("down", int, 0)
        seconds = float(_field("seconds", (int, float), 0))
        if not (0 <= up <= MOST_BYTES and 0 <= down <= MOST_BYTES and 0 <= seconds <= MOST_SECONDS):
            raise UsageError("the request is too large", why=f"{up}, {down}, {seconds} s")
        daemon.tunnelled(seconds, up, down)
        return {}

    return app


def _field(name: str, kind: Any, default: Any) -> Any:
    body = flask.request.get_json(silent=True)
    value = (body if isinstance(body, dict) else {}).get(name, default)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{name} is not what this needs", why=f"it is {value!r}"[:100])
    return value
