# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home over HTTP. Only the owner can connect to the socket: OpenSSH ensures that.

homeserver/deltas_api.py, homeserver/shares_api.py and uplink/helper/api.py have the routes of
carried services, of shares and of cloud storage. GET /v1/openapi.json describes all routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flask
from flask.json.provider import DefaultJSONProvider

from chunkstore import answering_places
from homeserver.clients_api import clients_routes
from homeserver.deltas_api import deltas_routes
from homeserver.edge import EdgeDoors
from homeserver.home import Home
from homeserver.jobs import Jobs
from homeserver.media.carry import ALL_OF_IT
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.places import require_seen
from homeserver.services.records import CheckpointNotFound, NewService
from homeserver.services.service import Service
from homeserver.settings import DOOR_SOCKET
from homeserver.shares import Shares
from homeserver.shares_api import grants_routes, shares_routes
from homeserver.timetable_api import timetable_routes
from hosting import replica_routes
from replay import decode_operations, encode_operations
from satchel.errors import AccessError, UsageError
from satchel.ids import CheckpointId, OperationNumber
from satchel.retention import RetentionPolicy
from satchel.spans import Spans
from satchel.typed import Form, TypeMismatch
from uplink.helper import ServiceHelpers, uplink_routes
from wire import (
    Lease,
    PrioritySemaphore,
    ServiceStatus,
    bound_json,
    chunk_routes,
    install_errors,
    note_requests,
    octets,
    query,
    query_number,
    serve,
    serve_description,
    takes,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_BODY = 256 << 20
"""Bytes of a request: a batch of operations, each of them at most a replay payload."""

CHUNK_READERS = 4
"""Requests for chunks that read the store at once; the most urgent go first."""

LIST_LIMIT = 4096
"""Operations that are listed at once."""

_DOOR = "satchel.door"
"""The key in WSGI's environment that marks a request through a door."""

_CLIENTS_BLUEPRINTS = frozenset({"chunks", "operations", "replica", "deltas", "uplink"})
_CLIENTS_ENDPOINTS = frozenset(
    {"services.launch", "services.want", "services.stop", "checkpoints.take"}
)
_OWNERS_ENDPOINT = "replica.digest"
"""A paired client may change things only by these. A checkpoint is not taken onto a path for it."""


def home_app(
    home: Home,
    shares: Shares | None = None,
    works: Jobs | None = None,
    edges: EdgeDoors | None = None,
    helper: ServiceHelpers | None = None,
) -> flask.Flask:
    """The application of `home`. Requests are answered in the server's threads. Who ends the
    server closes `works` first."""
    app = flask.Flask("satchel-home", static_folder=None)
    app.json = _OrderedJson(app)
    install_errors(app)
    requests = Spans()
    note_requests(app, requests)
    bound_json(app)
    app.before_request(_bound_door)
    works = works or Jobs()
    for routes in (
        *(_chunks(home), _services(home), _operations(home, works), _checkpoints(home, works)),
        *(_upkeep(home, works), _works(works), deltas_routes(home)),
        *(clients_routes(home, shares, edges), timetable_routes(home)),
        replica_routes("/v1/services/<name>", home.service, requests),
    ):
        app.register_blueprint(routes)

    @app.get("/v1/status")
    def status() -> Any:
        """Return what this host can run, and the running machines."""
        return home.status()

    if shares:
        app.register_blueprint(shares_routes(shares))
    if edges:
        app.register_blueprint(grants_routes(edges))
    if helper:
        app.register_blueprint(uplink_routes(helper))
    serve_description(app, "Satchel home")
    return app


def serve_home(app: flask.Flask, socket: Path, *, threads: int) -> ExitStack:
    """Serve `app` at the owner's socket, and at the socket for doors beside it, until `close`.

    A request through a door may use services, their operations and chunks. It may not use what
    takes a path of this host, or what only the owner decides.
    """

    def through_door(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return app(environ | {_DOOR: True}, start)

    with ExitStack() as stack:
        for place, served in ((socket, app), (socket.with_name(DOOR_SOCKET), through_door)):
            stack.enter_context(serve(served, place, threads=threads, max_body=MAX_BODY))
        return stack.pop_all()


def _bound_door() -> None:
    """Raise AccessError if a paired client asks for what is only the owner's."""
    request = flask.request
    if not request.environ.get(_DOOR) or request.method in ("GET", "HEAD"):
        return
    of_clients = request.blueprint in _CLIENTS_BLUEPRINTS and request.endpoint != _OWNERS_ENDPOINT
    if of_clients or request.endpoint in _CLIENTS_ENDPOINTS:
        return
    _refuse_door()


def _refuse_door() -> None:
    """Raise AccessError if the request came through a door."""
    request = flask.request
    if request.environ.get(_DOOR):
        raise AccessError(
            f"{request.method} {request.path} is not for paired clients",
            why="their keys may use services, and not the files of this host",
            fix="run the command of `satchel-home` at home",
        )


class _OrderedJson(DefaultJSONProvider):
    """A command shows what the daemon answers in the order in which it shows its own."""

    sort_keys = False


def _upkeep(home: Home, works: Jobs) -> flask.Blueprint:
    routes = flask.Blueprint("upkeep", __name__, url_prefix="/v1")

    @routes.post("/forget")
    @takes(names=list, policy=dict, dry_run=bool)
    def forget(fields: dict[str, Any]) -> Any:
        """Apply a policy to volumes and services."""
        known = set(asdict(RetentionPolicy()))
        if not all(isinstance(name, str) for name in fields["names"]):
            raise UsageError("names must be strings")
        if not set(fields["policy"]) <= known or not all(
            type(number) is int for number in fields["policy"].values()
        ):
            raise UsageError(f"a policy has numbers for some of {', '.join(sorted(known))}")
        policy = RetentionPolicy(**fields["policy"]) if fields["policy"] else None
        verdicts = home.forget(fields["names"], policy, dry_run=fields["dry_run"])
        return [asdict(verdict) for verdict in verdicts]

    @routes.get("/stats")
    def stats() -> Any:
        """Return the statistics of the store."""
        return asdict(home.store.stats())

    @routes.post("/prune")
    @takes(dry_run=bool)
    @query(work=str)
    def prune(fields: dict[str, Any]) -> Any:
        """Remove what nothing names."""
        dry_run = fields["dry_run"]
        with works.begin(_word()) as progress:
            return home.prune(dry_run=dry_run, progress=progress)

    @routes.post("/verify")
    @takes()
    @query(work=str)
    def verify(fields: dict[str, Any]) -> Any:
        """Read the whole store."""
        with works.begin(_word()) as progress:
            return home.verify(progress)

    @routes.post("/settle")
    @takes()
    @query(work=str)
    def settle(fields: dict[str, Any]) -> Any:
        """Compress the whole store further."""
        with works.begin(_word()) as progress:
            return home.settle(progress)

    @routes.post("/import")
    @takes(file=str, name=str)
    @query(work=str, seen=str)
    def import_volume(fields: dict[str, Any]) -> Any:
        """A file, by its absolute path on this host."""
        file = _seen(Path(fields["file"]))
        with works.begin(_word()) as progress:
            return home.import_volume(file, fields["name"], progress)

    @routes.post("/export")
    @takes(name=str, file=str, overwrite=bool)
    @query(work=str, seen=str)
    def export_volume(fields: dict[str, Any]) -> Any:
        """To such a file."""
        file, overwrite = Path(fields["file"]), fields["overwrite"]
        _seen(file.parent)
        with works.begin(_word()) as progress:
            return home.export_volume(fields["name"], file, overwrite, progress)

    return routes


def _works(works: Jobs) -> flask.Blueprint:
    routes = flask.Blueprint("works", __name__, url_prefix="/v1/works")

    @routes.get("/<word>")
    def state(word: str) -> Any:
        """How far a long request with ?work=WORD is."""
        return works.state(word)

    @routes.delete("/<word>")
    def stop(word: str) -> Any:
        """Stop it."""
        works.stop(word)
        return {}

    return routes


def _chunks(home: Home) -> flask.Blueprint:
    records, turnstile = home.store.records, PrioritySemaphore(CHUNK_READERS)
    return chunk_routes(turnstile.in_turn(records), turnstile.in_turn(answering_places(records)))


def _services(home: Home) -> flask.Blueprint:
    routes = flask.Blueprint("services", __name__, url_prefix="/v1/services")

    @routes.get("")
    def every() -> Any:
        """Every service."""
        return [asdict(view) for view in home.views()]

    @routes.post("")
    def add() -> Any:
        """Add one: name, image, machine."""
        try:
            new = Form().typed(flask.request.get_json(silent=True), NewService, "the service")
        except (TypeMismatch, RecursionError) as error:
            what = "needs a JSON object with name: str, image: str, and perhaps machine"
            raise UsageError(f"{flask.request.path} {what}", why=str(error)) from error
        home.add_service(new.name, new.image, new.machine)
        return {}

    @routes.get("/<name>")
    def one(name: str) -> Any:
        """ServiceStatus."""
        return _status(home.service(name)).to_json()

    @routes.delete("/<name>")
    def remove(name: str) -> Any:
        """Forget it."""
        home.remove_service(name)
        return {}

    _replicas(routes, home)
    return routes


def _replicas(routes: flask.Blueprint, home: Home) -> None:
    """Add the routes of a service's replica here."""

    @routes.post("/<name>/launch")
    def launch(name: str) -> Any:
        """Boot or resume the first-class replica."""
        home.launch(name)
        return asdict(home.service(name).view())

    @routes.post("/<name>/want")
    def want(name: str) -> Any:
        """Have it launched soon, and again after each start of the daemon."""
        home.want(name)
        return asdict(home.service(name).view())

    @routes.post("/<name>/stop")
    def stop(name: str) -> Any:
        """End it."""
        home.stop(name)
        return asdict(home.service(name).view())


def _operations(home: Home, works: Jobs) -> flask.Blueprint:
    routes = flask.Blueprint("operations", __name__, url_prefix="/v1/services/<name>")

    @routes.post("/lease")
    @takes(client=str, take_over=bool)
    def claim(fields: dict[str, Any], name: str) -> Any:
        """Client, take_over."""
        service = home.service(name)
        service.lease.claim(fields["client"], take_over=fields["take_over"])
        return {
            "log_keys": service.log_keys.for_client(),
            "revoked_media": home.settings.media_keys.revoked(),
        }

    @routes.delete("/lease/<client>")
    def release(name: str, client: str) -> Any:
        """Give it back."""
        home.service(name).lease.release(client)
        return {}

    @routes.get("/operations")
    @octets(answered=True)
    @query(after=int, limit=int)
    def logged(name: str) -> Any:
        """Log records."""
        after = OperationNumber(query_number("after"))
        operations = home.service(name).replayed.operations(
            after, query_number("limit", 256, 1, LIST_LIMIT)
        )
        return encode_operations(operations)

    @routes.post("/doctor")
    @octets(sent=True)
    @query(work=str)
    def doctor(name: str) -> Any:
        """Log records in, or home's log: do replicas differ."""
        operations = decode_operations(flask.request.get_data())
        with works.begin(_word()) as progress:
            return home.service(name).diagnose(operations, progress)

    _answers(routes, home)
    return routes


def _answers(routes: flask.Blueprint, home: Home) -> None:
    """What home has answered to one operation, or is answering; and what the machine says."""

    @routes.get("/console")
    @query(after=int)
    def console(name: str) -> Any:
        """Read the console of its machine: the text, and the offset of its end."""
        said, end = home.service(name).console(query_number("after"))
        return {"text": said.decode("utf-8", "replace"), "end": end}

    @routes.get("/operations/<int:number>/digest")
    def digest(name: str, number: int) -> Any:
        """The digest of a logged operation, or of one that was cut."""
        return {
            "digest": (home.service(name).replayed.digest(OperationNumber(number)) or b"").hex()
        }

    @routes.get("/operations/<int:number>/statement")
    def statement(name: str, number: int) -> Any:
        """Home's signature of what it answered."""
        return home.service(name).statement(OperationNumber(number)).to_json()


def _checkpoints(home: Home, works: Jobs) -> flask.Blueprint:
    routes = flask.Blueprint("checkpoints", __name__, url_prefix="/v1")

    @routes.get("/services/<name>/checkpoint")
    def newest(name: str) -> Any:
        """The newest manifest and its signature."""
        service = home.service(name)
        manifest = service.shelf.latest()
        if manifest is None:
            raise CheckpointNotFound(
                f"no checkpoint of {name} yet", fix=f"`satchel-home launch {name}` makes the first"
            )
        signature = service.shelf.signature(manifest.id)
        return {"manifest": manifest.to_bytes().decode(), "signature": signature.decode()}

    @routes.post("/media/sync")
    @takes(media=str, services=list, doubtful=str, budget=int)
    @query(work=str, seen=str)
    def sync(fields: dict[str, Any]) -> Any:
        """Newest checkpoints onto media."""
        if not all(isinstance(name, str) for name in fields["services"]):
            raise UsageError("services must be strings")
        media, doubtful = _seen(Path(fields["media"])), UnsealedPolicy.of(fields["doubtful"])
        budget = None if fields["budget"] == ALL_OF_IT else fields["budget"]
        with works.begin(_word()) as progress:
            written = home.sync(
                fields["services"], media, progress=progress, doubtful=doubtful, budget=budget
            )
            return asdict(written)

    @routes.post("/media/defrag")
    @takes(media=str)
    @query(work=str, seen=str)
    def defrag(fields: dict[str, Any]) -> Any:
        """What resumes read first, in one piece."""
        media = _seen(Path(fields["media"]))
        with works.begin(_word()) as progress:
            return asdict(home.defragment(media, progress))

    @routes.post("/media/rotate")
    @takes(media=str, keys=list, doubtful=str)
    @query(work=str, seen=str)
    def rotate(fields: dict[str, Any]) -> Any:
        """Another key, for these SSH public keys."""
        if not all(isinstance(key, str) for key in fields["keys"]):
            raise UsageError("keys must be strings")
        media, doubtful = _seen(Path(fields["media"])), UnsealedPolicy.of(fields["doubtful"])
        with works.begin(_word()):
            return asdict(home.rotate(media, fields["keys"], doubtful))

    @routes.post("/services/<name>/checkpoint")
    @takes(media=str, doubtful=str)
    @query(work=str, seen=str)
    def take(fields: dict[str, Any], name: str) -> Any:
        """Take one; media: PATH to carry it."""
        media, doubtful = fields["media"], UnsealedPolicy.of(fields["doubtful"])
        with works.begin(_word()) as progress:
            if media:
                _refuse_door()
                root = _seen(Path(media))
                return asdict(home.carry(name, root, progress=progress, doubtful=doubtful))
            taken = home.service(name).checkpoint()
        return {
            "checkpoint": taken.manifest.id,
            "operation": taken.manifest.operation,
            "paused_seconds": taken.paused_seconds,
        }

    return routes


def _status(service: Service) -> ServiceStatus:
    view = service.view()
    lease = service.lease.current()
    return ServiceStatus(
        service=view.name,
        checkpoint=CheckpointId(view.checkpoint) if view.checkpoint else None,
        last_logged=OperationNumber(view.last_logged),
        last_executed=OperationNumber(view.last_executed),
        lease=Lease(*lease) if lease else None,
    )


def _word() -> str:
    """Return the client's word for a long request; empty if it asks for no progress."""
    return flask.request.args.get("work", "")


def _seen(place: Path) -> Path:
    """Return the place. Raises PlaceHidden if the command means another one."""
    require_seen(place, flask.request.args.get("seen", ""))
    return place
