# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What clients ask home about carried services, over HTTP."""

from __future__ import annotations

import re
from typing import Any

import flask

from homeserver.home import Home
from homeserver.services.deltas import older_checkpoint, take
from homeserver.services.service import Checkpoint
from replica import tables_of
from satchel.errors import NotFoundError, UsageError
from satchel.ids import CheckpointId
from wire import TouchReport, octets, query, runs_of

PIECE_LIMIT = 4 << 20
TOUCHED_LIMIT = 1 << 13
"""Blocks of a volume. A machine that has touched more has booted here, or is here for long: that
says little of what it needs next."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHECKPOINT = re.compile(r"[0-9a-f]{16}")


def carried_routes(home: Home) -> flask.Blueprint:
    """The routes at the top."""
    routes = flask.Blueprint("carried", __name__, url_prefix="/v1/services/<name>")
    _leading(routes, home)
    _incoming(routes, home)
    return routes


def _leading(routes: flask.Blueprint, home: Home) -> None:
    """Of a service whose machine at home leads."""

    @routes.get("/streams")
    def streams(name: str) -> Any:
        """Socket: where the streams of its guest are."""
        door = home.service(name).replica().door
        if door is None:
            raise NotFoundError(f"service {name} has no streams")
        return {"socket": str(door)}

    @routes.get("/touched")
    def touched(name: str) -> Any:
        """TouchReport: what its guest has touched here."""
        volumes = home.service(name).replica().volumes()
        found = {which: volume.map.touched() for which, volume in volumes.items()}
        known = all(len(blocks) <= TOUCHED_LIMIT for blocks in found.values())
        return TouchReport({k: runs_of(v) for k, v in found.items()} if known else {}).to_json()

    @routes.get("/egress")
    def egress(name: str) -> Any:
        """Socket: where what goes out at home does so."""
        manifest = home.service(name).shelf.latest()
        rule = manifest.contract.egress if manifest else None
        return {"socket": str(home.egress_doors.open(name, rule))}

    @routes.post("/delta")
    def delta(name: str) -> Any:
        """Since: tables, hold: DeltaOffer."""
        body = _body()
        hold = body.get("hold", False) is True
        made = home.service(name).deltas().make(tables_of(body.get("since")), hold=hold)
        return made.offer(hold=hold)

    @routes.get("/delta/<digest>")
    @octets(answered=True)
    @query(offset=int, length=int)
    def piece(name: str, digest: str) -> Any:
        """A piece of that delta."""
        offset, length = (flask.request.args.get(key, 0, int) for key in ("offset", "length"))
        if offset < 0 or not 0 < length <= PIECE_LIMIT:
            raise UsageError(f"a piece has 1 to {PIECE_LIMIT} bytes")
        data = home.service(name).deltas().piece(digest, offset, length)
        return flask.Response(data, mimetype="application/octet-stream")

    @routes.post("/copy")
    def copy(name: str) -> Any:
        """Take a checkpoint, of any service, and learn nothing of it."""
        return _signed(home.service(name).copy())

    @routes.post("/go-on")
    def go_on(name: str) -> Any:
        """The end of hold."""
        home.service(name).replica().go_on()
        return {}


def _incoming(routes: flask.Blueprint, home: Home) -> None:
    """Of a service whose machine elsewhere leads."""

    @routes.post("/touched")
    def told(name: str) -> Any:
        """TouchReport: what a guest has touched elsewhere, of any service; the next checkpoint
        learns it."""
        home.service(name).told.add(TouchReport.from_bytes(flask.request.get_data()).touched)
        return {}

    @routes.get("/deltas/<digest>")
    def have(name: str, digest: str) -> Any:
        """Size: how much home has of a delta."""
        return {"size": home.service(name).incoming.have(digest)}

    @routes.post("/deltas/<digest>")
    @octets(sent=True)
    @query(offset=int)
    def add(name: str, digest: str) -> Any:
        """A piece of a delta."""
        offset = flask.request.args.get("offset", -1, int)
        if offset < 0 or not _DIGEST.fullmatch(digest):
            raise UsageError("a piece of a delta has its SHA-256 and an offset")
        incoming = home.service(name).incoming
        return {"size": incoming.add(digest, offset, flask.request.get_data())}

    @routes.post("/deltas/<digest>/keep")
    def keep(name: str, digest: str) -> Any:
        """Parent, volumes: make a checkpoint of it; older: that one, and its signature, although
        home has a later one."""
        body, service = _body(), home.service(name)
        parent = body.get("parent")
        if not isinstance(parent, str) or not _CHECKPOINT.fullmatch(parent):
            raise UsageError("a delta needs the checkpoint since which it is: parent")
        data, tables = service.incoming.whole(digest), tables_of(body.get("volumes"))
        older = older_checkpoint(service, body.get("older"))
        kept = take(service, home.store, CheckpointId(parent), data, tables, older)
        service.incoming.clear()
        return _signed(kept)


def _signed(kept: Checkpoint) -> dict[str, str]:
    manifest, signature = kept.manifest.to_bytes(), kept.signature
    return {"manifest": manifest.decode(), "signature": signature.decode()}


def _body() -> dict[str, Any]:
    body = flask.request.get_json(silent=True)
    if not isinstance(body, dict):
        raise UsageError(f"{flask.request.path} needs a JSON object")
    return body
