# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How what home's machine wants is done: the one loop over its actions.

    class Home:  # is an Effects
        def store(self, node, message): ...

    perform(directory.request(node, message, token, now), home)

Whoever acts for home says what each action means there, and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from shares.protocol.home_actions import (
    Action,
    Append,
    Ask,
    FinishOpen,
    FinishReclaim,
    Replay,
    Reply,
    StoreContent,
    Token,
)
from shares.protocol.messages import (
    Carrier,
    FileId,
    InvalidateReply,
    LogWrite,
    Message,
    NodeId,
    UpdateReply,
)


class Effects(Protocol):
    """What home does for each action; `shares.protocol.home_actions` says what each one means.

    `perform` calls all of these in the order of the actions, so none of them may wait, and none
    may call `perform`. What the machine wants because of an effect is returned by it.
    """

    def store(self, node: NodeId, message: Carrier) -> None: ...

    def append(self, node: NodeId, message: LogWrite, token: Token) -> None: ...

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None: ...

    def reply(self, node: NodeId, token: Token, message: Message) -> None: ...

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        """Returns what the machine wants when the node has answered at once (`answer_of_home`)."""
        ...

    def opened(self, opened: FinishOpen) -> Iterable[Action]:
        """Returns what the machine wants when home asks something itself for the answer."""
        ...

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        """Returns what the machine wants when home has changed the blocks at once (`gave`)."""
        ...


def perform(actions: Iterable[Action], effects: Effects) -> None:
    """Do the actions in their order. What comes of them is done after all that was wanted before
    it. Raises what the effects raise; the actions that are left are not done then."""
    wanted = deque(actions)
    while wanted:
        match wanted.popleft():
            case StoreContent(node, message):
                effects.store(node, message)
            case Append(node, record, token):
                effects.append(node, record, token)
            case Replay(file, numbers):
                effects.replay(file, numbers)
            case Reply(node, token, answer):
                effects.reply(node, token, answer)
            case Ask(node, number, question):
                wanted.extend(effects.ask(node, number, question))
            case FinishOpen() as opened:
                wanted.extend(effects.opened(opened))
            case FinishReclaim(token, file):
                wanted.extend(effects.taken(token, file))


def answer_of_home(message: Message) -> Message:
    """What home answers when it is asked itself: it keeps no copies."""
    about = (message.file, message.first, message.count)
    if isinstance(message, Carrier):
        return UpdateReply(*about, (False,) * message.count)
    return InvalidateReply(*about, (False,) * message.count)
