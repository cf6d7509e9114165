# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are no more while somebody waits for their blocks."""

from __future__ import annotations

from shares.coherence import (
    Action,
    Ask,
    Blocks,
    Directory,
    Engage,
    Engaged,
    Fetch,
    Opened,
    Own,
    Recall,
    Recalled,
    Reply,
    Taken,
)
from tests.shares.coherence.both import FILE, ONE, TWO, both_open


def closed_natively() -> Directory:
    directory = Directory()
    (opened,) = directory.open(ONE, FILE, 1, 0.0)
    assert isinstance(opened, Opened)
    assert opened.native
    assert directory.close(ONE, FILE, 0.0) == []
    return directory


def asked(actions: list[Action]) -> Ask:
    (ask,) = actions
    assert isinstance(ask, Ask)
    return ask


def test_a_cut_that_waits_for_a_file_that_is_removed_is_answered() -> None:
    """The last name was taken away while a native node that had closed the file was asked: who
    wanted to cut it waited for ever."""
    directory = closed_natively()
    ask = asked(directory.take(FILE, 2, 0.0, 0, 0))
    assert isinstance(ask.message, Engage)
    directory.forget(FILE, 0.0)
    answer = Engaged(FILE, 0, 0, (), ())
    assert directory.answer(ONE, ask.number, answer, 0.0) == [Taken(2, FILE)]
    assert directory.gave(FILE, 2, 0.0) == []
    assert not directory.files()


def test_a_cut_of_a_removed_file_does_not_wait_for_a_lost_node() -> None:
    directory = closed_natively()
    asked(directory.take(FILE, 2, 0.0, 0, 0))
    directory.forget(FILE, 0.0)
    assert Taken(2, FILE) in directory.lost(ONE, 0.0)
    directory.gave(FILE, 2, 0.0)
    assert not directory.files()


def test_what_waits_behind_a_request_for_a_removed_file_is_answered() -> None:
    directory = Directory()
    both_open(directory)
    directory.request(ONE, Own(FILE, 0, 1, (0,), True), 3, 0.0)
    recall = asked(directory.request(TWO, Fetch(FILE, 0, 1, (0,)), 4, 0.0))
    assert isinstance(recall.message, Recall)
    assert directory.request(TWO, Fetch(FILE, 0, 1, (0,)), 5, 0.0) == []
    directory.forget(FILE, 0.0)
    answer = Recalled(FILE, 0, 1, (), b"", kept=(False,))
    actions = directory.answer(ONE, recall.number, answer, 0.0)
    replies = [action for action in actions if isinstance(action, Reply)]
    assert [reply.token for reply in replies] == [4, 5]
    assert all(isinstance(reply.message, Blocks) for reply in replies)
    assert not directory.files()


def test_an_answer_that_comes_too_late_brings_a_removed_file_not_back() -> None:
    directory = closed_natively()
    ask = asked(directory.take(FILE, 2, 0.0, 0, 0))
    directory.rejoining(ONE, 0.0)
    directory.lost(ONE, 0.0)
    directory.gave(FILE, 2, 0.0)
    directory.forget(FILE, 0.0)
    assert directory.answer(ONE, ask.number, Engaged(FILE, 0, 0, (), ()), 0.0) == []
    assert not directory.files()
