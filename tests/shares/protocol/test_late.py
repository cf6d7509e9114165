# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home has sent before it heard that a node closed the file, and comes when that opens it
again."""

from __future__ import annotations

from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    Acquire,
    Ask,
    Blocks,
    DelayedUpdate,
    EngageReply,
    Fetch,
    HomeMachine,
    NodeMachine,
    Ownership,
    Push,
    Reply,
    Update,
    UpdateReply,
)
from tests.shares.protocol.both import FILE, ONE, TWO, both_open


def test_an_update_of_before_is_declined_by_who_expects_the_file() -> None:
    """Home counted the node among the sharers no more, and never called the copy back."""
    node = NodeMachine()
    node.expect(FILE, DelayedUpdate())
    (asked,) = node.to_read(FILE, 0, 1, 0.0)
    late = Update(FILE, ATTRIBUTES, 1, (ATTRIBUTES,), bytes(BLOCK), (3,))
    assert node.answer(late, 0.0) == UpdateReply(FILE, ATTRIBUTES, 1, (False,))
    assert not node.readable(FILE, ATTRIBUTES, 0.0)
    # Home has heard of the close when it answers what was asked after that.
    node.blocks(asked, Blocks(FILE, 0, 1, (0,), bytes(BLOCK), (5,), (False,)), 0.0)
    now = Update(FILE, ATTRIBUTES, 1, (ATTRIBUTES,), bytes(BLOCK), (4,))
    assert node.answer(now, 0.0) == UpdateReply(FILE, ATTRIBUTES, 1, (True,))


def test_what_is_said_to_an_update_of_before_does_not_count() -> None:
    """It was taken for the answer to the one after it: home forgot who had a copy."""
    directory = HomeMachine()
    both_open(directory)

    def pushed() -> Ask:
        (granted,) = directory.request(ONE, Acquire(FILE, 0, 1, (0,), range(1)), 3, 0.0)
        assert isinstance(granted, Reply) and isinstance(granted.message, Ownership)
        push = Push(FILE, 0, 1, (0,), bytes(BLOCK), everyone=True)
        (ask,) = [a for a in directory.request(ONE, push, 4, 0.0) if isinstance(a, Ask)]
        assert isinstance(ask.message, Update) and ask.node == TWO
        return ask

    before = pushed()
    directory.close(TWO, FILE, 0.0)
    (native,) = [a for a in directory.open(TWO, FILE, 5, 0.0) if isinstance(a, Ask)]
    directory.answer(ONE, native.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
    after = pushed()
    directory.answer(TWO, before.number, UpdateReply(FILE, 0, 1, (False,)), 0.0)
    directory.answer(TWO, after.number, UpdateReply(FILE, 0, 1, (True,)), 0.0)
    record = directory.record(FILE, 0)
    assert record is not None and TWO in record.sharers
    fetched = directory.request(TWO, Fetch(FILE, 0, 1, (record.version,)), 6, 0.0)
    assert len(fetched) == 1
