# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of one replica. Home serves them below /v1/services/S, a surrogate below
/v1/replicas/R."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import flask

from replay import (
    Answered,
    Operation,
    ReadDigest,
    Response,
    Sample,
    decode_operations,
    encode_answers,
    encode_piece,
    encode_responses,
    split_samples,
)
from replica import (
    PIECE_BYTES,
    PIECE_SECONDS,
    DeltaMaker,
    MachineSnapshot,
    Replica,
    tables_of,
)
from satchel.errors import NotFoundError, UsageError
from satchel.ids import OperationNumber
from satchel.spans import Spans
from wire import (
    Statement,
    TouchReport,
    answer_spans,
    octets,
    query,
    query_number,
    runs_of,
    streamed,
    takes,
)

CLIENT_HEADER = "X-Satchel-Client"
"""The name of the client that sends operations. Home gives it the lease."""

DELTA_PIECE_LIMIT = 4 << 20
"""Bytes of a delta that are sent at once."""


class ServedReplica(Protocol):
    """A replica as its daemon offers it to a client. Thread-safe."""

    @property
    def about(self) -> tuple[str, str]:
        """Its service, and its id in statements."""

    @property
    def spans(self) -> tuple[Spans, ...]:
        """The spans of its work."""

    @property
    def present(self) -> Replica | None:
        """The replica, even one that is starting; None without one."""

    @property
    def running(self) -> Replica:
        """The replica. Raise an error without one."""

    @property
    def deltas(self) -> DeltaMaker:
        """The maker of its deltas. Raise as `running`."""

    def claim(self, client: str) -> None:
        """Note that this client sends operations. Raise ConflictError if it may not."""

    def answer(self, operations: Sequence[Operation]) -> Iterator[Response]:
        """Execute operations in order, and give each response at once."""

    def read(self, operations: Sequence[Operation]) -> Sequence[Response]:
        """Execute requests that change nothing and are not counted."""

    def compare(self, samples: Sequence[Sample]) -> Iterator[ReadDigest]:
        """Have reads executed beside operations; give the digests after these."""

    def touched(self) -> Mapping[str, Iterable[int]]:
        """The blocks that its machine has touched here, by volume, in that order."""


Find = Callable[..., ServedReplica]
Sign = Callable[[Statement], bytes]


def replica_routes(
    prefix: str, find: Find, requests: Spans, sign: Sign | None = None
) -> flask.Blueprint:
    """Return the routes at the top. prefix: has one variable, which is given to `find` by its name;
    requests: those to this daemon; sign: signs responses where a client wants that."""
    routes = flask.Blueprint("replica", __name__, url_prefix=prefix)

    @routes.get("/spans")
    @query(since=float)
    def spans(**where: str) -> Any:
        """SpanReport: the work for it, and requests to this host. since: a time of this host's
        monotonic clock; without it no spans."""
        return answer_spans(*find(**where).spans, requests)

    @routes.get("/touched")
    def touched(**where: str) -> Any:
        """TouchReport: what its machine has touched here."""
        found = find(**where).touched().items()
        return TouchReport({name: runs_of(blocks) for name, blocks in found}).to_json()

    @routes.post("/digest")
    @takes(paths=list)
    def digest(fields: dict[str, Any], **where: str) -> Any:
        """Paths: a digest of the guest's files."""
        paths = fields["paths"]
        if not all(isinstance(path, str) for path in paths):
            raise UsageError("paths must be strings")
        return {"digest": find(**where).running.digest(paths)}

    _operations(routes, find, sign)
    _streams(routes, find)
    return routes


