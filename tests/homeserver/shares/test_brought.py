# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node brings to its next membership, where that is much."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shares.node import ROOT, Buffer, Member
from tests.homeserver.shares.conftest import LEASE, Home
from tests.waiting import eventually
from wire import Caller

UID, GID = os.getuid(), os.getgid()


def test_what_was_written_without_home_is_brought_however_much_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was posted at once: a link that was slower was given up for that, again and again."""
    monkeypatch.setattr("wire.conversation.duplex.DROWNED_LIMIT", 24 << 20)
    home.add(log="off")
    member = home.member("one")
    node = member.node
    _, handle = node.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
    caller: Any = member._membership._caller
    place = caller._path
    caller._path = place.with_name("nowhere")
    caller.duplex.cut()
    content = random.Random(9).randbytes(4 << 20)
    for turn in range(16):
        node.write(handle.number, turn * len(content), content)
    assert eventually(lambda: len(home.share.lost_since(0.0)) == 1)
    caller._path = place
    try:
        assert eventually(lambda: node.home.joined and node.home.latest.connected, 60)
        node.sync(handle.number, data_only=False)
        assert (home.root / "file").read_bytes() == content * 16
        assert len(home.share.lost_since(0.0)) == 1
    finally:
        member.close()


class Slow:
    """A way to home on which so many bytes a second go there."""

    def __init__(self, here: Path, home: Path, rate: int) -> None:
        self._home, self._rate = home, rate
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(here))
        self._listener.listen()
        self._ends: list[socket.socket] = [self._listener]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(str(self._home))
                self._ends += [near, far]
                for way in ((near, far, self._rate), (far, near, 0)):
                    threading.Thread(target=self._carry, args=way, daemon=True).start()

    @staticmethod
    def _carry(start: socket.socket, end: socket.socket, rate: int) -> None:
        with suppress(OSError):
            while piece := start.recv(16384):
                if rate:
                    time.sleep(len(piece) / rate)
                end.sendall(piece)
        for each in (start, end):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_node_is_heard_while_what_it_says_is_on_its_way(home: Home, short_path: Path) -> None:
    """A message that took longer than a lease to come was silence until it was whole: home went on
    without the node, which brought the same to its next membership, and so on."""
    home.add()
    with closing(Slow(short_path / "slow", short_path / "s", 1 << 20)):
        call = partial(Caller, short_path / "slow")
        buffer = Buffer(short_path / "buffer", 1 << 24)
        with closing(Member(call, "photos", "slow", buffer, wait=60.0)) as member:
            content = random.Random(4).randbytes(6 << 20)
            _, handle = member.node.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
            member.node.write(handle.number, 0, content)
            member.node.sync(handle.number, data_only=False)
            assert (home.root / "file").read_bytes() == content
            assert not home.share.lost_since(0.0)


def test_a_node_reads_what_is_here_while_content_is_on_its_way(
    home: Home, short_path: Path
) -> None:
    """Its heartbeats stood behind that: over a slow link its lease was over until all of it had
    come, and programs waited as long for files that it had."""
    home.add()
    with closing(Slow(short_path / "slow", short_path / "s", 1 << 19)):
        call = partial(Caller, short_path / "slow")
        buffer = Buffer(short_path / "buffer", 1 << 24)
        with closing(Member(call, "photos", "slow", buffer, wait=60.0)) as member:
            node = member.node
            _, small = node.create(ROOT, b"small", 0o644, os.O_RDWR, UID, GID)
            node.write(small.number, 0, b"small")
            _, large = node.create(ROOT, b"large", 0o644, os.O_RDWR, UID, GID)
            node.write(large.number, 0, random.Random(4).randbytes(6 << 20))
            syncing = threading.Thread(target=node.sync, args=(large.number, False))
            syncing.start()
            longest = 0.0
            while syncing.is_alive():
                began = time.monotonic()
                assert node.read(small.number, 0, 5) == b"small"
                longest = max(longest, time.monotonic() - began)
                time.sleep(0.05)
            assert longest < LEASE
            assert not home.share.lost_since(0.0)
