# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The beginning of a file's content is asked for together with an open to read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shares.node import ROOT, Buffer, Changes, Node
from shares.protocol import BLOCK, FileId
from tests.shares.home.homes import LocalHome
from tests.shares.home.test_promises import asked, remembering

LIMIT = 16
CONTENT = os.urandom(20 * BLOCK - 100)


def fetched(home: LocalHome, node: Node) -> int:
    """Requests for copies."""
    return home.share.sessions[node.hub.node].traffic["in", "Fetch"]


def fetched_bytes(home: LocalHome, node: Node, act: Callable[[], object]) -> int:
    traffic = home.share.sessions[node.hub.node].traffic_bytes
    before = traffic["out", "reply"]
    act()
    return traffic["out", "reply"] - before


@pytest.fixture
def node(home: LocalHome) -> Node:
    home.add()
    (home.root / "f").write_bytes(CONTENT)
    return remembering(home, home.join("one").node)


def known(node: Node) -> FileId:
    """The file, which the node has looked up as kernels do before they open."""
    return node.lookup(ROOT, b"f").attributes.file


def holds(node: Node, file: FileId) -> bool:
    return file in node.content._files or file in node.content._machine.files()


def test_who_opens_and_reads_waits_once(home: LocalHome, node: Node) -> None:
    file = known(node)
    handle = node.open(file, os.O_RDONLY).number
    assert fetched(home, node) == 1
    size = LIMIT * BLOCK
    assert asked(home, node, lambda: node.read(handle, 0, size)) == 0
    assert node.read(handle, 0, size) == CONTENT[:size]
    assert node.read(handle, size, size) == CONTENT[size:]
    assert fetched(home, node) == 2


def test_who_opens_and_reads_what_another_one_has_open_waits_once(
    home: LocalHome, node: Node
) -> None:
    """The first read waited for size and times, although the content was here."""
    other = home.join("other").node
    there = other.open(known(other), os.O_RDONLY).number
    assert other.read(there, 0, BLOCK) == CONTENT[:BLOCK]
    file = known(node)
    handle = node.open(file, os.O_RDONLY).number
    assert fetched(home, node) == 1
    assert not node.content.native(file)
    size = LIMIT * BLOCK
    assert asked(home, node, lambda: node.read(handle, 0, size)) == 0
    assert node.read(handle, 0, size) == CONTENT[:size]
    assert node.attributes(file, handle).size == len(CONTENT)
    assert fetched(home, node) == 1


@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1])
def test_no_more_is_sent_than_the_file_has(home: LocalHome, node: Node, size: int) -> None:
    (home.root / "g").write_bytes(CONTENT[:size])
    file = node.lookup(ROOT, b"g").attributes.file
    handle = 0

    def open_it() -> None:
        nonlocal handle
        handle = node.open(file, os.O_RDONLY).number

    blocks = -(-size // BLOCK)
    assert fetched_bytes(home, node, open_it) < blocks * (BLOCK + 8) + 1000
    assert fetched(home, node) == (size > 0)
    assert node.read(handle, 0, 1 << 20) == CONTENT[:size]


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_TRUNC])
def test_nothing_is_sent_to_who_may_write(home: LocalHome, node: Node, flags: int) -> None:
    handle = node.open(known(node), flags).number
    assert fetched(home, node) == 0
    if flags & os.O_TRUNC:
        assert node.read(handle, 0, 10) == b""


