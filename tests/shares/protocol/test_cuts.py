# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that home cuts off: what lies behind the cut is nobody's, and takes nobody's time."""

from __future__ import annotations

from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    Ack,
    Acquire,
    Action,
    Ask,
    Blocks,
    Engage,
    EngageReply,
    Fetch,
    FinishOpen,
    FinishReclaim,
    HomeMachine,
    Invalidate,
    InvalidateReply,
    Keep,
    Message,
    NativeGrant,
    NodeId,
    Ownership,
    Recall,
    RecallReply,
    RefusalReply,
    Release,
    Reply,
    StoreContent,
    UpdateReply,
)
from tests.shares.protocol.both import FILE, ONE, TWO, both_open


def opened(directory: HomeMachine, node: NodeId) -> FinishOpen:
    (action,) = directory.open(node, FILE, 1, 0.0)
    assert isinstance(action, FinishOpen)
    return action


def cut(directory: HomeMachine, block: int) -> list[Action]:
    return directory.take(FILE, 2, 0.0, block, block)


def replied(actions: list[Action]) -> object:
    (action,) = actions
    assert isinstance(action, Reply)
    return action.message


def test_a_native_files_user_is_told_what_nobody_wants() -> None:
    directory = HomeMachine()
    native = opened(directory, ONE)
    assert native.native
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    assert asked.message == Engage(FILE, 0, 0, cut=3, grant=native.grant)
    answer = EngageReply(FILE, 0, 0, (), ())
    assert directory.answer(ONE, asked.number, answer, 0.0) == [FinishReclaim(2, FILE)]


def test_with_relaxation_a_cut_waits_for_the_copies_of_who_wants_it_alone() -> None:
    """The other one's grow old from then on. It waited for both."""
    directory = HomeMachine()
    both_open(directory)
    directory.open(ONE, FILE, 3, 0.0, 5.0)
    for node in (ONE, TWO):
        directory.request(node, Fetch(FILE, 0, 2, (0, 0)), 4, 0.0)
    (asked,) = directory.take(FILE, 5, 0.0, 1, 1, ONE)
    assert isinstance(asked, Ask)
    assert (asked.node, asked.message) == (ONE, Invalidate(FILE, 1, 1))
    answer = InvalidateReply(FILE, 1, 1, (True,))
    stale, taken = directory.answer(ONE, asked.number, answer, 0.0)
    assert isinstance(stale, Ask)
    assert (stale.node, stale.message) == (TWO, Invalidate(FILE, 1, 1, Keep.STALE))
    assert taken == FinishReclaim(5, FILE)


def test_what_a_lost_node_wrote_behind_a_cut_comes_too_late() -> None:
    """Blocks that nobody had asked for were taken from it under its old grant, after the cut."""
    directory = HomeMachine()
    grant = opened(directory, ONE).grant
    directory.lost(ONE, 0.0)
    assert cut(directory, 3) == [FinishReclaim(2, FILE)]
    directory.gave(FILE, 2, 0.0)
    late = Release(FILE, 5, 1, (5,), bytes(BLOCK), grant)
    assert replied(directory.request(ONE, late, 3, 0.0)) == RefusalReply(FILE, 5, 1, (5,))


