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

from hypervisor import MachineSpec
from replay import Response, decode_operations, encode_answers, encode_piece, encode_responses
from replica import PIECE_BYTES, PIECE_SECONDS, MachineSnapshot, tables_of
from satchel.errors import NotFoundError, UsageError
from satchel.ids import OperationNumber
from satchel.spans import Spans
from surrogate.host import Host
from surrogate.site import brought_routes
from surrogate.tenants.pacer import Pacer
from surrogate.tenants.tenant import Tenant, Usage
from wire import (
    JSON_BODY_LIMIT,
    CreateReplica,
    answer_spans,
    bound_json,
    install_errors,
    note_requests,
    octets,
    query,
    serve_description,
    streamed,
)

MAX_BODY = 256 << 20
"""Bytes of a request: a batch of operations."""

LARGE = ("/operations", "/reads", "/more")
"""Ends of the paths to which such a body goes; any other has JSON_BODY_LIMIT at most."""

PIECE_LIMIT = 4 << 20
"""Bytes of a delta that are asked for at once."""

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
    app.register_blueprint(brought_routes(tenant.brought))
    app.register_blueprint(_execution(host, tenant))
    app.register_blueprint(_staging(host, tenant))
    app.register_blueprint(_carrying(host, tenant))
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

    @app.get("/v1/replicas/<replica>/spans")
    @query(since=float)
    def spans(replica: str) -> Any:
        """SpanReport: what was done for it, and what the tenant asked; since: of this host's
        monotonic clock, else no spans."""
        return answer_spans(*host.replica(replica, tenant).spans, requests)

    @app.post("/v1/replicas/<replica>/digest")
    def digest(replica: str) -> Any:
        """Paths: a digest of the guest's files."""
        body = flask.request.get_json(silent=True)
        paths = body.get("paths") if isinstance(body, dict) else None
        if not isinstance(paths, list):
            raise UsageError("a digest needs a JSON object with paths: list")
        return {
            "digest": host.replica(replica, tenant).replica.digest([str(path) for path in paths])
        }

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


def _execution(host: Host, tenant: Tenant) -> flask.Blueprint:
    """Routes of a client to its replica."""
    routes = flask.Blueprint("execution", __name__, url_prefix="/v1/replicas/<replica>")

    @routes.post("/operations")
    @octets(sent=True, answered=True)
    @query(signed=bool, early=bool, long=bool)
    def execute(replica: str) -> Any:
        """Log records in, response records out, and signatures."""
        operations = decode_operations(flask.request.get_data())
        hosted = host.replica(replica, tenant)
        responses = hosted.answer(operations)
        if "signed" in flask.request.args:
            responses = hosted.signed(responses, operations, "operation", host.answer_key)
        if "early" in flask.request.args:
            return streamed(encode_answers(hosted.replica.early.before(responses)))
        if "long" in flask.request.args:
            return streamed(encode_answers(hosted.replica.long.before(operations, responses)))
        return streamed(encode_answers(responses))

    @routes.post("/reads")
    @octets(sent=True, answered=True)
    @query(signed=bool)
    def read(replica: str) -> Any:
        """The same for requests that change nothing and do not count."""
        operations = decode_operations(flask.request.get_data())
        hosted = host.replica(replica, tenant)
        responses: Iterable[Response] = hosted.read(operations)
        if "signed" in flask.request.args:
            responses = hosted.signed(responses, operations, "read", host.answer_key)
        return _octets(encode_responses(responses))

    @routes.post("/hand-over")
    def hand_over(replica: str) -> Any:
        """HandoverState: freeze it, so that it can go on elsewhere too."""
        return host.replica(replica, tenant).hand_over().to_json()

    @routes.get("/touched")
    def touched(replica: str) -> Any:
        """Touched: what its machine has touched here."""
        return host.replica(replica, tenant).touched().to_json()

    _pieces(routes, host, tenant)
    return routes


def _pieces(routes: flask.Blueprint, host: Host, tenant: Tenant) -> None:
    """Of a long answer."""

    @routes.get("/operations/<int:number>/answer")
    @octets(answered=True)
    @query(after=int, length=int)
    def piece(replica: str, number: int) -> Any:
        """A piece of a long answer."""
        hosted = host.replica(replica, tenant)
        hosted.touch()
        after, length = (flask.request.args.get(name, 0, int) for name in ("after", "length"))
        if after < 0 or not 0 <= length <= PIECE_BYTES:
            raise UsageError(f"a piece of an answer has at most {PIECE_BYTES} bytes")
        answer = hosted.replica.long.of(OperationNumber(number))
        return _octets(encode_piece(*answer.after(after, length, PIECE_SECONDS)))

    @routes.delete("/operations/<int:number>/answer")
    def forget(replica: str, number: int) -> Any:
        """Discard the rest of a long answer."""
        host.replica(replica, tenant).replica.long.of(OperationNumber(number)).drop()
        return {}


def _carrying(host: Host, tenant: Tenant) -> flask.Blueprint:
    """What a client has of a replica of a carried service besides."""
    routes = flask.Blueprint("carrying", __name__, url_prefix="/v1/replicas/<replica>")

    @routes.get("/streams")
    def streams(replica: str) -> Any:
        """Socket: where the streams of its guest are reached here."""
        door = host.replica(replica, tenant).replica.door
        if door is None:
            raise NotFoundError(f"replica {replica} has no streams now")
        return {"socket": str(door)}

    @routes.post("/delta")
    def delta(replica: str) -> Any:
        """Since: tables, hold: DeltaOffer of what changed since then; at: another freeze than
        one now, its tables and device_state."""
        body = flask.request.get_json(silent=True)
        fields = body if isinstance(body, dict) else {}
        hold = fields.get("hold", False)
        if not isinstance(hold, bool):
            raise UsageError("a delta needs a JSON object with since: tables, hold: bool")
        hosted, since = host.replica(replica, tenant), tables_of(fields.get("since"))
        hosted.touch()
        if "at" in fields:
            roots = tables_of(fields["at"])
            device = roots.pop("device_state", None)
            if device is None:
                raise UsageError("a freeze has tables and a device_state")
            frozen = MachineSnapshot(hosted.replica.last, device, roots)
            return hosted.deltas.again(since, frozen).offer(hold=False)
        return hosted.deltas.make(since, hold=hold).offer(hold=hold)

    @routes.get("/delta/<digest>")
    @octets(answered=True)
    @query(offset=int, length=int)
    def piece(replica: str, digest: str) -> Any:
        """A piece of that delta."""
        offset, length = (flask.request.args.get(name, 0, int) for name in ("offset", "length"))
        hosted = host.replica(replica, tenant)
        hosted.touch()
        if offset < 0 or not 0 < length <= PIECE_LIMIT:
            raise UsageError(f"a piece has 1 to {PIECE_LIMIT} bytes")
        return _octets(hosted.deltas.piece(digest, offset, length))

    _handing_over(routes, host, tenant)
    return routes


def _handing_over(routes: flask.Blueprint, host: Host, tenant: Tenant) -> None:
    """The last steps of a move, at either end."""

    @routes.post("/go-on")
    def go_on(replica: str) -> Any:
        """The end of hold."""
        host.replica(replica, tenant).replica.go_on()
        return {}

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


def _octets(data: bytes) -> flask.Response:
    return flask.Response(data, mimetype="application/octet-stream")