def _operations(routes: flask.Blueprint, find: Find, sign: Sign | None) -> None:
    """Add the routes of a replayed service."""

    @routes.post("/operations")
    @octets(sent=True, answered=True)
    @query(signed=bool, early=bool, long=bool)
    def execute(**where: str) -> Any:
        """Samples and log records in, response records out."""
        samples, records = split_samples(flask.request.get_data())
        operations, served = decode_operations(records), claimed(where)
        digests, replica = served.compare(samples), served.present
        responses = signed(served, served.answer(operations), operations, "operation")
        answers: Iterator[Answered] = responses
        if "early" in flask.request.args and replica:
            answers = replica.early.before(responses)
        elif "long" in flask.request.args and replica:
            answers = replica.long.before(operations, responses)
        return streamed(encode_answers(itertools.chain(answers, digests)))

    @routes.post("/reads")
    @octets(sent=True, answered=True)
    @query(signed=bool)
    def read(**where: str) -> Any:
        """The same for requests that change nothing."""
        operations, served = decode_operations(flask.request.get_data()), claimed(where)
        responses = iter(served.read(operations))
        return encode_responses(signed(served, responses, operations, "read"))

    def claimed(where: dict[str, str]) -> ServedReplica:
        served = find(**where)
        served.claim(flask.request.headers.get(CLIENT_HEADER, ""))
        return served

    def signed(
        served: ServedReplica, responses: Iterator[Response], asked: Sequence[Operation], kind: str
    ) -> Iterator[Response]:
        if sign is None or "signed" not in flask.request.args:
            return responses
        return _signed(served, responses, asked, kind, sign)

    _long_answers(routes, find)


def _signed(
    served: ServedReplica,
    responses: Iterator[Response],
    asked: Sequence[Operation],
    kind: str,
    sign: Sign,
) -> Iterator[Response]:
    """Each with the signature of the statement that it answers that operation."""
    records = {operation.number: operation.encode() for operation in asked}
    for response in responses:
        asked_for = hashlib.sha256(records[response.number]).digest()
        said = Statement(*served.about, kind, response.number, asked_for, response.digest)
        yield dataclasses.replace(response, signature=sign(said))


def _long_answers(routes: flask.Blueprint, find: Find) -> None:
    """Add what takes a long answer away."""

    @routes.get("/operations/<int:number>/answer")
    @octets(answered=True)
    @query(after=int, length=int)
    def piece(number: int, **where: str) -> Any:
        """A piece of a long answer."""
        answer = find(**where).running.long.of(OperationNumber(number))
        after = query_number("after")
        length = query_number("length", most=PIECE_BYTES)
        return encode_piece(*answer.after(after, length, PIECE_SECONDS))

    @routes.delete("/operations/<int:number>/answer")
    def forget(number: int, **where: str) -> Any:
        """Discard the rest of a long answer."""
        find(**where).running.long.of(OperationNumber(number)).drop()
        return {}


def _streams(routes: flask.Blueprint, find: Find) -> None:
    """Add the routes of a carried service: streams, and deltas for a move."""

    @routes.get("/streams")
    def streams(**where: str) -> Any:
        """Socket: where the streams of its guest are reached here."""
        door = find(**where).running.door
        if door is None:
            raise NotFoundError(f"{flask.request.path}: its guest has no streams")
        return {"socket": str(door)}

    @routes.post("/delta")
    def delta(**where: str) -> Any:
        """Since: tables, hold: DeltaOffer of what changed since then. at: the tables and the
        device_state of an earlier freeze, which is taken for one now."""
        body = flask.request.get_json(silent=True)
        fields = body if isinstance(body, dict) else {}
        hold, since = fields.get("hold", False), tables_of(fields.get("since"))
        if not isinstance(hold, bool):
            raise UsageError("a delta needs a JSON object with since: tables, hold: bool")
        served = find(**where)
        if "at" not in fields:
            return served.deltas.make(since, hold=hold).offer(hold=hold)
        roots = tables_of(fields["at"])
        device = roots.pop("device_state", None)
        if device is None:
            raise UsageError("a freeze has tables and a device_state")
        frozen = MachineSnapshot(served.running.last, device, roots)
        return served.deltas.again(since, frozen).offer(hold=False)

    @routes.get("/delta/<digest>")
    @octets(answered=True)
    @query(offset=int, length=int)
    def delta_piece(digest: str, **where: str) -> Any:
        """A piece of that delta."""
        offset = query_number("offset")
        length = query_number("length", least=1, most=DELTA_PIECE_LIMIT)
        return find(**where).deltas.piece(digest, offset, length)

    @routes.post("/go-on")
    def go_on(**where: str) -> Any:
        """The end of hold."""
        find(**where).running.go_on()
        return {}
