# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are no more while somebody waits for their blocks, or that all have closed."""

from __future__ import annotations

import pytest

from shares.protocol import (
    BLOCK,
    Ack,
    Acquire,
    Action,
    Ask,
    Blocks,
    Engage,
    EngageReply,
    Fetch,
    FileId,
    FinishOpen,
    FinishReclaim,
    HomeMachine,
    Ownership,
    Push,
    Recall,
    RecallReply,
    Release,
    Reply,
)
from tests.shares.protocol.both import FILE, ONE, TWO, both_open


def closed_natively() -> HomeMachine:
    directory = HomeMachine()
    (opened,) = directory.open(ONE, FILE, 1, 0.0)
    assert isinstance(opened, FinishOpen)
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
    answer = EngageReply(FILE, 0, 0, (), ())
    assert directory.answer(ONE, ask.number, answer, 0.0) == [FinishReclaim(2, FILE)]
    assert directory.gave(FILE, 2, 0.0) == []
    assert not directory.files()


def test_a_cut_of_a_removed_file_does_not_wait_for_a_lost_node() -> None:
    directory = closed_natively()
    asked(directory.take(FILE, 2, 0.0, 0, 0))
    directory.forget(FILE, 0.0)
    assert FinishReclaim(2, FILE) in directory.lost(ONE, 0.0)
    directory.gave(FILE, 2, 0.0)
    assert not directory.files()


def test_what_waits_behind_a_request_for_a_removed_file_is_answered() -> None:
    directory = HomeMachine()
    both_open(directory)
    directory.request(ONE, Acquire(FILE, 0, 1, (0,), range(1)), 3, 0.0)
    recall = asked(directory.request(TWO, Fetch(FILE, 0, 1, (0,)), 4, 0.0))
    assert isinstance(recall.message, Recall)
    assert directory.request(TWO, Fetch(FILE, 0, 1, (0,)), 5, 0.0) == []
    directory.forget(FILE, 0.0)
    answer = RecallReply(FILE, 0, 1, (), b"", kept=(False,))
    actions = directory.answer(ONE, recall.number, answer, 0.0)
    replies = [action for action in actions if isinstance(action, Reply)]
    assert [reply.token for reply in replies] == [4, 5]
    assert all(isinstance(reply.message, Blocks) for reply in replies)
    assert not directory.files()


def test_an_answer_that_comes_too_late_brings_a_removed_file_not_back() -> None:
    directory = closed_natively()
    ask = asked(directory.take(FILE, 2, 0.0, 0, 0))
    directory.lost(ONE, 0.0)
    directory.gave(FILE, 2, 0.0)
    directory.forget(FILE, 0.0)
    assert directory.answer(ONE, ask.number, EngageReply(FILE, 0, 0, (), ()), 0.0) == []
    assert not directory.files()


def test_of_a_file_that_all_have_closed_nothing_stays_and_its_numbers_only_grow() -> None:
    """Home kept a record of each file that was ever opened."""
    directory, grants, versions = HomeMachine(), [], []
    for _ in range(3):
        (opened,) = directory.open(ONE, FILE, 1, 0.0)
        assert isinstance(opened, FinishOpen)
        asks = asked(directory.open(TWO, FILE, 2, 0.0))
        directory.answer(ONE, asks.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
        (reply,) = directory.request(ONE, Acquire(FILE, 0, 1, (0,), range(1)), 3, 0.0)
        assert isinstance(reply, Reply) and isinstance(reply.message, Ownership)
        grants += [opened.grant, reply.message.grant]
        late = Release(FILE, 0, 1, (0,), bytes(BLOCK), reply.message.grant)
        _, reply = directory.request(ONE, late, 4, 0.0)
        assert isinstance(reply, Reply) and isinstance(reply.message, Ack)
        record = directory.record(FILE, 0)
        assert record is not None
        versions.append(record.version)
        native = asked(directory.close(ONE, FILE, 0.0))  # TWO has it alone
        directory.answer(TWO, native.number, Ack(FILE, 0, 0), 0.0)
        directory.close(TWO, FILE, 0.0)
        # What TWO has written home has.
        engage, given = directory.open(ONE, FILE, 5, 0.0)
        assert isinstance(engage, Ask) and isinstance(given, FinishOpen)
        directory.answer(TWO, engage.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
        directory.close(ONE, FILE, 0.0)
        directory.lost(ONE, 0.0, left=True)
        assert not directory.files()
    assert grants == sorted(set(grants))
    assert versions == sorted(set(versions))


def test_what_a_lost_node_may_bring_is_known_until_another_has_the_file_alone() -> None:
    directory = HomeMachine()
    both_open(directory)
    (reply,) = directory.request(ONE, Acquire(FILE, 0, 1, (0,), range(1)), 3, 0.0)
    assert isinstance(reply, Reply) and isinstance(reply.message, Ownership)
    about = (FILE, 0, 1, (0,), bytes(BLOCK))
    directory.request(ONE, Push(*about), 4, 0.0)
    directory.lost(ONE, 0.0)
    directory.close(TWO, FILE, 0.0)
    again = Release(*about, reply.message.grant)
    *_, reply = directory.request(ONE, again, 5, 0.0)
    assert isinstance(reply, Reply) and isinstance(reply.message, Ack)
    directory.open(TWO, FILE, 6, 0.0)
    engage = asked(directory.open(ONE, FILE, 7, 0.0))
    directory.answer(TWO, engage.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
    directory.close(ONE, FILE, 0.0)
    directory.lost(TWO, 0.0, left=True)
    assert not directory.files()


def test_of_files_that_rest_where_they_were_alone_the_oldest_are_asked_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shares.protocol.home_machine.RESTING", 10)
    directory = HomeMachine()
    for number in range(10_000):
        directory.open(ONE, FileId(number), 1, 0.0)
        for ask in directory.close(ONE, FileId(number), 0.0):
            assert isinstance(ask, Ask) and isinstance(ask.message, Engage)
            assert ask.message.file == number - 10
            answer = EngageReply(ask.message.file, 0, 0, (), ())
            directory.answer(ONE, ask.number, answer, 0.0)
    assert list(directory.files()) == list(range(9_990, 10_000))
