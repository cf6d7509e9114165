# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's machine knows of blocks and files, and the requests that wait for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from overlay.coherence.actions import Token
from overlay.coherence.messages import HOME, Fetch, FileId, NodeId, Own

NOBODY: frozenset[NodeId] = frozenset()


@dataclass(slots=True)
class Record:
    """What is known of a block.

    owner: HOME where home's content is the latest. sharers: who has a copy, the owner left out.
    readers: who had one when the owner became it. pusher: who pushed the latest content, and used:
    whether another one has read that. seized: the lost owner, until somebody uses the block. known:
    when home's content was the latest for sure, though another one owns it
    """

    version: int
    owner: NodeId = HOME
    sharers: frozenset[NodeId] = NOBODY
    readers: frozenset[NodeId] = NOBODY
    pusher: NodeId | None = None
    used: bool = False
    seized: NodeId | None = None
    known: float = -inf


@dataclass(frozen=True)
class Opening:
    """The request to open a file: about all of its blocks."""


@dataclass(frozen=True)
class Taking:
    """Home's own request. discard: from which block on nobody's content is wanted any more."""

    discard: int


@dataclass(eq=False)
class Request:
    node: NodeId
    token: Token
    file: FileId
    first: int
    end: float
    wants: Fetch | Own | Opening | Taking
    asks: set[int] = field(default_factory=set)
    refreshed: set[int] = field(default_factory=set)
    started: bool = False
    taken: bool = False
    alive: bool = True

    def overlaps(self, first: int, end: float) -> bool:
        return self.first < end and first < self.end


@dataclass(slots=True)
class FileRecord:
    base: int
    relaxation: float = 0.0
    blocks: dict[int, Record] = field(default_factory=dict)
    queue: list[Request] = field(default_factory=list)
    open: set[NodeId] = field(default_factory=set)
    native: NodeId | None = None
    seized: NodeId | None = None

    def record(self, number: int) -> Record:
        found = self.blocks.get(number)
        if found is None:
            found = self.blocks[number] = Record(self.base)
        return found

    def busy(self, first: int, end: float) -> bool:
        """Whether a request for these blocks is under way or waits."""
        return any(request.overlaps(first, end) for request in self.queue)
