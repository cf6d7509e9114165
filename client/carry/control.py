# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The control socket of a session of a carried service, for `satchel status`, `move` and `stop`."""

from __future__ import annotations

import queue
from typing import Any

import flask

from client.carry.runner import CarryRunner
from client.fronts.tcp import TcpPort
from satchel.errors import UnsupportedError, UsageError
from wire import install_errors, serve_description


def carry_control(
    runner: CarryRunner, fronts: list[TcpPort], stop: queue.SimpleQueue[None]
) -> flask.Flask:
    """The application; when it is asked to end, `stop` is told."""
    app = flask.Flask("satchel-control", static_folder=None)
    install_errors(app)
    serve_description(app, "Satchel session")

    @app.get("/v1/status")
    def status() -> Any:
        """What `satchel status` shows."""
        urls = [front.url for front in fronts]
        return runner.status() | {"port": fronts[0].port, "url": urls[0], "urls": urls}

    @app.post("/v1/move")
    def move() -> Any:
        """To: SURROGATE; answers when the service leads there."""
        body = flask.request.get_json(silent=True)
        fields = body if isinstance(body, dict) else {}
        surrogate = fields.get("to")
        if not isinstance(surrogate, str):
            raise UsageError("/v1/move needs a JSON object with to: str")
        if fields.get("trace"):
            why = "what hosts did is gathered of moves of replayed services only"
            raise UnsupportedError(f"a move of {runner.service} is not traced", why=why)
        return runner.move(surrogate).to_json()

    @app.get("/v1/move")
    def how_far() -> Any:
        """Done, total: always 0."""
        return {"done": 0, "total": 0}

    @app.get("/v1/plan")
    def plan() -> Any:
        """Refused: there is one route."""
        why = "a move of a carried service is a hand-over, always"
        raise UnsupportedError(f"there is no plan for {runner.service}", why=why)

    @app.post("/v1/stop")
    def end() -> Any:
        """End the session."""
        try:
            runner.settle()
        finally:
            stop.put(None)
        return {"unsent": None}

    return app
