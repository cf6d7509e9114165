# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Of a file that was closed natively nothing stays at its node when it is another's or no more;
and of one that is no more nothing at home."""

from __future__ import annotations

import errno
import os
import queue
from collections.abc import Callable

import pytest

from shares.node import ROOT, Node
from shares.protocol import (
    BLOCK,
    Acquire,
    Fetch,
    FileId,
    Flush,
    LogWrite,
    Message,
    Push,
    RefusalReply,
    Release,
)
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

CONTENT = os.urandom(3 * BLOCK)


def writes(node: Node) -> int:
    _, handle = node.create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.write(handle.number, 0, CONTENT)
    return handle.number


def reads(node: Node) -> int:
    _, handle = node.create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.read(handle.number, 0, 10)
    return handle.number


def removes(node: Node) -> None:
    node.unlink(ROOT, b"f")


def replaces(node: Node) -> None:
    node.create(ROOT, b"g", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.rename(ROOT, b"g", ROOT, b"f", 0)


def knows(node: Node, file: FileId) -> bool:
    return file in node.content._files or file in node.content._machine.files()


def holds(home: LocalHome, node: Node, file: FileId) -> bool:
    return knows(node, file) or (home.root.parent / "buffer0" / f"{file:016x}").exists()


def closed(one: Node, use: Callable[[Node], int], *, rests: bool = False) -> FileId:
    handle = use(one)
    file = one.lookup(ROOT, b"f").attributes.file
    one.release(handle, 0)
    if not rests:
        one.handles.close_idle(file)
    return file


@pytest.mark.parametrize("use", [writes, reads])
@pytest.mark.parametrize("rests", [False, True], ids=["closed", "resting"])
@pytest.mark.parametrize("who", ["the same node", "another one"])
@pytest.mark.parametrize("act", [removes, replaces])
def test_nothing_stays_of_a_file_that_is_no_more(
    home: LocalHome, use: Callable[[Node], int], rests: bool, who: str, act: Callable[[Node], None]
) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file = closed(one, use, rests=rests)
    act(one if who == "the same node" else two)
    assert eventually(lambda: not holds(home, one, file))
    assert eventually(lambda: file not in home.share.coherence.directory.files())


@pytest.mark.parametrize("use", [writes, reads])
def test_nothing_stays_of_a_closed_file_when_the_membership_is_over(
    home: LocalHome, use: Callable[[Node], int]
) -> None:
    """The next one knows nothing of the grant, so nobody would ever ask for it back."""
    home.add()
    member = home.member("stays")
    try:
        one, hub = member.node, member.node.hub
        file = closed(one, use)
        home.share.lost(home.share.sessions[hub.node], "for the test")
        assert eventually(lambda: one.hub is not hub and one.hub.connected, 60.0)
        assert eventually(lambda: not knows(one, file))
        assert not (home.root.parent / "buffer-stays" / f"{file:016x}").exists()
        assert (home.root / "f").read_bytes() == (CONTENT if use is writes else b"")
    finally:
        member.close()


@pytest.mark.parametrize("use", [writes, reads])
def test_nothing_stays_of_a_file_that_another_node_opens(
    home: LocalHome, use: Callable[[Node], int]
) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file = closed(one, use)
    handle = two.open(file, os.O_RDWR).number
    assert two.read(handle, 0, 1 << 20) == (CONTENT if use is writes else b"")
    assert eventually(lambda: not holds(home, one, file))


@pytest.mark.parametrize("never", [False, True], ids=["removed", "never there"])
def test_home_knows_nothing_of_a_file_that_is_no_more(home: LocalHome, never: bool) -> None:
    """Each message that came too late left a record there, for good."""
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file = closed(one, writes)
    if never:
        file = FileId(1 << 40)
    else:
        removes(two)
        assert eventually(lambda: file not in home.share.coherence.directory.files())
    about, whole = (file, 0, 1), ((0,), bytes(BLOCK))
    messages: list[Message] = [
        Fetch(*about, (0,)),
        Acquire(*about, (0,), range(1)),
        Push(*about, *whole),
        Flush(*about, *whole),
        Release(*about, *whole, 7),
        LogWrite(*about, 0, b"late"),
    ]
    for message in messages:
        answers: queue.SimpleQueue[Message | OSError] = queue.SimpleQueue()
        one.hub.post(message, answers.put, answers.put)
        answer = answers.get(timeout=10)
        if isinstance(message, Fetch | Acquire):
            assert isinstance(answer, OSError) and answer.errno == errno.ESTALE
        else:
            assert isinstance(answer, RefusalReply)
        assert file not in home.share.coherence.directory.files(), message
