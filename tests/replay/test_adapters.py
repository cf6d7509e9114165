# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every adapter holds, and HTTP in particular."""

import functools
import random
import struct
import time
import zlib

import pytest

from client.fronts import FRONTS
from images import Rehearsal, recipes
from replay import Operation, adapters
from replay.adapters import rfb
from replay.adapters.http import NotHttp
from satchel.errors import UnsupportedError, UsageError
from satchel.ids import OperationNumber

http = adapters.http
DATE = "Thu, 01 Jan 1970 00:16:40 GMT"


def request(
    method: str = "GET",
    target: str = "/",
    headers: list[tuple[str, str]] | None = None,
    body: bytes = b"",
) -> bytes:
    given = headers or []
    return http.encode(method, target, given, body, number=3, time_ns=10**12, seed=9)


def operation(method: str = "GET") -> Operation:
    return Operation(OperationNumber(3), 10**12, 9, request(method))


EVERY_ADAPTER = pytest.mark.parametrize("kind", sorted(adapters.ADAPTERS))


@EVERY_ADAPTER
def test_it_is_found_by_its_kind(kind: str) -> None:
    assert adapters.for_kind(kind).kind == kind


@EVERY_ADAPTER
def test_it_takes_any_bytes_for_a_response(kind: str) -> None:
    adapter, noise = adapters.for_kind(kind), random.Random(7)
    for size in [0, 1, 10, 1000, 100_000]:
        assert adapter.normalise(noise.randbytes(size), operation())


@EVERY_ADAPTER
def test_the_same_response_gives_the_same_bytes(kind: str) -> None:
    adapter = adapters.for_kind(kind)
    assert adapter.normalise(b"x", operation()) == adapter.normalise(b"x", operation())


@EVERY_ADAPTER
def test_it_makes_the_operation_that_a_recipe_writes_down(kind: str) -> None:
    shipped = [recipe for recipe in recipes() if recipe.adapter_kind == kind]
    assert shipped
    for asked in shipped[0].rehearsal:
        make = functools.partial(adapters.for_kind(kind).request, asked, number=1, time_ns=2)
        assert make(seed=3) == make(seed=3) != b""


def test_every_shipped_recipe_has_its_adapter_and_a_front() -> None:
    kinds = {recipe.adapter_kind for recipe in recipes()}
    assert kinds <= set(adapters.ADAPTERS) == set(FRONTS)


def test_a_desktops_operation_golden_bytes() -> None:
    payload = rfb.encode(rfb.key(97, down=True) + rfb.key(97, down=False), whole=False)
    assert payload.hex() == (
        "5341544402000000" + "10000000" + "0401000000000061" + "0400000000000061"
    )


@pytest.mark.parametrize("events", [b"\4\1", b"\6" + bytes(7), b"\0", rfb.pointer(1, 2) * 20_000])
def test_what_is_no_batch_of_events_is_refused(events: bytes) -> None:
    with pytest.raises(UsageError):
        rfb.encode(events, whole=False)


@pytest.mark.parametrize("line", ["click 1", "key nothing", "fly", "click a b"])
def test_what_is_written_wrong_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        rfb.request(Rehearsal(body=line), number=1, time_ns=2, seed=3)


def test_a_desktops_answer_from_a_stranger() -> None:
    def answer(update: bytes, width: int = 64, height: int = 64) -> bytes:
        head = struct.pack("<4sBBHH32s", b"SATS", 2, 0, width, height, bytes(32))
        return head + zlib.compress(update)

    tile = rfb.RECTANGLE.pack(0, 0, 64, 64, rfb.RAW) + bytes(64 * 64 * 4)
    one = struct.pack(">BxH", 0, 1)
    assert rfb.decode(answer(one + tile)).rectangles[0].width == 64
    for wrong in (
        answer(one + tile[:-1]),
        answer(one + tile + b"x"),
        answer(one + tile, width=63),
        answer(one + tile, height=5000),
        answer(b"\1" + one[1:] + tile),
        answer(one + tile) + b"x",
        answer(one + tile)[:-9],
        answer(one + rfb.RECTANGLE.pack(0, 0, 65535, 65535, rfb.CURSOR)),
        answer(b""),
        b"",
    ):
        with pytest.raises(rfb.NotADesktop):
            rfb.decode(wrong)
        assert rfb.decode(rfb.normalise(wrong, operation())).failed


def test_what_a_desktop_says_early_is_no_part_of_its_answer() -> None:
    head = struct.pack("<4sBBHH32s", b"SATS", 2, 0, 64, 64, bytes(32))
    answer, other = head + zlib.compress(bytes(4)), head + zlib.compress(bytes(4), 0)

    def early(said: bytes) -> bytes:
        return b"SATE" + struct.pack("<I", len(said)) + said

    raw = early(other) + early(answer)
    whole = len(early(other))
    for size in (0, 3, whole - 1):
        assert rfb.DesktopPreviewReader().take(raw[:size]) == b""
    for end in (whole, len(raw) - 1):
        assert rfb.DesktopPreviewReader().take(raw[:end]) == other
    for response in (raw + b"SATL", raw + other):
        assert rfb.DesktopPreviewReader().take(response) == answer
        reader = adapters.EARLY["rfb"]()
        said = [reader.take(bytes([byte])) for byte in response]
        assert [(n, told) for n, told in enumerate(said) if told] == [
            (whole - 1, other),
            (len(raw) - 1, answer),
        ]
    assert rfb.normalise(raw + b"SATL", operation()) == answer
    assert rfb.normalise(raw + other, operation()) == rfb.normalise(other, operation()) == other
    for wrong in (raw, b"SATL", raw + b"SATLx", b"SATE", early(b"x") + b"SATL", raw + answer[:-1]):
        assert rfb.decode(rfb.normalise(wrong, operation())).failed


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="this version has: http, rfb"):
        adapters.for_kind("gopher")


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("/", "POST /"),
        ("/api/notes?x=1&y=/2", "POST /api/notes"),
        ("/api/notes/17/lines/3f", "POST /api/notes/*/lines/*"),
    ],
)
def test_operations_that_differ_in_numbers_are_one_kind(target: str, label: str) -> None:
    payload = http.encode("POST", target, [], b"17", number=1, time_ns=2, seed=3)
    assert http.label(Operation(OperationNumber(1), 2, 3, payload)) == label


