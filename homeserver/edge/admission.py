# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket at which the node of one grant joins, and what may come through it.

A surrogate says what it likes. It gets the share of its grant, under the name of its service, so
that what is private to others stays so; the token of another node is worth nothing here; and with a
grant to read, whatever would change something ends the conversation.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from homeserver.edge.grants import ShareGrant
from homeserver.shares import Shares
from satchel.errors import IntegrityError, SatchelError
from shares.home import Arrived, Channel, Reply
from shares.node import JoinReply, JoinRequest, codec
from shares.protocol import EngageReply, Fetch, RecallReply
from wire import ConversationEnded, ConversationListener, Duplex

logger = logging.getLogger(__name__)

READING = frozenset(
    {
        "attributes",
        "beat",
        "close",
        "entries",
        "forget_locks",
        "get_lock",
        "leave",
        "lookup",
        "open",
        "open_all",
        "read_link",
        "succeeded",
        "usage",
        "written",
    }
)
"""Calls that change nothing of a share; an `open` only where it is neither to write nor to cut."""

CONVERSATIONS = 8
"""Nodes of one grant at a time: a surrogate may have several replicas, while one moves."""


class NodeDoor:
    """Of one grant. Thread-safe."""

    def __init__(
        self, path: Path, shares: Shares, grant: ShareGrant, granted: Callable[[], bool]
    ) -> None:
        """Listen. granted: whether the grant still holds. Raises what ConversationListener does."""
        self._shares, self._grant, self._granted = shares, grant, granted
        self._lock = threading.Lock()
        self._tokens: dict[str, int] = {}  # of the nodes that have joined here, the oldest first
        self._channels: dict[str, Duplex] = {}
        self._listener = ConversationListener(path, self._welcome)

    def close(self, why: str) -> None:
        """Take no more, and go on without the nodes that are here."""
        self._listener.close()
        self.end_nodes(why)

    def end_nodes(self, why: str, *, handed_over: bool = False) -> None:
        """Whatever they say from now on comes too late. handed_over: home has what they had."""
        with self._lock:
            nodes = list(self._tokens.values())
        for node in nodes:
            self._shares.end_node(self._grant.share, node, why, handed_over=handed_over)

    def callers(self) -> set[int]:
        """Return the processes from which the last connections of its nodes came."""
        with self._lock:
            return {channel.caller for channel in self._channels.values()}

    def _welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        answer, channel, taken = self._shares.welcome(hello, self._admit, self._open)
        if channel is None:
            return answer, None, taken
        assert isinstance(channel, Duplex)
        joined = JoinReply.unpack(answer)
        surplus = None
        with self._lock:
            self._tokens[joined.token] = joined.node
            self._channels[joined.token] = channel
            if len(self._tokens) > CONVERSATIONS:
                oldest = next(iter(self._tokens))
                surplus = self._tokens.pop(oldest)
                del self._channels[oldest]
        if surplus is not None:
            self._shares.end_node(self._grant.share, surplus, "too many nodes of one grant")
        return answer, channel, taken

    def _admit(self, join: JoinRequest) -> JoinRequest:
        """Raises OSError."""
        if not self._granted() or join.share != self._grant.share:
            raise OSError(errno.EACCES, "no grant lets this node join")
        if join.name != self._grant.service:
            raise OSError(errno.EACCES, f"the node here is {self._grant.service}'s")
        with self._lock:
            mine = join.token in self._tokens
        return join if mine else replace(join, token="")

    def _open(self, name: str, arrived: Arrived) -> Channel:
        return (
            Duplex(name, arrived) if self._grant.writable else _ReadOnlyConversation(name, arrived)
        )


class _ReadOnlyConversation(Duplex):
    """A conversation with a node that may only read."""

    def __init__(self, name: str, arrived: Arrived) -> None:
        super().__init__(name, self._checked)
        self._take = arrived

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        def came(reply: bytes) -> None:
            if _gives(reply):
                why = "it gives content, and may only read"
                self._refuse(why)
                if failed:
                    failed(ConversationEnded(f"the conversation with {self.name} is over", why=why))
            elif arrived:
                arrived(reply)

        super().post(payload, came if arrived else None, failed)

    def _checked(self, payload: bytes, reply: Reply | None) -> None:
        if may_read(payload):
            self._take(payload, reply)
        elif reply and codec.is_call(payload):
            reply(codec.encode_refusal(OSError(errno.EROFS, "the grant is to read")))
        else:
            self._refuse("it changes content, and may only read")

    def _refuse(self, why: str) -> None:
        logger.warning("%s: %s", self.name, why)
        self.end(why)


def may_read(payload: bytes) -> bool:
    """Whether a node that may only read may say that. Raises IntegrityError for what is none."""
    if not codec.is_call(payload):
        return isinstance(codec.decode(payload), Fetch)
    name, arguments = codec.decode_call(payload)
    if name == "open":
        return len(arguments) == 3 and arguments[1] is False and arguments[2] is False
    return name in READING


def _gives(reply: bytes) -> bool:
    """Whether an answer brings content, or says that the node has some of its own."""
    try:
        codec.raise_refusal(reply)
        message = codec.decode(reply)
    except (OSError, IntegrityError):
        return False  # whoever asked says what that means
    if isinstance(message, EngageReply):
        return bool(message.owned)
    return isinstance(message, RecallReply) and bool(message.fresh)