def test_nothing_is_sent_that_is_here(home: LocalHome, node: Node) -> None:
    """Of a file that rests, or that was written natively and closed."""
    file = known(node)
    node.release(node.open(file, os.O_RDONLY).number, 0)
    node.open(file, os.O_RDONLY)
    assert fetched(home, node) == 1
    entry, written = node.create(ROOT, b"new", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.write(written.number, 0, CONTENT)
    node.release(written.number, 0)
    node.handles.close_idle(entry.attributes.file)
    node.lookup(ROOT, b"new")
    handle = node.open(entry.attributes.file, os.O_RDONLY).number
    assert node.read(handle, 0, len(CONTENT)) == CONTENT
    assert fetched(home, node) == 1


def test_a_buffer_that_is_too_small_only_costs_messages(home: LocalHome, node: Node) -> None:
    del node
    small = Buffer(home.root.parent / "small", 8 * BLOCK)
    other = remembering(home, home.join("small", buffer=small).node)
    handle = other.open(known(other), os.O_RDONLY).number
    assert fetched(home, other) == 1
    assert other.read(handle, 0, len(CONTENT)) == CONTENT


def test_of_a_file_that_is_not_opened_nothing_stays(home: LocalHome, node: Node) -> None:
    """It was removed at home itself, of which nodes are not told."""
    file = known(node)
    (home.root / "f").unlink()
    with pytest.raises(OSError):
        node.open(file, os.O_RDONLY)
    assert not holds(node, file)
    assert not (home.root.parent / "buffer0" / f"{file:016x}").exists()


def test_who_could_not_open_a_file_is_not_asked_about_it(
    home: LocalHome, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the content already, and home counted it."""
    file, other = known(node), home.join("other").node

    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(home.share.tree, "open", full)
        with pytest.raises(OSError) as caught:
            node.open(file, os.O_RDONLY)
    assert caught.value.errno == errno.EMFILE
    assert fetched(home, node) == 1
    handle = other.open(file, os.O_RDWR).number
    assert home.share.coherence.directory.native(file) == other.hub.node
    other.write(handle, 0, b"another's")
    again = node.open(file, os.O_RDONLY).number
    assert node.read(again, 0, 10) == b"another's" + CONTENT[9:10]


def rewrites(other: Node, file: FileId) -> bytes:
    handle = other.open(file, os.O_RDWR).number
    other.write(handle, 5, b"after")
    return CONTENT[:5] + b"after" + CONTENT[10:]


def cuts(other: Node, file: FileId) -> bytes:
    other.change(file, Changes(size=BLOCK + 5), None)
    return CONTENT[: BLOCK + 5]


def cuts_and_extends(other: Node, file: FileId) -> bytes:
    cuts(other, file)
    other.change(file, Changes(size=3 * BLOCK), None)
    return CONTENT[: BLOCK + 5].ljust(3 * BLOCK, b"\0")


def extends(other: Node, file: FileId) -> bytes:
    handle = other.open(file, os.O_RDWR).number
    other.write(handle, len(CONTENT) + 50, b"end")
    return CONTENT + bytes(50) + b"end"


def opens_only(other: Node, file: FileId) -> bytes:
    other.open(file, os.O_RDONLY)
    return CONTENT


def writes_and_closes(other: Node, file: FileId) -> bytes:
    handle = other.open(file, os.O_RDWR).number
    other.write(handle, 0, b"short")
    other.release(handle, 0)
    other.handles.close_idle(file)
    return b"short" + CONTENT[5:]


@pytest.mark.parametrize(
    "change", [rewrites, cuts, cuts_and_extends, extends, opens_only, writes_and_closes]
)
@pytest.mark.parametrize("when", ["before the open is at home", "after it, before its answer"])
@pytest.mark.parametrize("relaxation", [0.0, 20.0])
def test_what_others_do_before_the_answer_counts(
    home: LocalHome,
    node: Node,
    when: str,
    change: Callable[[Node, FileId], bytes],
    relaxation: float,
) -> None:
    """The content has come by then. With relaxation, no change waits for this node, but what it has
    is not to be old: that it may be, the open says."""
    home.share.record = replace(home.share.record, relaxation=relaxation)
    other = remembering(home, home.join("other").node)
    file, hub = known(node), node.hub
    real: Any = hub.open
    expected = b""

    def crossed(*arguments: Any) -> Any:
        nonlocal expected
        hub.attributes(ROOT)  # behind it what was asked for before is here
        assert node.content._machine.block(file, 0).valid
        if when.startswith("before"):
            expected = change(other, file)
            return real(*arguments)
        answer = real(*arguments)
        expected = change(other, file)
        hub.attributes(ROOT)  # with relaxation no write waits until this node has been told
        return answer

    hub.open = crossed  # type: ignore[assignment]
    handle = node.open(file, os.O_RDONLY).number
    del hub.open
    assert node.read(handle, 0, 1 << 20) == expected
    assert node.attributes(file, handle).size == len(expected)
    assert other.lookup(ROOT, b"f").attributes.size == len(expected)


def test_a_membership_that_ends_meanwhile_takes_the_copies_along(
    home: LocalHome, node: Node
) -> None:
    member, expected = home.member("two"), b""
    try:
        two = remembering(home, member.node)
        file, hub = known(two), two.hub
        real: Any = hub.open

        def lost(*arguments: Any) -> Any:
            nonlocal expected
            hub.attributes(ROOT)
            assert two.content._machine.block(file, 0).valid
            session = home.share.sessions[hub.node]
            home.share.lost(session, "the test says so")
            expected = rewrites(node, file)
            return real(*arguments)

        hub.open = lost  # type: ignore[assignment]
        handle = two.open(file, os.O_RDONLY).number
        assert two.hub is not hub
        assert two.read(handle, 0, 1 << 20) == expected
    finally:
        member.close()
