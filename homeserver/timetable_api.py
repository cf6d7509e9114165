# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of home's timetable and notices."""

from __future__ import annotations

from typing import Any

import flask

from homeserver.home import Home
from wire import takes


def timetable_routes(home: Home) -> flask.Blueprint:
    """Return the routes of regular tasks and of notices."""
    routes = flask.Blueprint("timetable", __name__, url_prefix="/v1")

    @routes.get("/schedule")
    def tasks() -> Any:
        """Return each task, with its last and its next run."""
        return home.timetable.rows()

    @routes.post("/schedule/run")
    @takes(task=str)
    def run(fields: dict[str, Any]) -> Any:
        """Run a task now."""
        return home.timetable.run(fields["task"])

    @routes.get("/notices")
    def notices() -> Any:
        """Return the open notices."""
        return home.notices.rows()

    @routes.post("/notices/test")
    def test() -> Any:
        """Send a test notice by each channel; by place, why it failed."""
        return home.notices.test()

    return routes
