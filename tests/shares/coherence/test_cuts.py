# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that home cuts off: what lies behind the cut is nobody's, and takes nobody's time."""

from __future__ import annotations

from math import inf

from shares.coherence import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    Action,
    Ask,
    Blocks,
    Directory,
    Engage,
    Engaged,
    Fetch,
    FileId,
    Granted,
    Native,
    NodeId,
    Opened,
    Own,
    Refused,
    Release,
    Reply,
    Taken,
)

FILE = FileId(1)
ONE, TWO = NodeId(1), NodeId(2)


def opened(directory: Directory, node: NodeId) -> Opened:
    (action,) = directory.open(node, FILE, 1, 0.0)
    assert isinstance(action, Opened)
    return action


def cut(directory: Directory, block: int) -> list[Action]:
    return directory.take(FILE, ATTRIBUTES, inf, block, 2, 0.0)


def replied(actions: list[Action]) -> object:
    (action,) = actions
    assert isinstance(action, Reply)
    return action.message


def test_a_native_files_user_is_told_what_nobody_wants() -> None:
    directory = Directory()
    native = opened(directory, ONE)
    assert native.native
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    assert asked.message == Engage(FILE, 0, 0, cut=3, grant=native.grant)
    answer = Engaged(FILE, 0, 0, (), ())
    assert directory.answer(ONE, asked.number, answer, 0.0) == [Taken(2, FILE)]


def test_what_a_lost_node_wrote_behind_a_cut_comes_too_late() -> None:
    """Blocks that nobody had asked for were taken from it under its old grant, after the cut."""
    directory = Directory()
    grant = opened(directory, ONE).grant
    directory.lost(ONE, 0.0)
    assert cut(directory, 3) == [Taken(2, FILE)]
    directory.gave(FILE, 2, 0.0)
    late = Release(FILE, 5, 1, (5,), bytes(BLOCK), grant)
    assert replied(directory.request(ONE, late, 3, 0.0)) == Refused(FILE, 5, 1, (5,))


def test_versions_before_a_cut_are_never_given_again() -> None:
    """A copy of before would be taken for the latest by the node that has it."""
    directory = Directory()
    grant = opened(directory, ONE).grant
    for turn in range(5):
        directory.request(ONE, Release(FILE, 7, 1, (7,), bytes(BLOCK), grant), turn, 0.0)
    before = directory.record(FILE, 7)
    assert before is not None
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    directory.answer(ONE, asked.number, Engaged(FILE, 0, 0, (), ()), 0.0)
    directory.close(ONE, FILE, 0.0)
    assert directory.gave(FILE, 2, 0.0) == []
    assert directory.record(FILE, 7) is None
    directory.open(TWO, FILE, 4, 0.0)
    found = replied(directory.request(TWO, Fetch(FILE, 7, 1, (before.version,)), 5, 0.0))
    assert isinstance(found, Blocks)
    assert found.fresh == (7,)
    assert found.versions[0] > before.version


def test_a_file_that_one_node_alone_has_open_is_native_again_after_a_cut() -> None:
    directory = Directory()
    before = opened(directory, ONE).grant
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    directory.answer(ONE, asked.number, Engaged(FILE, 0, 0, (), ()), 0.0)
    (told,) = directory.gave(FILE, 2, 0.0)
    assert isinstance(told, Ask)
    assert isinstance(told.message, Native)
    assert told.message.grant > before
    assert directory.native(FILE) == ONE


def test_what_a_native_node_asks_for_waits_for_its_answer_to_engage() -> None:
    """It was granted as to the native node; with the answer home took the block for a copy."""
    directory = Directory()
    opened(directory, ONE)
    (asked,) = directory.request(HOME, Fetch(FILE, ATTRIBUTES, 1, (0,)), 2, 0.0)
    assert isinstance(asked, Ask)
    assert directory.request(ONE, Own(FILE, 0, 1, (0,), True), 3, 0.0) == []
    done = directory.answer(ONE, asked.number, Engaged(FILE, 0, 0, (), ((0, 1),)), 0.0)
    (granted,) = [a.message for a in done if isinstance(a, Reply) and a.node == ONE]
    assert isinstance(granted, Granted)
    record = directory.record(FILE, 0)
    assert record is not None and (record.owner, record.grant) == (ONE, granted.grant)


def test_a_file_that_two_nodes_have_open_is_nobodys_after_a_cut() -> None:
    directory = Directory()
    opened(directory, ONE)
    (asked,) = directory.open(TWO, FILE, 4, 0.0)
    assert isinstance(asked, Ask)
    directory.answer(ONE, asked.number, Engaged(FILE, 0, 0, (), ()), 0.0)
    assert cut(directory, 3) == [Taken(2, FILE)]
    assert directory.gave(FILE, 2, 0.0) == []
    assert directory.native(FILE) is None
