# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`perform`: actions are done in their order, and what comes of one after all the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from shares.protocol import (
    Ack,
    Action,
    Append,
    Ask,
    Carrier,
    FileId,
    FinishOpen,
    FinishReclaim,
    Invalidate,
    InvalidateReply,
    LogWrite,
    Message,
    NodeId,
    Replay,
    Reply,
    StoreContent,
    Token,
    Update,
    UpdateReply,
    answer_of_home,
    perform,
)

FILE, NODE = FileId(1), NodeId(1)
DONE = Ack(FILE, 0, 1)
LOG = LogWrite(FILE, 0, 1, 0, b"x")
CONTENT = Update(FILE, 0, 1, (0,), b"x", (1,))
EACH: list[Action] = [
    StoreContent(NODE, CONTENT),
    Append(NODE, LOG, 1),
    Replay(FILE, (0,)),
    Reply(NODE, 2, DONE),
    Ask(NODE, 3, DONE),
    FinishOpen(NODE, 4, FILE, native=True, grant=7),
    FinishReclaim(5, FILE),
]


class Noted:
    """Effects that note what they were told. follow: what comes of an action of this kind."""

    def __init__(self, follow: dict[str, list[Action]]) -> None:
        self.follow = follow
        self.done: list[Action] = []

    def _note(self, action: Action) -> list[Action]:
        self.done.append(action)
        return self.follow.pop(type(action).__name__, [])

    def store(self, node: NodeId, message: Carrier) -> None:
        self._note(StoreContent(node, message))

    def append(self, node: NodeId, message: LogWrite, token: Token) -> None:
        self._note(Append(node, message, token))

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        self._note(Replay(file, numbers))

    def reply(self, node: NodeId, token: Token, message: Message) -> None:
        self._note(Reply(node, token, message))

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        return self._note(Ask(node, number, message))

    def opened(self, opened: FinishOpen) -> Iterable[Action]:
        return self._note(opened)

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        return self._note(FinishReclaim(token, file))


def test_each_kind_of_action_is_done_with_all_that_it_says() -> None:
    effects = Noted({})
    perform(EACH, effects)
    assert effects.done == EACH
    assert {type(action) for action in EACH} == set(get_args(Action))


def test_what_comes_of_an_action_is_done_after_all_that_was_wanted_before_it() -> None:
    first, second = Reply(NODE, 8, DONE), Reply(NODE, 9, DONE)
    third = Replay(FILE, None)
    effects = Noted(
        {"Ask": [first, FinishReclaim(6, FILE)], "FinishOpen": [second], "FinishReclaim": [third]}
    )
    perform(EACH, effects)
    assert effects.done == [*EACH, first, FinishReclaim(6, FILE), second, third]


def test_home_keeps_no_copies() -> None:
    assert answer_of_home(Invalidate(FILE, 0, 2)) == InvalidateReply(FILE, 0, 2, (False, False))
    assert answer_of_home(CONTENT) == UpdateReply(FILE, 0, 1, (False,))
