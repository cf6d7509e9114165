# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home answers opens while who had the file alone has not said yet what it has."""

from __future__ import annotations

from shares.protocol import (
    Acquire,
    Ask,
    Engage,
    EngageReply,
    FinishOpen,
    FinishReclaim,
    HomeMachine,
    Ownership,
    Reply,
)
from tests.shares.protocol.both import FILE, ONE, TWO


def written() -> HomeMachine:
    """ONE has it alone, and writes it no more."""
    directory = HomeMachine()
    directory.open(ONE, FILE, 1, 0.0)
    directory.written(ONE, FILE)
    return directory


def test_who_cuts_a_file_is_given_nothing_that_another_one_reads_by_itself() -> None:
    """Home cuts first and opens then. In between another node may have had the file alone, which
    reads what it has until it has heard of Engage."""
    directory = HomeMachine()
    assert directory.take(FILE, 1, 0.0, 0, 0, TWO) == [FinishReclaim(1, FILE)]
    directory.gave(FILE, 1, 0.0)
    directory.open(ONE, FILE, 2, 0.0)
    directory.written(ONE, FILE)
    engage, opened = directory.open(TWO, FILE, 3, 0.0, cut=True)
    assert isinstance(engage, Ask) and isinstance(engage.message, Engage)
    assert isinstance(opened, FinishOpen) and not opened.native
    directory.answer(ONE, engage.number, EngageReply(FILE, 0, 0, (), ((0, 1),)), 0.0)
    (invalidate,) = directory.request(TWO, Acquire(FILE, 0, 1, (0,)), 4, 0.0)
    assert isinstance(invalidate, Ask) and invalidate.node == ONE


def test_who_wants_to_write_is_answered_when_the_node_that_had_it_alone_is_lost() -> None:
    directory = written()
    directory.open(TWO, FILE, 2, 0.0)
    assert directory.request(TWO, Acquire(FILE, 0, 1, (0,)), 3, 0.0) == []
    actions = directory.lost(ONE, 0.0)
    (reply,) = [action for action in actions if isinstance(action, Reply)]
    assert isinstance(reply.message, Ownership) and reply.token == 3


def test_its_own_open_and_a_cut_wait_until_it_has_answered() -> None:
    directory = written()
    engage, _ = directory.open(TWO, FILE, 2, 0.0)
    assert isinstance(engage, Ask)
    assert directory.open(ONE, FILE, 3, 0.0) == []
    assert directory.take(FILE, 4, 0.0, 0, 0, TWO) == []
    actions = directory.answer(ONE, engage.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
    assert [type(action) for action in actions] == [FinishOpen, FinishReclaim]
