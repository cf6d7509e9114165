# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Threshold and counter belong to a file's block, also while it is closed or one node's alone."""

import pytest

from shares.protocol import (
    ATTRIBUTES,
    UNCUT,
    Block,
    DelayedUpdate,
    Engage,
    FileId,
    Flush,
    Keep,
    NodeMachine,
    Predicted,
    Recall,
    WriteInvalidate,
    WriteUpdate,
)
from shares.protocol.history import History

FILE = FileId(7)


def opened_alone(node: NodeMachine, policy: DelayedUpdate) -> None:
    node.open(FILE, policy, native=True, grant=1)
    node.leased(1e9)


def used_elsewhere(node: NodeMachine) -> None:
    """Another node opens the file and reads its first block; then it closes it."""
    node.answer(Engage(FILE, 0, 0, UNCUT, 2), 0.0)
    node.answer(Recall(FILE, 0, 1, Keep.COPY), 0.0)


def written(node: NodeMachine) -> list[int]:
    """Blocks of the content that a write of the first one sends home."""
    sent = node.did_write(FILE, 0, 1, 0.0)
    assert all(isinstance(message, Flush) for message in sent)
    return [number for message in sent for number in message.fresh]


def test_the_threshold_outlives_a_native_period_and_a_close() -> None:
    node, policy = NodeMachine(), DelayedUpdate()
    opened_alone(node, policy)
    assert [written(node) for _ in range(3)] == [[], [], []]  # nothing is known yet
    used_elsewhere(node)
    assert node.block(FILE, 0).threshold == 2
    node.close(FILE)
    assert node.block(FILE, 0).threshold is None  # the machine has forgotten the file
    opened_alone(node, policy)
    assert [written(node) for _ in range(3)] == [[], [], [0]]  # before anybody asks
    assert not node.block(FILE, 0).dirty
    assert [written(node) for _ in range(3)] == [[], [], [0]]  # the counter began anew


def test_the_counter_goes_on_over_a_close() -> None:
    node, policy = NodeMachine(), DelayedUpdate()
    opened_alone(node, policy)
    written(node)
    node.forget(FILE)
    opened_alone(node, policy)
    written(node)
    used_elsewhere(node)
    assert node.block(FILE, 0).threshold == 1


def test_a_cut_takes_the_content_and_leaves_the_counts() -> None:
    node, policy = NodeMachine(), DelayedUpdate()
    opened_alone(node, policy)
    written(node)
    written(node)
    node.answer(Engage(FILE, 0, 0, 0, 2), 0.0)
    block = node.block(FILE, 0)
    assert not block.valid and not block.dirty
    assert block.overwritten == 1


@pytest.mark.parametrize("policy", [WriteInvalidate(), WriteUpdate()])
def test_other_policies_send_nothing_of_a_native_file(
    policy: WriteInvalidate | WriteUpdate,
) -> None:
    assert not policy.reached(Block(threshold=0, untouched=False))


def test_predicted_goes_by_the_threshold_where_it_is_not_asked() -> None:
    assert Predicted().reached(Block(threshold=0, untouched=False))


def test_a_history_drops_the_file_that_was_closed_first() -> None:
    history = History(limit=2)
    for number in range(3):
        history.keep(FileId(number), {0: Block(overwritten=number, untouched=False)})
    assert len(history) == 2
    blocks = {0: Block()}
    history.recall(FileId(0), blocks)
    assert blocks[0] == Block()
    history.recall(FileId(2), blocks)
    assert blocks[0].overwritten == 2
    assert len(history) == 1


def test_a_history_keeps_nothing_of_blocks_that_were_only_read() -> None:
    history = History()
    history.keep(FILE, {ATTRIBUTES: Block(valid=True, used=True)})
    assert len(history) == 0
