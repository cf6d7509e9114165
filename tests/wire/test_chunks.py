# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of chunks, both halves."""

import time
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from satchel.errors import IntegrityError, NotFoundError, UnavailableError
from tests.serving import served
from wire import (
    BATCH_LIMIT,
    ChunkClient,
    HttpClient,
    LocalProtocolError,
    Priority,
    RemoteProtocolError,
    chunk_routes,
    install_errors,
    requested_priority,
    requested_rate,
)

REF = bytes(range(52))


class Source:
    """Answers every reference with a record of 64 bytes of its first byte."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Priority]] = []
        self.record = 64
        self.fails = False

    def __call__(self, refs: bytes) -> bytes:
        if self.fails:
            raise UnavailableError("the media is gone")
        self.asked.append((len(refs) // 52, requested_priority()))
        return b"".join(refs[i : i + 1] * self.record for i in range(0, len(refs), 52))


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def http(source: Source, short_path: Path) -> Iterator[HttpClient]:
    app = flask.Flask("source")
    install_errors(app)
    app.register_blueprint(chunk_routes(source))
    with served(app, short_path, peer="media") as http:
        yield http


def test_records_come_back_in_order(http: HttpClient, source: Source) -> None:
    refs = b"".join(bytes([i]) + REF[1:] for i in range(100))
    records = ChunkClient(http).fetch(refs, Priority.PREFETCH)
    assert records == b"".join(bytes([i]) * 64 for i in range(100))
    assert source.asked == [(100, Priority.PREFETCH)]


def test_a_whole_batch_passes(http: HttpClient, source: Source) -> None:
    source.record = 4160
    assert len(ChunkClient(http).fetch(REF * BATCH_LIMIT)) == BATCH_LIMIT * 4160
    assert source.asked == [(4096, Priority.DEMAND)]


def test_no_references_need_no_request(http: HttpClient, source: Source) -> None:
    assert ChunkClient(http).fetch(b"") == b""
    assert source.asked == []


@pytest.mark.parametrize("refs", [REF[:-1], REF * (BATCH_LIMIT + 1)], ids=["part", "many"])
def test_a_wrong_length_is_refused_by_both_halves(http: HttpClient, refs: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        ChunkClient(http).fetch(refs)
    with pytest.raises(IntegrityError, match="wrong length"):
        http.post_bytes("/v1/chunks", refs)


def test_an_unknown_priority_is_refused(http: HttpClient) -> None:
    with pytest.raises(IntegrityError, match="now"):
        http.post_bytes("/v1/chunks", REF, headers={"Satchel-Priority": "now"})


@pytest.mark.parametrize("rate", ["fast", "-1", "1e9", "1" * 13, "\u0661"])
def test_a_rate_that_is_no_number_is_refused(rate: str) -> None:
    app = flask.Flask("source")
    request = app.test_request_context(headers={"Satchel-Rate": rate})
    with request, pytest.raises(RemoteProtocolError, match="not a number"):
        requested_rate()


def test_a_source_is_told_how_fast_its_answers_arrive(source: Source, short_path: Path) -> None:
    rates: list[float] = []

    def told(refs: bytes) -> bytes:
        rates.append(requested_rate())
        return source(refs)

    def slowly(answer: bytes, _: Priority) -> Iterator[bytes]:
        for start in range(0, len(answer), 16 << 10):
            yield answer[start : start + (16 << 10)]
            time.sleep(0.01)

    app = flask.Flask("source")
    app.register_blueprint(chunk_routes(told, pieces=slowly))
    with served(app, short_path) as http:
        client = ChunkClient(http)
        for _ in range(3):
            client.fetch(REF * 2000)
    assert rates[0] == 0.0
    assert 0 < rates[2] <= 1.6384e6


def test_more_than_the_records_asked_for_is_refused(http: HttpClient, source: Source) -> None:
    source.record = 4161
    with pytest.raises(RemoteProtocolError, match="larger"):
        ChunkClient(http).fetch(REF)


def test_a_source_that_fails_says_how(http: HttpClient, source: Source) -> None:
    source.fails = True
    with pytest.raises(UnavailableError, match="the media is gone"):
        ChunkClient(http).fetch(REF)


def test_places_are_answered_with_their_priority(source: Source, short_path: Path) -> None:
    app = flask.Flask("source")
    install_errors(app)
    app.register_blueprint(chunk_routes(source, lambda places: b"r" * len(places)))
    with served(app, short_path) as http:
        client = ChunkClient(http)
        assert client.below(bytes(64 * 16), Priority.PREFETCH) == b"r" * 1024
        assert client.below(b"") == b""
        for places in (bytes(63), bytes(64 * 17)):
            with pytest.raises(LocalProtocolError):
                client.below(places)
            with pytest.raises(IntegrityError, match="wrong length"):
                http.post_bytes("/v1/below", places)


def test_a_source_that_goes_below_no_page_says_so(http: HttpClient) -> None:
    with pytest.raises(NotFoundError):
        ChunkClient(http).below(bytes(64))
