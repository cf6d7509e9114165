# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of one replica: home and a surrogate answer alike."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chunkstore import TableRoot
from homeserver.api import home_app
from hosting import CLIENT_HEADER
from replay import (
    Answered,
    LongAnswerStart,
    Response,
    answers_in,
    decode_piece,
    encode_operations,
    responses_in,
)
from replica import Replica
from satchel.errors import NotFoundError, UsageError
from satchel.ids import OperationNumber
from surrogate.api import surrogate_app
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.scripted import long_body, operation
from tests.serving import served
from tests.surrogate.conftest import Site
from wire import DeltaOffer, HttpClient, SpanReport, TouchReport

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@dataclass
class Hosted:
    """A replica behind its daemon's API. tables: of a freeze of it; first: its next operation."""

    http: HttpClient
    path: str
    replica: Replica
    tables: dict[str, TableRoot]
    first: int

    def send(self, kind: str, number: int) -> list[str]:
        data = encode_operations([operation(number)])
        where, headers = f"{self.path}/{kind}", {CLIENT_HEADER: "laptop"}
        answers = responses_in([self.http.post_bytes(where, data, headers=headers)])
        return [answer.payload.decode() for answer in answers]

    def begin(self, number: int, path: str) -> Iterator[Answered]:
        data = encode_operations([operation(number, path)])
        where, headers = f"{self.path}/operations?long=1", {CLIENT_HEADER: "laptop"}
        return answers_in(self.http.post_stream(where, data, headers=headers, limit=1 << 24))

    def delta(self, **more: Any) -> DeltaOffer:
        since = {name: root.to_json() for name, root in self.tables.items()}
        answer = self.http.post_json(f"{self.path}/delta", {"since": since} | more)
        return DeltaOffer.from_json(answer)

    def refuses(self, error: type[Exception], path: str, body: object = None) -> None:
        with pytest.raises(error):
            if body is None:
                self.http.get_bytes(f"{self.path}/{path}")
            else:
                self.http.post_json(f"{self.path}/{path}", body)


@pytest.fixture(params=["home", "surrogate"])
def hosted(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Hosted]:
    if request.param == "home":
        bench = Bench(short_path)
        with closing(bench.home):
            service = bench.running()
            (manifest,) = service.shelf.all()
            with served(home_app(bench.home), short_path) as http:
                path, tables = "/v1/services/notes", dict(manifest.volumes)
                yield Hosted(http, path, service.replica(), tables, 1)
        return
    with closing(Site(short_path)) as site:
        replica, manifest = site.create("r1").replica, site.origin.manifest
        with served(surrogate_app(site.host), short_path) as http:
            path, tables = "/v1/replicas/r1", dict(manifest.volumes)
            yield Hosted(http, path, replica, tables, manifest.operation + 1)


def test_operations_reads_and_long_answers(hosted: Hosted) -> None:
    first = hosted.first
    (answer,) = hosted.send("operations", first)
    assert f"{first} " in answer
    assert hosted.send("operations", first) == [answer], "it is executed once"
    (read,) = hosted.send("reads", first + 1)
    assert f"read {first} " in read
    assert hosted.replica.last == first
    answers = hosted.begin(first + 1, "/long/8")
    assert next(answers) == LongAnswerStart(OperationNumber(first + 1))
    piece = f"operations/{first + 1}/answer"
    data = hosted.http.get_bytes(f"{hosted.path}/{piece}?after=0&length=4096")
    start, ended = decode_piece(data)
    assert not ended
    said = start.partition(b"\r\n\r\n")[2]
    assert said
    assert long_body(1).startswith(said)
    for wrong in ("after=-1", "after=x", "length=1048577"):
        hosted.refuses(UsageError, f"{piece}?{wrong}")
    hosted.http.delete(f"{hosted.path}/{piece}")
    (response,) = answers
    assert isinstance(response, Response)
    assert response.long
    hosted.refuses(NotFoundError, f"{piece}?after=0&length=1")
    hosted.refuses(NotFoundError, f"operations/{first + 9}/answer")


def test_deltas(hosted: Hosted) -> None:
    hosted.send("operations", hosted.first)
    offer = hosted.delta()
    assert offer.content is None
    piece = f"delta/{offer.digest}"
    data = b"".join(
        hosted.http.get_bytes(f"{hosted.path}/{piece}?offset={at}&length=4096")
        for at in range(0, offer.size, 4096)
    )
    assert hashlib.sha256(data).hexdigest() == offer.digest
    assert len(data) == offer.size
    for wrong in ("offset=-1&length=1", "offset=0&length=0", "offset=0", "length=4194305"):
        hosted.refuses(UsageError, f"{piece}?{wrong}")
    hosted.refuses(NotFoundError, f"delta/{'0' * 64}?offset=0&length=1")
    held = hosted.delta(hold=True)
    assert held.content
    hosted.http.post_json(f"{hosted.path}/go-on", {})
    hosted.send("operations", hosted.first + 1)
    again = hosted.delta(at=held.volumes | {"device_state": held.device_state})
    assert (again.volumes, again.device_state) == (held.volumes, held.device_state)
    since: dict[str, Any] = {name: root.to_json() for name, root in hosted.tables.items()}
    bad: list[dict[str, Any]] = [{"hold": 1}, {"since": []}, {"at": {}}, {"at": 5}]
    for body in bad:
        hosted.refuses(UsageError, "delta", {"since": since} | body)


def test_digests_touched_blocks_spans_and_no_streams(hosted: Hosted) -> None:
    said = hosted.http.post_json(f"{hosted.path}/digest", {"paths": ["/state"]})
    assert said == {"digest": hosted.replica.digest(["/state"])}
    bad: list[object] = [{"paths": [5]}, {"paths": "x"}, {"path": []}, []]
    for body in bad:
        hosted.refuses(UsageError, "digest", body)
    touched = TouchReport.from_json(hosted.http.get_json(f"{hosted.path}/touched"))
    assert set(touched.touched) <= set(hosted.tables)
    spans = SpanReport.from_json(hosted.http.get_json(f"{hosted.path}/spans?since=0"))
    assert spans.spans
    hosted.refuses(NotFoundError, "streams")
