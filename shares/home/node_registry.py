# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How nodes come into shares: hello and answer are those of shares.node.hub.membership."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from satchel.errors import SatchelError, UsageError
from satchel.names import check_name
from shares.home.calls import HomeCalls
from shares.home.nodes.channel import Channel, Open
from shares.home.nodes.session import NodeSession
from shares.home.share import Share
from shares.node import JoinReply, JoinRequest, codec
from shares.protocol import NodeId

NODE_LIMIT = 64
"""Nodes of one share at a time."""


@dataclass(frozen=True)
class NodeRecord:
    """A node that home knows. token: what it joins again with"""

    share: str
    node: NodeId
    token: str

    def __post_init__(self) -> None:
        if self.node < 1:
            raise UsageError("a node has no number")


class NodeRegistry:
    """Knows the nodes of a home's shares, and takes them in. Thread-safe."""

    def __init__(
        self,
        find: Callable[[str], Share],
        open_channel: Open,
        known: Iterable[NodeRecord] = (),
        keep: Callable[[list[NodeRecord]], None] = lambda nodes: None,
    ) -> None:
        """find: the share of that name; raises OSError for the node. open_channel: begins the
        conversation with a new node. known: nodes that were there when an earlier home ended.
        keep: is told of those that are there whenever they are others, one call at a time."""
        self._find, self._open_channel, self._keep = find, open_channel, keep
        self._lock = threading.RLock()
        self._known = {record.token: record for record in known}
        self._lost: dict[str, NodeId] = {}  # those may come back, and keep their numbers
        highest = max((record.node for record in self._known.values()), default=0)
        self._numbers = itertools.count(highest + 1)

    def known(self, share: str) -> list[NodeId]:
        """The nodes of the share that are there, or were when an earlier home ended."""
        with self._lock:
            return [each.node for each in self._known.values() if each.share == share]

    def lost(self, session: NodeSession) -> None:
        """A node is no more: home that begins again does not wait for it."""
        with self._lock:
            if self._known.pop(session.token, None):
                self._keep(list(self._known.values()))
                self._lost[session.token] = session.node

    def forget(self, share: str) -> None:
        """There is no such share any more."""
        with self._lock:
            self._known = {t: known for t, known in self._known.items() if known.share != share}
            self._keep(list(self._known.values()))

    def welcome(
        self,
        hello: bytes,
        admit: Callable[[JoinRequest], JoinRequest] = lambda join: join,
        open_channel: Open | None = None,
        *,
        stranger: bool = False,
    ) -> tuple[bytes, Channel | None, int]:
        """From a node's hello: the one in return; with it the conversation, unless the node is
        refused, and how many of its payloads the node has taken. admit: raises OSError for a node
        that may not join here, or says as what it may; open_channel: for a new conversation;
        stranger: the node is not a program of the owner's."""
        try:
            join = admit(JoinRequest.unpack(hello))
            check_name(join.name, "node")
            share = self._find(join.share)
            session = self._session(share, join, open_channel or self._open_channel, stranger)
        except OSError as error:
            return codec.encode_refusal(error), None, 0
        except SatchelError as error:
            return codec.encode_refusal(OSError(errno.EINVAL, str(error))), None, 0
        joined = JoinReply(session.node, session.token, share.lease, session.channel.pause())
        session.heard = time.monotonic()
        return joined.pack(), session.channel, join.received

    def _session(
        self, share: Share, join: JoinRequest, open_channel: Open, stranger: bool
    ) -> NodeSession:
        """The conversation that goes on, or a new one. Raises OSError for the node."""
        with self._lock:
            node = self._number(join)
            session = share.sessions.get(node) if node is not None else None
            if session and session.conversation == join.conversation:
                return session
            if join.received:
                raise OSError(errno.ESTALE, "the lease of this node is over")
            if session:
                share.lost(session, "it has joined anew")
            if len(share.sessions) >= NODE_LIMIT:
                raise OSError(errno.EUSERS, os.strerror(errno.EUSERS))
            token = join.token
            if node is None:
                node, token = NodeId(next(self._numbers)), secrets.token_hex(16)
            session = NodeSession(
                node,
                join.name,
                token,
                join.conversation,
                open_channel=open_channel,
                perform=HomeCalls(share).perform,
                grace=share.grace,
                stranger=stranger,
            )
            share.join(session)
            if token not in self._known:
                self._lost.pop(token, None)
                self._known[token] = NodeRecord(join.share, node, token)
                self._keep(list(self._known.values()))
            return session

    def _number(self, join: JoinRequest) -> NodeId | None:
        """Under which number that node is or was here."""
        known = self._known.get(join.token)
        if known and known.share == join.share:
            return known.node
        return self._lost.get(join.token)