def test_versions_before_a_cut_are_never_given_again() -> None:
    """A copy of before would be taken for the latest by the node that has it."""
    directory = HomeMachine()
    grant = opened(directory, ONE).grant
    for turn in range(5):
        directory.request(ONE, Release(FILE, 7, 1, (7,), bytes(BLOCK), grant), turn, 0.0)
    before = directory.record(FILE, 7)
    assert before is not None
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    directory.answer(ONE, asked.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
    directory.close(ONE, FILE, 0.0)
    assert directory.gave(FILE, 2, 0.0) == []
    assert directory.record(FILE, 7) is None
    directory.open(TWO, FILE, 4, 0.0)
    found = replied(directory.request(TWO, Fetch(FILE, 7, 1, (before.version,)), 5, 0.0))
    assert isinstance(found, Blocks)
    assert found.fresh == (7,)
    assert found.versions[0] > before.version


def test_a_file_that_one_node_alone_has_open_is_native_again_after_a_cut() -> None:
    directory = HomeMachine()
    before = opened(directory, ONE).grant
    (asked,) = cut(directory, 3)
    assert isinstance(asked, Ask)
    directory.answer(ONE, asked.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
    (told,) = directory.gave(FILE, 2, 0.0)
    assert isinstance(told, Ask)
    assert isinstance(told.message, NativeGrant)
    assert told.message.grant > before
    assert directory.native(FILE) == ONE


def test_what_a_native_node_asks_for_waits_for_its_answer_to_engage() -> None:
    """It was granted as to the native node; with the answer home took the block for a copy."""
    directory = HomeMachine()
    opened(directory, ONE)
    (asked,) = directory.request(HOME, Fetch(FILE, ATTRIBUTES, 1, (0,)), 2, 0.0)
    assert isinstance(asked, Ask)
    assert directory.request(ONE, Acquire(FILE, 0, 1, (0,), range(1)), 3, 0.0) == []
    done = directory.answer(ONE, asked.number, EngageReply(FILE, 0, 0, (), ((0, 1),)), 0.0)
    (granted,) = [a.message for a in done if isinstance(a, Reply) and a.node == ONE]
    assert isinstance(granted, Ownership)
    record = directory.record(FILE, 0)
    assert record is not None and (record.owner, record.grant) == (ONE, granted.grant)


def test_a_file_that_two_nodes_have_open_is_nobodys_after_a_cut() -> None:
    directory = HomeMachine()
    both_open(directory)
    assert cut(directory, 3) == [FinishReclaim(2, FILE)]
    assert directory.gave(FILE, 2, 0.0) == []
    assert directory.native(FILE) is None


def both_open_one_writes(directory: HomeMachine, blocks: int) -> int:
    """Both have the file open, ONE owns it all: the grant of that."""
    both_open(directory)
    versions = (0,) * (blocks + 1)
    granted = replied(
        directory.request(ONE, Acquire(FILE, ATTRIBUTES, blocks + 1, versions), 5, 0.0)
    )
    assert isinstance(granted, Ownership)
    return granted.grant


def taken(directory: HomeMachine, actions: list[Action]) -> list[Message]:
    """What the owner was asked, who has written all of it; home has what it wanted then."""
    found: list[Message] = []
    for ask in actions:
        assert isinstance(ask, Ask) and ask.node == ONE
        about = (FILE, ask.message.first, ask.message.count)
        no = (False,) * ask.message.count
        answer: Message = InvalidateReply(*about, no)
        if isinstance(ask.message, Recall):
            fresh = tuple(ask.message.numbers)
            answer = RecallReply(*about, fresh, bytes(BLOCK * len(fresh)), kept=no)
        directory.answer(ONE, ask.number, answer, 0.0)
        found.append(ask.message)
    directory.gave(FILE, 2, 0.0)
    return found


def test_a_cut_asks_for_block_1_the_partial_block_and_what_is_cut() -> None:
    """It asked for all of the file."""
    directory = HomeMachine()
    both_open_one_writes(directory, 10)
    asked = taken(directory, directory.take(FILE, 2, 0.0, 5, 6))
    assert [(type(ask), *ask.numbers) for ask in asked] == [
        (Recall, ATTRIBUTES),
        (Recall, 5),
        (Invalidate, 6, 7, 8, 9),
    ]
    owners = [directory.record(FILE, number) for number in range(ATTRIBUTES, 7)]
    assert [record and record.owner for record in owners] == [HOME, *[ONE] * 5, HOME, None]


def test_who_has_had_a_file_cut_owns_where_it_ends() -> None:
    directory = HomeMachine()
    both_open_one_writes(directory, 10)
    asks = directory.take(FILE, 2, 0.0, 5, 6, TWO)
    for ask in asks:
        assert isinstance(ask, Ask)
        about, no = (FILE, ask.message.first, ask.message.count), (False,) * ask.message.count
        recalled = RecallReply(*about, tuple(ask.message.numbers), bytes(BLOCK), kept=no)
        answer = recalled if isinstance(ask.message, Recall) else InvalidateReply(*about, no)
        directory.answer(ONE, ask.number, answer, 0.0)
    given = [ask for ask in directory.gave(FILE, 2, 0.0) if isinstance(ask, Ask)]
    messages = [ask.message for ask in given]
    assert [(type(m), ask.node, *m.numbers) for ask, m in zip(given, messages, strict=True)] == [
        (Ownership, TWO, ATTRIBUTES),
        (Ownership, TWO, 5, 6, 7, 8),
    ]
    owned = [directory.record(FILE, number) for number in (ATTRIBUTES, 5)]
    assert [record and record.owner for record in owned] == [TWO, TWO]
    # It takes one, and has closed the file, perhaps, before the other came.
    directory.answer(TWO, given[0].number, UpdateReply(FILE, ATTRIBUTES, 1, (True,)), 0.0)
    directory.answer(TWO, given[1].number, UpdateReply(FILE, 5, 4, (False,) * 4), 0.0)
    assert [record and record.owner for record in owned] == [TWO, HOME]


def test_where_a_file_was_cut_is_given_to_nobody_where_another_waits_for_it() -> None:
    directory = HomeMachine()
    both_open(directory)
    assert directory.take(FILE, 2, 0.0, 0, 0, TWO) == [FinishReclaim(2, FILE)]
    directory.request(ONE, Fetch(FILE, ATTRIBUTES, 2, (0, 0)), 5, 0.0)
    reply, given = directory.gave(FILE, 2, 0.0)
    assert isinstance(reply, Reply) and reply.node == ONE
    assert isinstance(given, Ask) and tuple(given.message.numbers) == (1, 2, 3)


def test_a_change_of_times_asks_for_block_1() -> None:
    directory = HomeMachine()
    both_open_one_writes(directory, 10)
    actions = directory.take(FILE, 2, 0.0)
    (ask,) = [action.message for action in actions if isinstance(action, Ask)]
    assert (ask.first, ask.count) == (ATTRIBUTES, 1)
    recall = directory.request(TWO, Fetch(FILE, 3, 1, (0,)), 6, 0.0)
    assert isinstance(recall[0], Ask)  # what is of content does not wait for that
    taken(directory, actions)


def test_what_a_lost_node_wrote_before_a_cut_is_taken() -> None:
    """Nobody has written there since."""
    directory = HomeMachine()
    grant = both_open_one_writes(directory, 10)
    taken(directory, directory.take(FILE, 2, 0.0, 5, 6))
    directory.lost(ONE, 0.0)
    for number in (ATTRIBUTES, 5, 7):
        late = Release(FILE, number, 1, (number,), bytes(BLOCK), grant)
        assert replied(directory.request(ONE, late, 7, 0.0)) == RefusalReply(
            FILE, number, 1, (number,)
        )
    kept = Release(FILE, 4, 1, (4,), bytes(BLOCK), grant)
    store, reply = directory.request(ONE, kept, 8, 0.0)
    assert isinstance(store, StoreContent)
    assert isinstance(reply, Reply) and reply.message == Ack(FILE, 4, 1)
