# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session's page shows: replicas and their volumes, routes elsewhere, the log and what of it
is stable, the medium, shares that are mounted here, traffic by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.service import ServiceSession
from client.shares import mount_rows
from wire import CachedView, View

PLAN_SECONDS = 5.0
"""How often routes are predicted anew: a giver is asked for that."""

REPLICA_COLUMNS = (
    "name",
    "state",
    "operation",
    "lag",
    "first_responses",
    "response_seconds",
    "fetched_bytes",
    "error",
)

STICK_COLUMNS = ("path", "generation", "free_bytes", "checkpoint", "damaged", "failure")

FOUND_COLUMNS = ("surrogate", "address", "port")

OFFER_COLUMNS = ("name", "address", "port", "runs", "price")

ROUTE_COLUMNS = ("surrogate", "route", "predicted_seconds", "bytes", "limit")

SHARE_COLUMNS = ("share", "mountpoint", "home", "files", "behind_bytes", "since_seconds")

SOURCE_COLUMNS = ("replica", "source", "priority", "requests", "chunks", "bytes", "seconds")

LOG = (
    "last_operation",
    "stable_operation",
    "waiting_operations",
    "checkpoint_operation",
    "checkpoint",
    "provisional",
    "journal_failure",
    "refusal",
)
"""Facts of a session's status, those that its kind has; these of what is logged."""

MEDIUM = ("media", "media_generation", "media_free_bytes", "damaged_chunks_on_media")

SESSION = (
    "answered",
    "sent_bytes",
    "policy",
    "contract",
    "leader",
    "behind_seconds",
    "delta_bytes",
    "losses",
)


class SessionView:
    """Makes a View of a session, for its page."""

    def __init__(self, session: ServiceSession) -> None:
        self._session = session
        self._routes = CachedView(self._plan, PLAN_SECONDS)

    def __call__(self) -> View:
        """A View. One thread at a time. Raises what the session's status and plans raise."""
        shares = [
            row | {"behind_bytes": row["bytes"], "since_seconds": row["seconds"]}
            for row in mount_rows(self._session.settings)
        ]
        return session_view(self._session.status(), self._routes(), shares)

    def _plan(self) -> list[dict[str, Any]]:
        """A row for each route."""
        plans = [self._session.plan(name).to_json() for name in self._session.elsewhere()]
        return [
            {"surrogate": plan["surrogate"]} | route | {"predicted_seconds": route["seconds"]}
            for plan in plans
            for route in plan["routes"]
        ]


def session_view(
    status: Mapping[str, Any], routes: list[dict[str, Any]], shares: list[dict[str, Any]]
) -> View:
    """A View of what `satchel status`, `satchel plan` and `satchel share status` show."""
    firsts, replicas = status["first_responses"], status["replicas"]
    rows = [row | {"first_responses": firsts.get(row["name"], 0)} for row in replicas]
    traffic = [{"replica": row["name"]} | s for row in replicas for s in row["sources"] or ()]
    maps = [
        {"name": f"{row['name']}, {volume['name']}", "parts": volume["parts"]}
        for row in replicas
        for volume in row["volumes"] or ()
    ]
    told = dict(status)
    if "stable_operation" in told:
        told["waiting_operations"] = max(0, told["last_operation"] - told["stable_operation"])
    here: list[dict[str, Any]] = [{"title": "What is here of each volume", "maps": maps}]
    there: list[dict[str, Any]] = [
        {"title": "Routes elsewhere", "columns": ROUTE_COLUMNS, "rows": routes}
    ]
    sticks = [{"title": "All media", "columns": STICK_COLUMNS, "rows": status["sticks"]}]
    met = [
        {"title": title, "columns": columns, "rows": status[key]}
        for title, columns, key in (
            ("A Satchel surrogate is here: pair?", OFFER_COLUMNS, "offers"),
            ("Found at another address, by its host key", FOUND_COLUMNS, "found"),
        )
        if status[key]
    ]
    return {
        "title": f"Session of {status['service']}",
        "sections": [
            {"title": "Replicas", "columns": REPLICA_COLUMNS, "rows": rows},
            *met,
            *(here if maps else ()),
            *there,
            {"title": "Log", "facts": {key: told[key] for key in LOG if key in told}},
            {"title": "Medium", "facts": {key: told[key] for key in MEDIUM if key in told}},
            *(sticks if len(status["sticks"]) > 1 else ()),
            {"title": "Shares mounted here", "columns": SHARE_COLUMNS, "rows": shares},
            {"title": "Traffic by source", "columns": SOURCE_COLUMNS, "rows": traffic},
            {"title": "Session", "facts": {key: told[key] for key in SESSION if key in told}},
        ],
    }
