# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machines of a service that lead elsewhere, over HTTP: home gives them copies and a way out, and
takes their deltas."""

from __future__ import annotations

import re
from typing import Any

import flask

from homeserver.home import Home
from homeserver.services.carried import SIZE_LIMIT
from homeserver.services.service import Checkpoint
from replica import tables_of
from satchel.errors import UsageError
from satchel.ids import CheckpointId
from wire import TouchReport, octets, query, query_number

_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHECKPOINT = re.compile(r"[0-9a-f]{16}")


def deltas_routes(home: Home) -> flask.Blueprint:
    """The routes at the top."""
    routes = flask.Blueprint("deltas", __name__, url_prefix="/v1/services/<name>")

    @routes.get("/egress")
    def egress(name: str) -> Any:
        """Socket: where what goes out at home does so."""
        manifest = home.service(name).shelf.latest()
        rule = manifest.contract.egress if manifest else None
        return {"socket": str(home.egress_doors.open(name, rule))}

    @routes.post("/copy")
    def copy(name: str) -> Any:
        """Take a checkpoint, of any service, and learn nothing of it."""
        return _signed(home.service(name).copy())

    @routes.post("/touched")
    def told(name: str) -> Any:
        """TouchReport: what a guest has touched elsewhere, of any service; the next checkpoint
        learns it."""
        home.service(name).told.add(TouchReport.from_bytes(flask.request.get_data()).touched)
        return {}

    _incoming(routes, home)
    return routes


def _incoming(routes: flask.Blueprint, home: Home) -> None:
    """Add the routes by which a delta comes, and becomes a checkpoint."""

    @routes.get("/deltas/<digest>")
    def have(name: str, digest: str) -> Any:
        """Size: how much home has of a delta."""
        return {"size": home.service(name).carried.incoming.have(digest)}

    @routes.post("/deltas/<digest>")
    @octets(sent=True)
    @query(offset=int)
    def add(name: str, digest: str) -> Any:
        """A piece of a delta."""
        if not _DIGEST.fullmatch(digest):
            raise UsageError("a piece of a delta is named by its SHA-256")
        incoming = home.service(name).carried.incoming
        offset = query_number("offset", -1, most=SIZE_LIMIT)
        return {"size": incoming.add(digest, offset, flask.request.get_data())}

    @routes.post("/deltas/<digest>/keep")
    def keep(name: str, digest: str) -> Any:
        """Parent, volumes: make a checkpoint of it; older: that one, and its signature, although
        home has a later one."""
        body, service = _body(), home.service(name)
        parent = body.get("parent")
        if not isinstance(parent, str) or not _CHECKPOINT.fullmatch(parent):
            raise UsageError("a delta needs the checkpoint since which it is: parent")
        carried, tables = service.carried, tables_of(body.get("volumes"))
        data, older = carried.incoming.whole(digest), carried.older(body.get("older"))
        with home.store.making():
            state = carried.take(home.store, CheckpointId(parent), data, tables, older)
            kept = service.keep(*state)
        carried.incoming.clear()
        return _signed(kept)


def _signed(kept: Checkpoint) -> dict[str, str]:
    manifest, signature = kept.manifest.to_bytes(), kept.signature
    return {"manifest": manifest.decode(), "signature": signature.decode()}


def _body() -> dict[str, Any]:
    body = flask.request.get_json(silent=True)
    if not isinstance(body, dict):
        raise UsageError(f"{flask.request.path} needs a JSON object")
    return body
