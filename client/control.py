# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket on which other commands of this client reach a running session."""

from __future__ import annotations

import queue
from dataclasses import asdict
from typing import Any

import flask

from client.moves.routes import Route
from client.service import ServiceSession
from satchel.errors import UsageError
from wire import install_errors, query, serve_description


def control_app(session: ServiceSession, stop: queue.SimpleQueue[None]) -> flask.Flask:
    """The application behind the control socket; when it is asked to end, `stop` is told."""
    app = flask.Flask("satchel-control", static_folder=None)
    install_errors(app)
    serve_description(app, "Satchel session")
    app.register_blueprint(_moves(session))

    @app.get("/v1/status")
    def status() -> Any:
        """What `satchel status` shows."""
        return session.status()

    @app.get("/v1/tally")
    def tally() -> Any:
        """How many operations were answered, by whom, in how long; asks no surrogate."""
        use = session.contract.use()
        return {
            "under_way": use.under_way,
            "answered": use.exchanges,
            "answered_seconds": use.seconds,
            "first_responses": use.firsts,
        }

    @app.get("/v1/plan")
    @query(at=str)
    def plan() -> Any:
        """The routes there, or to every other surrogate; asks each what it can run."""
        surrogates = flask.request.args.getlist("at") or session.elsewhere()
        plans = [session.plan(name).to_json() for name in surrogates]
        hosts = [asdict(fit) | {"says": str(fit)} for fit in session.fits(surrogates)]
        return {"plans": [plan | {"host": host} for plan, host in zip(plans, hosts, strict=True)]}

    @app.post("/v1/stop")
    def end() -> Any:
        """End the session; answers what home has not yet, once it had time to take it."""
        try:
            unsent = session.settle()
        finally:
            stop.put(None)
        return {"unsent": asdict(unsent) if unsent else None}

    return app


def _moves(session: ServiceSession) -> flask.Blueprint:
    routes = flask.Blueprint("moves", __name__)
    moving = _ProgressReport()

    @routes.post("/v1/move")
    def move() -> Any:
        """To: SURROGATE, use_media: bool, route, trace: bool; answers when the new replica has
        joined, with trace: what each host did for it."""
        body = flask.request.get_json(silent=True)
        fields = body if isinstance(body, dict) else {}
        surrogate, use_media = fields.get("to"), fields.get("use_media", True)
        traced = fields.get("trace", False)
        route, routes = fields.get("route"), {known.value: known for known in Route}
        if (
            not isinstance(surrogate, str)
            or not isinstance(use_media, bool)
            or not isinstance(traced, bool)
            or route not in (None, *routes)
        ):
            raise UsageError(
                "/v1/move needs a JSON object with to: str, use_media: bool, trace: bool, "
                f"route: one of {', '.join(routes)}, or null"
            )
        way = routes[route] if route else None
        try:
            went = session.move(
                surrogate, use_media=use_media, route=way, progress=moving, traced=traced
            )
        finally:
            moving(0, 0)
        told = {"trace": session.trace.to_json()} if traced else {}
        return went.to_json() | told

    @routes.get("/v1/move")
    def how_far() -> Any:
        """Done, total: bytes of what only the old surrogate has; 0 while others are awaited."""
        return {"done": moving.done, "total": moving.total}

    return routes


class _ProgressReport:
    """The progress of the current move, for requests. Moves are made one at a time."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total
