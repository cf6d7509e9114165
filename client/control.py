# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket on which other commands of this client reach a running session.

GET  /v1/status   what `satchel status` shows
GET  /v1/tally    how many operations were answered, by whom, in how long; asks no surrogate
GET  /v1/plan?at=SURROGATE  the routes there, or to every other surrogate
POST /v1/move     to: SURROGATE, use_media: bool, route; answers when the new replica has joined
GET  /v1/move     done, total: bytes of what only the old surrogate has; 0 while others are awaited
POST /v1/stop     end the session; answers what home has not yet, once it had time to take it
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import flask

from client.fronts import Front
from client.routes import Route
from client.runner import Runner
from client.settings import ClientSettings
from satchel.errors import ConflictError, NotFoundError, UsageError
from satchel.names import check_name
from wire import HttpClient, install_errors

LOOK_SECONDS = 0.05

LOCK_ATTEMPTS = 10


def control_socket(settings: ClientSettings, service: str) -> Path:
    """Where the session of that service answers."""
    return settings.run / f"{check_name(service, 'service')}.sock"


@contextlib.contextmanager
def only_session(settings: ClientSettings, service: str) -> Iterator[None]:
    """Within the block no other session of that service runs on this client.

    Raises ConflictError where one does. `wait_ended` sees the block's end, and so it does when the
    program is killed.
    """
    with _lock_file(settings, service).open("a") as file:
        for _ in range(LOCK_ATTEMPTS):
            if _locks(file, fcntl.LOCK_EX):
                break
            time.sleep(LOOK_SECONDS)  # perhaps somebody only looks
        else:
            raise ConflictError(
                f"a session of {service} runs here already", fix=f"`satchel stop {service}`"
            )
        place = control_socket(settings, service)
        place.unlink(missing_ok=True)  # a killed session's
        try:
            yield
        finally:
            place.unlink(missing_ok=True)  # an interrupt may come before anybody else minds it


def session_runs(settings: ClientSettings, service: str) -> bool:
    """Whether a session of that service runs on this client, or is being put away."""
    path = _lock_file(settings, service)
    if not path.exists():
        return False
    with path.open("a") as file:
        return not _locks(file, fcntl.LOCK_SH)


def wait_ended(settings: ClientSettings, service: str, timeout: float) -> bool:
    """Whether the session of that service has put everything away, waiting up to `timeout` s."""
    deadline = time.monotonic() + timeout
    while session_runs(settings, service):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def running_session(settings: ClientSettings, service: str) -> HttpClient:
    """A client of the session of that service. Raises NotFoundError where none runs."""
    path = control_socket(settings, service)
    if not path.exists() or not session_runs(settings, service):
        raise NotFoundError(f"no session of {service} runs here", fix=f"`satchel run {service}`")
    return HttpClient(path, peer=f"the session of {service}")


def control_app(runner: Runner, front: Front, stop: threading.Event) -> flask.Flask:
    """The application behind the control socket; `stop` is set when it is asked to end."""
    app = flask.Flask("satchel-control", static_folder=None)
    install_errors(app)
    moving = _HowFar()

    @app.get("/v1/status")
    def status() -> Any:
        return runner.status() | {"port": front.port, "url": front.url}

    @app.get("/v1/tally")
    def tally() -> Any:
        session = runner.session
        return {
            "under_way": session.operations.under_way,
            "answered": session.tally.answered,
            "answered_seconds": session.tally.answered_seconds,
            "first_responses": dict(session.tally.first_responses),
        }

    @app.post("/v1/move")
    def move() -> Any:
        body = flask.request.get_json(silent=True)
        fields = body if isinstance(body, dict) else {}
        surrogate, use_media = fields.get("to"), fields.get("use_media", True)
        route, routes = fields.get("route"), {known.value: known for known in Route}
        if (
            not isinstance(surrogate, str)
            or not isinstance(use_media, bool)
            or route not in (None, *routes)
        ):
            raise UsageError(
                "/v1/move needs a JSON object with to: str, use_media: bool, "
                f"route: one of {', '.join(routes)}, or null"
            )
        way = routes[route] if route else None
        try:
            brought = runner.move(surrogate, use_media=use_media, route=way, progress=moving)
        finally:
            moving(0, 0)
        return asdict(brought) | {"route": brought.route.value}

    @app.get("/v1/move")
    def how_far() -> Any:
        return {"done": moving.done, "total": moving.total}

    @app.get("/v1/plan")
    def plan() -> Any:
        surrogates = flask.request.args.getlist("at") or runner.elsewhere()
        return {"plans": [runner.plan(name).to_json() for name in surrogates]}

    @app.post("/v1/stop")
    def end() -> Any:
        try:
            unsent = runner.settle()
        finally:
            stop.set()
        return {"unsent": asdict(unsent) if unsent else None}

    return app


class _HowFar:
    """A Progress that whoever asks is told: moves are made one at a time."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total


def _lock_file(settings: ClientSettings, service: str) -> Path:
    return settings.run / f"{check_name(service, 'service')}.lock"


def _locks(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
