# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The route of home's API by which an unpaired client's work ends. Only the owner may use it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import flask

from homeserver.edge import EdgeDoors
from homeserver.home import Home
from homeserver.shares import Shares
from satchel.errors import UsageError
from wire import takes


def clients_routes(home: Home, shares: Shares | None, edges: EdgeDoors | None) -> flask.Blueprint:
    """shares, edges: where home has them"""
    routes = flask.Blueprint("clients", __name__, url_prefix="/v1/clients")

    @routes.post("/ended")
    @takes(doors=list)
    def ended(fields: dict[str, Any]) -> Any:
        """End the work of these doors, by their process numbers."""
        if not all(type(door) is int for door in fields["doors"]):
            raise UsageError("doors must be numbers of processes")
        doors = frozenset(fields["doors"])
        grants = edges.revoke_used(doors) if edges else []
        nodes = shares.end_nodes_of(doors) if shares else 0
        report = asdict(home.end_clients(doors))
        return {**report, "nodes": nodes, "grants": [asdict(grant) for grant in grants]}

    return routes
