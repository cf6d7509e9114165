# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Opens whose answers come late: what home said of the file after them was handled before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shares.node import BLOCK, ROOT, Changes, Node, find
from shares.protocol import FileId
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()


class Late:
    """A node whose opens are answered when the test says so."""

    def __init__(self, home: LocalHome, node: Node) -> None:
        self.home, self.node = home, node
        self.handle = 0

    @contextmanager
    def answer(self, call: str, act: Callable[[], int]) -> Iterator[None]:
        """Within this home has given the answer, and the node has it afterwards."""
        hub: Any = self.node.hub
        real, given, free = getattr(hub, call), threading.Event(), threading.Event()

        def held(*arguments: object) -> object:
            answer = real(*arguments)
            given.set()
            free.wait(60)
            return answer

        setattr(hub, call, held)
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(act()))
        thread.start()
        try:
            assert given.wait(60)
            yield
            self.told()
        finally:
            free.set()
            thread.join()
            setattr(hub, call, real)
        (self.handle,) = found

    def told(self) -> None:
        """The node has handled what home has said."""
        directory, lock = self.home.share.coherence.directory, self.home.share.coherence.lock

        def waiting() -> bool:
            with lock:
                return any(node == self.node.hub.node for node, _ in directory.waiting())

        assert eventually(lambda: not waiting())


class Other:
    """A node that opens the file and closes it, in turns."""

    def __init__(self, home: LocalHome, node: Node) -> None:
        self._home, self._node = home, node
        self.handle: int | None = None

    def turn(self) -> None:
        if self.handle is None:
            self.open()
        else:
            self.close()

    def open(self) -> None:
        self.handle = self._node.open(find(self._node, "f"), os.O_RDWR).number

    def close(self) -> None:
        assert self.handle is not None
        file, self.handle = find(self._node, "f"), self.handle
        self._node.release(self.handle, 0)
        self._node.handles.close_idle(file)
        self.handle = None
        known = self._home.share.sessions[self._node.hub.node].opened
        assert eventually(lambda: file not in known)

    def read(self) -> bytes:
        handle = self._node.open(find(self._node, "f"), os.O_RDONLY).number
        found = self._node.read(handle, 0, 2 * BLOCK)
        self._node.release(handle, 0)
        return found


def opens(node: Node) -> int:
    return node.open(find(node, "f"), os.O_RDWR).number


def creates(node: Node) -> int:
    return node.create(ROOT, b"f", 0o644, os.O_RDWR, UID, GID)[1].number


HOWS = {"open": opens, "create": creates}


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("how", HOWS)
def test_what_is_written_after_an_open_that_was_overtaken_is_taken_by_home(
    home: LocalHome,
    how: str,
    again: bool,
    shared: bool,
    turns: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other node opens the file and closes it before the answer is there: Engage, NativeGrant.
    What this node writes then it brings to its next membership, under a grant that home knows."""
    monkeypatch.setattr("shares.node.member.RETRY_SECONDS", 0.05)
    home.add(policy="write-invalidate", log="off")
    (home.root / "f").write_bytes(bytes(2 * BLOCK))
    member = home.member("one")
    try:
        one, two = Late(home, member.node), Other(home, home.join("two").node)
        find(member.node, "f")  # the answer to a lookup is none that is held
        if shared:
            two.open()
        if again:
            member.node.open(find(member.node, "f"), os.O_RDONLY)
        with one.answer(how, lambda: HOWS[how](member.node)):
            for _ in range(turns):
                two.turn()
        assert_one_memory(home, one, two, find(member.node, "f"))
        member.node.release(one.handle, 0)
    finally:
        member.close()


def assert_one_memory(home: LocalHome, one: Late, two: Other, file: FileId) -> None:
    """What was acknowledged to a node is there, whatever becomes of its membership."""
    node = one.node.hub.node
    one.node.write(one.handle, 10, b"first")
    if two.handle is None:
        two.open()
    one.told()
    one.node.write(one.handle, BLOCK, b"second")
    session = home.share.sessions[node]
    home.share.lost(session, "the test says so")
    assert eventually(lambda: node in home.share.sessions and one.node.hub.connected)
    assert eventually(lambda: file in home.share.sessions[one.node.hub.node].opened)
    expected = (bytes(10) + b"first").ljust(BLOCK, b"\0") + b"second".ljust(BLOCK, b"\0")
    assert two.read() == expected
    assert one.node.read(one.handle, 0, 2 * BLOCK) == expected


@pytest.mark.parametrize("how", HOWS)
def test_attributes_that_were_overtaken_are_asked_for_again(home: LocalHome, how: str) -> None:
    """Another node changed them after home had given the answer, and this one had forgotten them
    before that came: it showed the old ones as long as the file was open."""
    home.add()
    (home.root / "f").write_bytes(bytes(BLOCK))
    node, other = home.join("one").node, home.join("two").node
    file, one = find(node, "f"), Late(home, node)
    with one.answer(how, lambda: HOWS[how](node)):
        other.change(file, Changes(mode=0o600), None)
    assert node.attributes(file, one.handle).mode & 0o777 == 0o600
    node.release(one.handle, 0)
