# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share that home has no more: nodes say so, and wait for nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from shares.home import NodeSession
from shares.node import ROOT, Changes, Member, Node
from shares.protocol import BLOCK
from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually

CONTENT = os.urandom(3 * BLOCK)
CUT = Changes(size=0)


@pytest.fixture
def member(home: Home) -> Iterator[Member]:
    home.add()
    member = home.member("stays")
    yield member
    member.close()


def written(node: Node) -> int:
    _, handle = node.create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.write(handle.number, 0, CONTENT)
    return handle.number


def ended(node: Node) -> bool:
    """What was asked meanwhile is perhaps told by its connection that it gets no answer."""
    try:
        node.usage(ROOT)
    except OSError as error:
        return error.errno == errno.ESTALE
    return False


CALLS: dict[str, Callable[[Node, int], object]] = {
    "read": lambda node, handle: node.read(handle, 0, 10),
    "write": lambda node, handle: node.write(handle, 0, b"more"),
    "sync": lambda node, handle: node.sync(handle, False),
    "lookup": lambda node, handle: node.lookup(ROOT, b"f"),
    "list": lambda node, handle: node.entries(ROOT),
    "make": lambda node, handle: node.make_folder(ROOT, b"d", 0o755, os.getuid(), os.getgid()),
    "cut": lambda node, handle: node.change(node.lookup(ROOT, b"f").attributes.file, CUT, handle),
}


def test_what_programs_ask_of_a_removed_share_says_so(home: Home, member: Member) -> None:
    """It was EIO, after the wait for a home that is not reached."""
    node = member.node
    handle = written(node)
    home.shares.remove("photos")
    assert eventually(lambda: ended(node))
    for name, call in CALLS.items():
        with pytest.raises(OSError, match="no share photos") as caught:
            call(node, handle)
        assert caught.value.errno == errno.ESTALE, name
    assert (home.root / "f").exists()


def test_a_share_is_removed_while_one_of_its_nodes_is_lost(
    home: Home, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who removed it waited for the thread that looks after leases, with a lock it wanted."""
    lost, go_on = threading.Event(), threading.Event()
    gone = home.share._gone

    def held(session: NodeSession) -> None:
        lost.set()
        assert go_on.wait(60)
        gone(session)

    monkeypatch.setattr(home.share, "_gone", held)
    home.join("silent").cut_off()
    assert lost.wait(60)
    removing = threading.Thread(target=home.shares.remove, args=("photos",), daemon=True)
    removing.start()
    assert eventually(lambda: not home.shares._shares)
    go_on.set()
    removing.join(60)
    assert not removing.is_alive()
    assert home.shares.listed() == []


def test_who_waits_when_a_share_is_removed_is_told(home: Home, member: Member) -> None:
    """For a block that another node has, which says nothing of it."""
    node, other = member.node, home.join("other")
    handle = written(node)
    file = node.lookup(ROOT, b"f").attributes.file
    there = other.node.open(file, os.O_RDWR).number
    other.node.write(there, 0, b"there")
    other.cut_off()
    errors: list[OSError] = []

    def read() -> None:
        try:
            node.read(handle, 0, 10)
        except OSError as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert eventually(lambda: any(home.share.coherence.directory.waiting()))
    home.shares.remove("photos")
    reader.join()
    assert [error.errno for error in errors] == [errno.ESTALE]


def test_another_share_of_that_name_is_nothing_to_who_had_the_first(
    home: Home, member: Member
) -> None:
    """Numbers of files mean others there."""
    node = member.node
    handle = written(node)
    home.shares.remove("photos")
    assert eventually(lambda: ended(node))
    home.add()
    with pytest.raises(OSError) as caught:
        node.read(handle, 0, 10)
    assert caught.value.errno == errno.ESTALE
    assert not home.share.sessions


def test_a_share_that_home_cannot_open_now_is_waited_for(home: Home, member: Member) -> None:
    node = member.node
    handle = written(node)
    node.sync(handle, False)
    away = home.root.with_name("away")
    home.root.rename(away)
    home.begin_again()
    assert not home.shares._shares
    away.rename(home.root)
    home.begin_again()
    assert eventually(lambda: bool(home.share.sessions), 60)
    assert node.read(handle, 0, BLOCK) == CONTENT[:BLOCK]