@EVERY_ADAPTER
def test_any_operation_has_a_kind(kind: str) -> None:
    for payload in (b"", b"\xff" * 1000, b"GET", b" \r\n", bytes(9)):
        adapter = adapters.for_kind(kind)
        assert isinstance(adapter.label(Operation(OperationNumber(1), 2, 3, payload)), str)


def test_a_request_golden_bytes() -> None:
    headers = [("Host", "h:1"), ("Accept", "*/*"), ("Cookie", "a=b")]
    assert request("POST", "/p?q=%20", headers, b"body") == (
        b"POST /p?q=%20 HTTP/1.1\r\nHost: h:1\r\nAccept: */*\r\nCookie: a=b\r\n"
        b"X-Satchel-Operation: 3\r\nX-Satchel-Time: 1000000000000\r\nX-Satchel-Seed: 9\r\n"
        b"Connection: close\r\nContent-Length: 4\r\n\r\nbody"
    )


def test_a_request_loses_what_belongs_to_the_connection() -> None:
    headers = [
        ("Connection", "keep-alive, X-Mine"),
        ("Keep-Alive", "5"),
        ("X-Mine", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "77"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("x-satchel-seed", "666"),
        ("X-Kept", "caf\u00e9 \u20ac"),
    ]
    lines = request("GET", "/", headers).split(b"\r\n")
    assert lines == [
        b"GET / HTTP/1.1",
        b"Host: localhost",
        "X-Kept: caf\u00e9 \u20ac".encode(),
        b"X-Satchel-Operation: 3",
        b"X-Satchel-Time: 1000000000000",
        b"X-Satchel-Seed: 9",
        b"Connection: close",
        b"",
        b"",
    ]


def test_a_request_may_have_any_path() -> None:
    line = request(target="/a b/\u00e9?x=%41#y\r\nz").split(b"\r\n")[0]
    assert line == b"GET /a%20b/%C3%A9?x=%41%23y%0D%0Az HTTP/1.1"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET /x", []),
        ("", []),
        ("CONNECT", []),
        ("GET", [("Bad Name", "x")]),
        ("GET", [("X", "a\r\nY: b")]),
        ("GET", [("Host", "a\nb")]),
    ],
)
def test_what_cannot_be_a_request_is_refused(method: str, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(UsageError):
        request(method, "/", headers)


def test_a_response_is_normalised() -> None:
    raw = (
        b"HTTP/1.0 201 Made\r\nServer: Werkzeug\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nSet-Cookie: a\r\n"
        b"Set-Cookie: b\r\n\r\nbody until the end"
    )
    assert http.normalise(raw, operation()) == (
        b"HTTP/1.1 201 Made\r\nServer: Werkzeug\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
        b"Date: Thu, 01 Jan 1970 00:16:40 GMT\r\n\r\nbody until the end"
    )


def test_chunks_are_joined_and_interim_responses_dropped() -> None:
    raw = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n"
        b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n"
    )
    response = http.decode(http.normalise(raw, operation()))
    assert response.status == 200
    assert response.headers == (("Date", DATE),)
    assert response.body == b"abcde"


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"no HTTP",
    ],
)
def test_a_response_in_pieces_is_what_it_is_whole(raw: bytes) -> None:
    whole = http.normalise(raw, operation())
    for size in (1, 3, len(raw)):
        reader = adapters.IN_PIECES["http"](operation())
        said = [reader.take(raw[at : at + size]) for at in range(0, len(raw), size)]
        assert (b"".join(said) if reader.end() else reader.failure()) == whole


def test_a_normalised_response_stays_as_it_is() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 2\r\n\r\nhi"
    once = http.normalise(raw, operation())
    assert http.normalise(once, operation()) == once


def test_a_head_response_keeps_its_length() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    response = http.decode(http.normalise(raw, operation("HEAD")))
    assert ("Content-Length", "500") in response.headers
    assert response.body == b""


@pytest.mark.parametrize("status", [204, 304])
def test_responses_without_a_body(status: int) -> None:
    raw = b"HTTP/1.1 %d No\r\nETag: e\r\n\r\n" % status
    response = http.decode(http.normalise(raw, operation()))
    assert (response.status, response.body) == (status, b"")
    assert response.headers == (("ETag", "e"), ("Date", DATE))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * (1 << 20),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 200_000,
        b"SSH-2.0-OpenSSH\r\n\r\n",
    ],
)
def test_what_is_no_response_becomes_a_502(raw: bytes) -> None:
    begin = time.monotonic()
    response = http.decode(http.normalise(raw, operation()))
    assert (response.status, response.reason) == (502, "Bad Gateway")
    assert response.body.startswith(b"The service's answer was not HTTP, not whole, or to a")
    assert time.monotonic() - begin < 20


def test_a_502_is_the_same_wherever_the_connection_broke() -> None:
    assert http.normalise(b"", operation()) == http.normalise(b"HTTP/1.1 200 OK\r\n", operation())


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200", b"\0" * 100, b"HTTP/1.1 100 C\r\n\r\n"])
def test_only_a_normalised_response_is_taken_apart(data: bytes) -> None:
    with pytest.raises(NotHttp):
        http.decode(data)
