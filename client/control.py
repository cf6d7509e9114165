# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket on which other commands of this client reach a running session.

GET  /v1/status   what `satchel status` shows
POST /v1/move     to: SURROGATE, use_media: bool; answers when the new replica has joined
POST /v1/drop     at: SURROGATE
POST /v1/stop     end the session
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import flask

from client.runner import Runner
from client.settings import ClientSettings
from satchel.errors import ConflictError, NotFoundError, UsageError
from wire import HttpClient, install_errors


def control_socket(settings: ClientSettings, service: str) -> Path:
    """Where the session of that service answers."""
    return settings.run / f"{service}.sock"


@contextlib.contextmanager
def only_session(settings: ClientSettings, service: str) -> Iterator[None]:
    """Within the block no other session of that service runs on this client.

    Raises ConflictError where one does. `wait_ended` sees the block's end.
    """
    with _lock_file(settings, service).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(
                f"a session of {service} runs here already", fix=f"`satchel stop {service}`"
            ) from None
        yield


def wait_ended(settings: ClientSettings, service: str, timeout: float) -> bool:
    """Whether the session of that service has put everything away, waiting up to `timeout` s."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(ConflictError), only_session(settings, service):
            return True
        time.sleep(0.05)
    return False


def running_session(settings: ClientSettings, service: str) -> HttpClient:
    """A client of the session of that service. Raises NotFoundError where none runs."""
    path = control_socket(settings, service)
    if not path.exists():
        raise NotFoundError(f"no session of {service} runs here", fix=f"`satchel run {service}`")
    return HttpClient(path, peer=f"the session of {service}")


def control_app(runner: Runner, port: int, stop: threading.Event) -> flask.Flask:
    """The application behind the control socket; `stop` is set when it is asked to end."""
    app = flask.Flask("satchel-control", static_folder=None)
    install_errors(app)

    @app.get("/v1/status")
    def status() -> Any:
        return runner.status() | {"port": port}

    @app.post("/v1/move")
    def move() -> Any:
        body = _body()
        return asdict(runner.move(str(body.get("to")), use_media=bool(body.get("use_media", True))))

    @app.post("/v1/drop")
    def drop() -> Any:
        runner.drop(str(_body().get("at")))
        return {}

    @app.post("/v1/stop")
    def end() -> Any:
        stop.set()
        return {}

    return app


def _lock_file(settings: ClientSettings, service: str) -> Path:
    return settings.run / f"{service}.lock"


def _body() -> dict[str, Any]:
    body = flask.request.get_json(silent=True)
    if not isinstance(body, dict):
        raise UsageError(f"{flask.request.path} needs a JSON object")
    return body
