# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's end of a share against nodes that send anything."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from shares.node import ROOT, Buffer, Membership, Node
from shares.node.hub.membership import VERSION
from tests.hostile.test_parsers import EXAMPLES
from wire import Caller
from wire.conversation.duplex import HEADER, FrameKind

REFUSED = b"B"
"""What home's answer to a hello begins with when it goes no further."""

FEWER = max(30, EXAMPLES // 10)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20)
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=9), max_leaves=12)
CALLS = """beat change close create entries forget_locks get_lock link lookup make_folder make_link
open read_link remove_folder rename sync unlink usage attributes listen post node stale written
__init__"""
names = st.sampled_from(CALLS.split())
calls = st.builds(
    lambda name, arguments: b"\x40" + json.dumps([name, *arguments]).encode(),
    names,
    st.lists(st.one_of(st.just(1), st.just(2), st.just("file"), values), max_size=7),
)
about_blocks = st.builds(
    lambda kind, rest: bytes([kind]) + rest, st.integers(0, 21), st.binary(max_size=120)
)
plausible = st.builds(
    lambda kind, file, first, count, rest: (
        bytes([kind])
        + file.to_bytes(8, "little")
        + (first % 2**64).to_bytes(8, "little")
        + count.to_bytes(8, "little")
        + rest
    ),
    st.integers(1, 21),
    st.sampled_from([1, 2, 3, 2**63, 2**64 - 1]),
    st.one_of(st.integers(-2, 3), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1)),
    st.one_of(st.binary(max_size=80), st.integers(0, 40).map(bytes), st.just(bytes(4096))),
)


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shares]:
    folder = tmp_path_factory.mktemp("s")
    (folder / "shared").mkdir()
    (folder / "shared/file").write_bytes(b"content")
    shares = Shares(ShareRegistry(folder / "shares"), folder / "s", 600.0)
    shares.add(ShareRecord("s", str(folder / "shared")))
    yield shares
    shares.close()


def greet(path: Path) -> socket.socket:
    hello = b"\x40" + json.dumps(["join", [VERSION, "s", "stranger", "", "word", 0]]).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))
    connection.settimeout(20)
    connection.sendall(HEADER.pack(len(hello), FrameKind.HELLO, 0, 0) + hello)
    return connection


def still_serves(shares: Shares, folder: Path) -> None:
    """A node may remove the file that was there, and so what is used here is new."""
    share = shares.get("s")
    for session in list(share.sessions.values()):
        share.lost(session, "the example is over")
    membership = Membership(partial(Caller, shares.socket), "s", "good")
    node = Node(membership.join(20), Buffer(folder, 1 << 20), 5.0)
    _, handle = node.create(ROOT, secrets.token_hex(8).encode(), 0o644, os.O_RDWR, 0, 0)
    assert node.read(handle.number, 0, 1) is not None
    node.close()
    membership.close()


hostile = partial(
    settings, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@hostile(max_examples=FEWER)
@example([b'\x40["unlink", 1, "file"]'])
@given(st.lists(st.one_of(calls, about_blocks, plausible, st.binary(max_size=60)), max_size=12))
def test_a_node_that_sends_anything_harms_nobody_else(
    shares: Shares, tmp_path: Path, payloads: list[bytes]
) -> None:
    with greet(shares.socket) as connection:
        data = b""
        for number, payload in enumerate(payloads, 1):
            data += HEADER.pack(len(payload), FrameKind.REQUEST, number, 0) + payload
        beat = b'\x40["beat", 0.0]'
        connection.sendall(data + HEADER.pack(len(beat), FrameKind.REQUEST, 999, 0) + beat)
        reader = connection.makefile("rb")
        kind, number = FrameKind.HELLO, 0
        while (kind, number) != (FrameKind.REPLY, 999):
            length, kind, number, _ = HEADER.unpack(reader.read(HEADER.size))
            assert reader.read(length)[:1] != REFUSED or kind != FrameKind.HELLO
    still_serves(shares, tmp_path / "buffer")


@hostile(max_examples=FEWER)
@given(
    st.one_of(
        st.binary(max_size=100),
        values.map(lambda value: b"\x40" + json.dumps(value).encode()),
        st.lists(values, max_size=7).map(
            lambda items: b"\x40" + json.dumps(["join", items]).encode()
        ),
    )
)
def test_a_hello_that_is_none_is_refused(shares: Shares, tmp_path: Path, hello: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(shares.socket))
        connection.settimeout(20)
        connection.sendall(HEADER.pack(len(hello), FrameKind.HELLO, 0, 0) + hello)
        reader = connection.makefile("rb")
        length, _, _, _ = HEADER.unpack(reader.read(HEADER.size))
        assert reader.read(length)[:1] == REFUSED
    still_serves(shares, tmp_path / "buffer")
