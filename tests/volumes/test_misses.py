# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The miss protocol: its bytes, and a server that bad ones do not hurt."""

import errno
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Store, StoreState, TableRoot
from volumes import MissServer, ReadAbandoned, Volume, create_volume, local_resolver
from volumes.misses import (
    CONTENT_MAGIC,
    MISS_LIMIT,
    REPLY_MAGIC,
    REQUEST_MAGIC,
    BadRequest,
    MissRequest,
)

EXAMPLE = bytes.fromhex("53415451 01000000 0500000000000000 03000000 00000000")
OK = bytes.fromhex("53415450 00000000")


@pytest.fixture
def server(store: Store, root: TableRoot, short_path: Path) -> Iterator[MissServer]:
    volumes = [create_volume(short_path, name, root) for name in ("ram", "disk0")]
    started = MissServer.start(short_path / "misses", volumes, local_resolver(store))
    yield started
    started.close()


@pytest.fixture
def plugin(server: MissServer, short_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(str(short_path / "misses"))
        yield connection


def test_the_page_s_example() -> None:
    request = MissRequest(volume=1, first=5, count=3)
    assert request.encode() == EXAMPLE
    assert MissRequest.decode(EXAMPLE) == request
    page = Path("docs/formats/block-map.md").read_text()
    assert EXAMPLE.hex() in re.sub(r"\s", "", page)
    assert OK.hex() in re.sub(r"\s", "", page)


def test_both_ends_agree_on_the_constants() -> None:
    header = Path("volumes/plugin/miss_protocol.h").read_text()
    found = dict(re.findall(r"constexpr uint32_t (\w+) = (\w+);", header))
    assert int(found["kMissRequestMagic"], 0) == REQUEST_MAGIC
    assert int(found["kMissReplyMagic"], 0) == REPLY_MAGIC
    assert int(found["kMissContentMagic"], 0) == CONTENT_MAGIC
    assert int(found["kMissLimit"], 0) == MISS_LIMIT


@pytest.mark.parametrize(
    "data",
    [b"", EXAMPLE[:-1], b"X" + EXAMPLE[1:], EXAMPLE[:-1] + b"\1"],
    ids=["empty", "short", "magic", "reserved"],
)
def test_bytes_that_are_no_request(data: bytes) -> None:
    with pytest.raises(BadRequest):
        MissRequest.decode(data)


@pytest.mark.parametrize("count", [0, MISS_LIMIT + 1, 0xFFFFFFFF])
def test_too_many_blocks(count: int) -> None:
    with pytest.raises(BadRequest):
        MissRequest.decode(MissRequest(0, 0, count).encode())


def test_two_requests_over_one_connection(plugin: socket.socket, server: MissServer) -> None:
    for _ in range(2):
        plugin.sendall(EXAMPLE[:10])
        plugin.sendall(EXAMPLE[10:])
        assert plugin.recv(8) == OK
    assert server.counts.requests == 2
    assert server.counts.blocks == 6


@pytest.mark.parametrize(
    "request_",
    [MissRequest(2, 0, 1), MissRequest(0, 1500, 1), MissRequest(0, 2**64 - 1, 2)],
    ids=["volume", "block", "overflow"],
)
def test_what_is_not_there_is_refused(plugin: socket.socket, request_: MissRequest) -> None:
    plugin.sendall(request_.encode())
    assert int.from_bytes(plugin.recv(8)[4:], "little") == errno.EINVAL


def test_garbage_ends_the_connection_and_nothing_else(
    plugin: socket.socket, short_path: Path
) -> None:
    plugin.sendall(b"G" * 24)
    assert plugin.recv(8) == b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as another:
        another.connect(str(short_path / "misses"))
        another.sendall(EXAMPLE)
        assert another.recv(8) == OK


def test_close_ends_connections_and_removes_the_socket(
    plugin: socket.socket, server: MissServer, short_path: Path
) -> None:
    plugin.sendall(EXAMPLE)
    assert plugin.recv(8) == OK
    server.close()
    assert plugin.recv(8) == b""
    assert not (short_path / "misses").exists()


@pytest.mark.parametrize(("kind", "told"), [(ReadAbandoned, False), (StoreState, True)])
def test_a_read_that_fails_is_told_unless_nobody_waits_for_it(
    root: TableRoot,
    short_path: Path,
    caplog: pytest.LogCaptureFixture,
    kind: type[ReadAbandoned] | type[StoreState],
    told: bool,
) -> None:
    def fail(volume: Volume, first: int, count: int) -> None:
        raise kind("no block")

    volumes = [create_volume(short_path, name, root) for name in ("ram", "disk0")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        server = MissServer.start(short_path / "misses", volumes, fail)
        connection.connect(str(short_path / "misses"))
        connection.sendall(EXAMPLE)
        assert int.from_bytes(connection.recv(8)[4:], "little") == errno.EIO
        server.close()
    assert ("no block" in caplog.text) is told
