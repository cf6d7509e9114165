# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares and their grants at surrogates, over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import flask

from homeserver.edge import EdgeDoors, ShareGrant
from homeserver.places import require_seen
from homeserver.shares import Shares
from satchel.errors import UsageError
from satchel.typed import Form, TypeMismatch
from shares.home import ShareRecord, Terms
from wire import query, takes


def shares_routes(shares: Shares) -> flask.Blueprint:
    """Return the routes of this home's shares."""
    routes = flask.Blueprint("shares", __name__, url_prefix="/v1/shares")

    @routes.get("")
    def every() -> Any:
        """Every share."""
        return shares.listed()

    @routes.post("")
    @takes(name=str, path=str, policy=str, relaxation=float, log=str)
    @query(seen=str)
    def add(fields: dict[str, Any]) -> Any:
        """Add one: name, path, policy, relaxation, log."""
        require_seen(Path(fields["path"]), flask.request.args.get("seen", ""))
        shares.add(ShareRecord(**fields))
        return {}

    @routes.post("/<name>/terms")
    def change(name: str) -> Any:
        """Change its terms."""
        try:
            terms = Form().typed(flask.request.get_json(silent=True), Terms, "the terms")
        except TypeMismatch as error:
            raise UsageError(f"cannot change share {name}", why=str(error)) from error
        return asdict(shares.change(name, terms.change))

    @routes.get("/<name>")
    def status(name: str) -> Any:
        """Return the nodes of a share, the blocks of each, and its lag."""
        return shares.status(name)

    @routes.delete("/<name>")
    def remove(name: str) -> Any:
        """Share it no more."""
        shares.remove(name)
        return {}

    return routes


def grants_routes(edges: EdgeDoors) -> flask.Blueprint:
    """Return the routes of grants, by which surrogates use shares."""
    routes = flask.Blueprint("grants", __name__, url_prefix="/v1/share-grants")

    @routes.get("")
    def every() -> Any:
        """Return the grants of shares at surrogates."""
        return [asdict(grant) for grant in edges.grants()]

    @routes.post("")
    @takes(share=str, service=str, surrogate=str, writable=bool)
    def grant(fields: dict[str, Any]) -> Any:
        """Grant: share, service, surrogate, writable."""
        edges.grant(ShareGrant(**fields))
        return {}

    @routes.delete("/<share>/<service>/<surrogate>")
    def revoke(share: str, service: str, surrogate: str) -> Any:
        """Take it back."""
        edges.revoke(share, service, surrogate)
        return {}

    @routes.get("/<service>/<surrogate>")
    def about(service: str, surrogate: str) -> Any:
        """Return what a client lends there: share, writable, log."""
        return edges.about(service, surrogate)

    return routes
