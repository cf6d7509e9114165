# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file of home's that two nodes have open."""

from __future__ import annotations

from shares.protocol import Ask, EngageReply, FileId, FinishOpen, HomeMachine, NodeId

FILE = FileId(1)
ONE, TWO = NodeId(1), NodeId(2)


def both_open(directory: HomeMachine) -> None:
    """ONE has opened it, then TWO; ONE has written nothing."""
    (opened,) = directory.open(ONE, FILE, 1, 0.0)
    assert isinstance(opened, FinishOpen)
    (engage,) = directory.open(TWO, FILE, 2, 0.0)
    assert isinstance(engage, Ask)
    directory.answer(ONE, engage.number, EngageReply(FILE, 0, 0, (), ()), 0.0)
