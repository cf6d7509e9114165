# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Messages travel exactly or are refused."""

import json
from typing import Any

import pytest

from satchel.errors import CapacityError
from satchel.ids import CheckpointId, OperationNumber, ReplicaId
from wire import (
    CreateReplica,
    ErrorReport,
    HandoverState,
    HostStatus,
    JsonMessage,
    Lease,
    LocalProtocolError,
    RemoteProtocolError,
    ReplicaStatus,
    ServiceStatus,
    SourceAddress,
    Space,
    SpanReport,
    TimedSpan,
)

REPLICA = ReplicaStatus(
    replica=ReplicaId("notes-0badcafe"),
    service="notes",
    state="ready",
    last_operation=OperationNumber(30),
    fetched_bytes={"media": 4096, "home": 0},
    faults={"media": 1},
    started_seconds=2.0,
    first_response_seconds=2.5,
    first_response_bytes={"media": 4096},
    error=ErrorReport.of(CapacityError("no memory", why="512 MiB asked", fix="stop another")),
)
MESSAGES: list[JsonMessage] = [
    CreateReplica(
        ReplicaId("notes-0badcafe"),
        "notes",
        {"version": 1, "volumes": {"ram": [1, None, "x"]}},
        (SourceAddress("media", "/run/s/media"), SourceAddress("home", "/run/s/home")),
    ),
    HandoverState(OperationNumber(7), {"size": 9}, {"ram": {"size": 1}}, {"size": 2}, 0.25),
    HandoverState(OperationNumber(7), {}, {}, {}, 0.0, pages={"size": 2}, touched={"ram": (3, 4)}),
    REPLICA,
    SpanReport(2.5, (TimedSpan("device state loaded", "machine", 1.0, 1.25),)),
    HostStatus("a", "0.1.0", Space(1 << 40, 1), Space(2, 2), (REPLICA,), "/run/forwarded"),
    ServiceStatus(
        "notes", CheckpointId("0123456789abcdef"), OperationNumber(2), OperationNumber(1)
    ),
    ServiceStatus("notes", None, OperationNumber(0), OperationNumber(0), Lease("phone", 3.5)),
]
SERVICE = {"service": "notes", "checkpoint": None, "last_logged": 2, "last_executed": 1}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_what_arrives_is_what_was_sent(message: JsonMessage) -> None:
    assert type(message).from_bytes(message.to_bytes()) == message


def test_the_encoding_is_pinned() -> None:
    assert ServiceStatus.from_json(SERVICE).to_bytes() == (
        b'{"checkpoint":null,"last_executed":1,"last_logged":2,"lease":null,"service":"notes"}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"service": None},
        {"service": 5},
        {"service": "../etc"},
        {"service": "a/b"},
        {"service": ""},
        {"service": "x" * 65},
        {"checkpoint": "0123456789ABCDEF"},
        {"checkpoint": "01234567"},
        {"last_logged": "2"},
        {"last_logged": 2.0},
        {"last_logged": True},
        {"last_logged": -1},
        {"last_logged": 2**64},
        {"lease": []},
        {"lease": {"client": "phone"}},
        {"lease": {"client": "phone", "seconds": "3"}},
        {"lease": {"client": "phone", "seconds": 1e300}},
        {"lease": {"client": "phone", "seconds": 3, "more": 1}},
    ],
    ids=json.dumps,
)
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match="ServiceStatus"):
        ServiceStatus.from_json(SERVICE | change)


def test_a_missing_key_is_refused() -> None:
    value = dict(SERVICE)
    del value["last_logged"]
    with pytest.raises(RemoteProtocolError, match="lacks keys: last_logged"):
        ServiceStatus.from_json(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'{"service":"notes","service":"notes"}',
        b"NaN",
        b"[" * 100_000,
        b'{"last_logged":' + b"9" * 5000 + b"}",
        b'{"a":1}' + b"\0",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_malformed_json_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ServiceStatus.from_bytes(data)


@pytest.mark.parametrize("socket", [b"/\\ud800", b"/\xed\xa0\x80"])
def test_half_a_surrogate_pair_is_refused(socket: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        SourceAddress.from_bytes(b'{"name":"media","socket":"' + socket + b'"}')


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Lease.from_bytes(b'{"client":"phone","seconds":' + number.encode() + b"}")


@pytest.mark.parametrize("socket", ["relative", "", "/nul\0", "/" + "x" * 107])
def test_a_source_is_an_absolute_socket_path(socket: str) -> None:
    with pytest.raises(LocalProtocolError):
        SourceAddress("media", socket)


def test_texts_of_a_peer_are_safe_to_print() -> None:
    report = ErrorReport.from_json(
        {"code": "capacity", "what": "\x1b[2Jno\u202e", "why": "x" * 9999}
    )
    assert report.what == "\ufffd[2Jno\ufffd"
    assert len(report.why) < 4100
    assert isinstance(report.to_error(), CapacityError)


@pytest.mark.parametrize("value", [None, [], {"code": 5, "what": 6}, {"code": "new-code"}])
def test_a_report_that_is_none_is_an_internal_error(value: object) -> None:
    assert ErrorReport.from_json(value).code == "internal"
