# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate over HTTP, as one tenant has it. The daemon's own socket has more, for its operator
(surrogate/operator_api.py). What is another tenant's is not there: not by its id R, in no list, in
no number.

Chunks (wire/chunks.py) are those of the cache below what the tenant brought or was given.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import Any

import flask

from hosting import replica_routes
from hypervisor import MachineSpec
from satchel.errors import UsageError
from satchel.spans import Spans
from surrogate.host import Host
from surrogate.replicas.hosted import HostedReplica
from surrogate.site import brought_routes
from surrogate.tenants.pacer import Pacer
from surrogate.tenants.tenant import Tenant, Usage
from wire import (
    JSON_BODY_LIMIT,
    CreateReplica,
    Statement,
    bound_json,
    install_errors,
    note_requests,
    octets,
    query,
    serve_description,
)

MAX_BODY = 256 << 20
"""Bytes of a request: a batch of operations."""

LARGE = ("/operations", "/reads", "/more")
"""Ends of the paths to which such a body goes; any other has JSON_BODY_LIMIT at most."""

WAIT_LIMIT = 60.0
"""Seconds that a status request may wait."""


def surrogate_app(host: Host, tenant: Tenant | None = None) -> flask.Flask:
    """Return the application of `host` for a tenant, by default the account. The server's threads
    answer requests."""
    tenant = tenant or host.tenants.account
    app = flask.Flask("satchel-surrogate", static_folder=None)
    install_errors(app)
    requests = Spans()
    note_requests(app, requests)
    bound_json(app)
    _count(app, tenant)
    if tenant is not host.tenants.account:
        _pace(app, tenant, host.tenants.pacer)

    def served(replica: str) -> HostedReplica:
        hosted = host.replica(replica, tenant)
        hosted.touch()
        return hosted

    def sign(said: Statement) -> bytes:
        return host.answer_key.sign(said)

    app.register_blueprint(brought_routes(tenant.brought))
    app.register_blueprint(replica_routes("/v1/replicas/<replica>", served, requests, sign))
    app.register_blueprint(_moving(host, tenant))
    app.register_blueprint(_staging(host, tenant))
    serve_description(app, "Satchel surrogate")

    @app.get("/v1/status")
    def status() -> Any:
        """HostStatus, with the tenant's replicas."""
        return host.status(tenant).to_json()

    @app.post("/v1/fits")
    def fits() -> Any:
        """A machine spec: the accelerator it would run under, or why not."""
        spec = MachineSpec.from_json(flask.request.get_json(silent=True))
        return {"accelerator": host.placed(spec).accelerator}

    @app.post("/v1/replicas")
    def create() -> Any:
        """CreateReplica: admit one and begin to resume it."""
        request = CreateReplica.from_bytes(flask.request.get_data())
        status = host.create(request, tenant).status()
        return dataclasses.replace(status, signer=host.answer_key.public).to_json()

    @app.get("/v1/replicas/<replica>")
    @query(wait=float)
    def one(replica: str) -> Any:
        """ReplicaStatus, once it is ready or failed or time is up."""
        hosted = host.replica(replica, tenant)
        hosted.wait_started(min(WAIT_LIMIT, flask.request.args.get("wait", 0.0, float)))
        return hosted.status().to_json()

    @app.delete("/v1/replicas/<replica>")
    def remove(replica: str) -> Any:
        """End it."""
        host.remove(replica, tenant)
        return {}

    return app


def body_limit(path: str) -> int:
    """Bytes that the body of a request to that path of a tenant's API may have."""
    return MAX_BODY if path.endswith(LARGE) else JSON_BODY_LIMIT


def _count(app: flask.Flask, tenant: Tenant) -> None:
    """Count what comes and goes; nothing more of either on a day on which that is too much."""

    @app.before_request
    def come() -> None:
        tenant.require_day()
        tenant.count(flask.request.content_length or 0)

    @app.after_request
    def go(response: flask.Response) -> flask.Response:
        if response.is_streamed:
            response.response = _counted(response.iter_encoded(), tenant)
        else:
            tenant.count(response.content_length or 0)
        return response


def _pace(app: flask.Flask, tenant: Tenant, pacer: Pacer) -> None:
    """Requests begin at the tenant's pace."""

    @app.before_request
    def begin() -> None:
        flask.g.kind = "chunks" if flask.request.path in ("/v1/chunks", "/v1/below") else "api"
        pacer.begin(tenant.identity, flask.g.kind)
        flask.g.began = time.thread_time()

    @app.teardown_request
    def end(error: BaseException | None) -> None:
        if "began" in flask.g:
            pacer.end(tenant.identity, flask.g.kind, time.thread_time() - flask.g.began)


def _counted(pieces: Iterable[bytes], tenant: Tenant) -> Iterator[bytes]:
    for piece in pieces:
        tenant.count(len(piece))
        yield piece


def _moving(host: Host, tenant: Tenant) -> flask.Blueprint:
    """Make the routes for a move, at either end of it."""
    routes = flask.Blueprint("moving", __name__, url_prefix="/v1/replicas/<replica>")

    @routes.post("/hand-over")
    def hand_over(replica: str) -> Any:
        """HandoverState: freeze it, so that it can go on elsewhere too."""
        return host.replica(replica, tenant).hand_over().to_json()

    @routes.post("/more")
    @octets(sent=True)
    @query(go=bool)
    def more(replica: str) -> Any:
        """A delta for one that stands by; go: the last one."""
        hosted = host.replica(replica, tenant)
        hosted.touch()
        if hosted.standby is None:
            raise UsageError(f"replica {replica} was not asked for to stand by")

        def require(more: int) -> None:
            tenant.require_room(host.usage(tenant) + Usage(overlay_bytes=more), 0)

        data, go = flask.request.get_data(), "go" in flask.request.args
        hosted.standby.take(data, go=go, require=require)
        if "go" in flask.request.args:
            hosted.wait_started(WAIT_LIMIT)
        return hosted.status().to_json()

    return routes


def _staging(host: Host, tenant: Tenant) -> flask.Blueprint:
    """Routes of staging: chunks are fetched before a replica is requested."""
    routes = flask.Blueprint("staging", __name__, url_prefix="/v1/staged")

    @routes.post("")
    def stage() -> Any:
        """CreateReplica: fetch what a machine needs, and begin none."""
        request = CreateReplica.from_bytes(flask.request.get_data())
        return host.stage(request, tenant).status().to_json()

    @routes.get("/<replica>")
    def one(replica: str) -> Any:
        """Staged."""
        return host.staged(replica, tenant).status().to_json()

    @routes.delete("/<replica>")
    def end(replica: str) -> Any:
        """Fetch nothing more."""
        host.unstage(replica, tenant)
        return {}

    return routes
