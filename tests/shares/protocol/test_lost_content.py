# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Content that a node has not got, or has no more: home is asked for it again, and nobody reads
what is in its place."""

from __future__ import annotations

from shares.protocol import (
    Acquire,
    Blocks,
    DelayedUpdate,
    Engage,
    Fetch,
    FileId,
    NodeMachine,
    Ownership,
    Release,
)

FILE = FileId(1)
COPY = Blocks(FILE, 0, 1, (0,), b"", (5,), (False,))
GRANT = Ownership(FILE, 0, 1, (0,), b"", (5,), (False,), (False,), 7)


def opened() -> NodeMachine:
    node = NodeMachine()
    node.open(FILE, DelayedUpdate(), False)
    return node


def asked(node: NodeMachine) -> tuple[Fetch, Acquire]:
    """To read a block, and then to write it."""
    (fetch,) = node.to_read(FILE, 0, 1, 0.0)
    (own,) = node.to_write(FILE, 0, 1, range(0), 0.0)
    assert isinstance(own, Acquire)
    return fetch, own


def test_a_copy_that_finds_no_room_is_not_read_while_the_block_is_asked_for_to_write() -> None:
    """The disk was full; the block stayed valid, and what was there before was read."""
    node = opened()
    fetch, own = asked(node)
    node.unstored(fetch, node.blocks(fetch, COPY, 0.0))
    assert not node.readable(FILE, 0, 0.0)
    assert node.unwritten(fetch) == []
    assert node.granted(own, GRANT, 0.0) == [0]
    assert node.readable(FILE, 0, 0.0)


def test_a_grant_that_finds_no_room_is_given_back_without_content() -> None:
    node = opened()
    (own,) = node.to_write(FILE, 0, 1, range(0), 0.0)
    assert isinstance(own, Acquire)
    node.unstored(own, node.granted(own, GRANT, 0.0))
    assert not node.readable(FILE, 0, 0.0)
    assert node.unwritten(own) == [Release(FILE, 0, 1, (), b"", 7)]
    (fetch,) = node.to_read(FILE, 0, 1, 0.0)
    assert fetch.versions == (0,)


def test_a_grant_that_finds_no_room_is_given_back_when_the_copy_has_come() -> None:
    """A Release that overtakes the reply to a Fetch would leave a copy of which home knows not."""
    node = opened()
    fetch, own = asked(node)
    node.unstored(own, node.granted(own, GRANT, 0.0))
    assert node.unwritten(own) == []
    assert node.blocks(fetch, COPY, 0.0) == []
    assert not node.readable(FILE, 0, 0.0)
    assert node.unwritten(fetch) == [Release(FILE, 0, 1, (), b"", 7)]


def test_what_a_cut_made_the_buffer_drop_is_asked_for_with_its_content() -> None:
    """Home was told a version of what was here no more, sent nothing, and zeros were read."""
    node = NodeMachine()
    node.open(FILE, DelayedUpdate(), True, 0.0, 3)
    (fetch,) = node.to_read(FILE, 0, 1, 0.0)
    node.blocks(fetch, COPY, 0.0)
    node.keep(FILE, True)
    node.answer(Engage(FILE, 0, 0, 1, 3), 0.0)
    assert node.trim(FILE) == 0
    (again,) = node.to_read(FILE, 0, 1, 0.0)
    assert again.versions == (0,)


def test_what_a_window_wrote_while_home_made_the_file_is_written_under_its_grant() -> None:
    """It was taken between the grant and the open, under none, and home refused it."""
    node = NodeMachine()
    node.make(FILE, DelayedUpdate())
    node.made(FILE, 7)
    node.did_write(FILE, 0, 1, 0.0)
    node.open(FILE, DelayedUpdate(), True, 0.0, 7)
    assert node.release(FILE, 0, 1) == [Release(FILE, 0, 1, (0,), b"", 7)]
