# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's machine knows of blocks and files, and the requests that wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from shares.protocol.home_actions import Token
from shares.protocol.messages import ATTRIBUTES, HOME, UNCUT, Acquire, Fetch, FileId, NodeId, Update
from shares.protocol.overwrites import RELEARNT

NOBODY: frozenset[NodeId] = frozenset()


@dataclass(slots=True)
class BlockRecord:
    """What is known of a block.

    owner: HOME where home's content is the latest. sharers: who has a copy, the owner left out.
    readers: who had one when the owner became it. pusher: who pushed the latest content, and used:
    whether another one has read that. used_before: with relaxation, whether a copy was read before
    it was last said to grow old; seized: the owner was lost, and nobody has used the block
    since. known: when the owner gave its content last, for status pages. grant: the number of the
    latest right to write; content of an older one is never taken. again: of the last right that
    the owner has asked for besides, as it may not have had the content that came with the first;
    0: none
    """

    version: int
    grant: int = 0
    owner: NodeId = HOME
    sharers: frozenset[NodeId] = NOBODY
    readers: frozenset[NodeId] = NOBODY
    pusher: NodeId | None = None
    used: bool = False
    used_before: bool = False
    seized: bool = False
    known: float = -inf
    again: int = 0

    def granted(self, grant: int) -> None:
        """From now on it is written under this one alone."""
        self.grant, self.again = grant, 0

    def own(self, node: NodeId, grant: int) -> None:
        """The node is the owner, and may write under that number."""
        if self.owner == node:
            # It became the owner after it asked, and writes under that number; under this one
            # where it found no room for what came with that.
            self.again = grant
        else:
            self.granted(grant)
        self.owner, self.sharers = node, NOBODY


@dataclass(frozen=True)
class OpenRequest:
    """The request to open a file: about all of its blocks. cut: home has just made it empty for
    this."""

    cut: bool = False


@dataclass(frozen=True)
class ReclaimRequest:
    """Home's own request: for block -1, and those from `first` to before `end`. discard, kept: from
    which block to before which one nobody's content is wanted any more. by: for which node."""

    first: int
    discard: int
    by: NodeId = HOME
    end: float = inf
    kept: float = inf

    @property
    def behind(self) -> float:
        """The block after the last one."""
        return self.end if self.first < UNCUT else 0

    @property
    def cuts(self) -> bool:
        """Whether the size is another one after it."""
        return self.discard < UNCUT and self.kept == inf

    def takes(self, number: int) -> bool:
        return number == ATTRIBUTES or self.first <= number < self.end

    def discards(self, number: int) -> bool:
        return self.discard <= number < self.kept


@dataclass(eq=False)
class Request:
    """lent: blocks whose content came for this, while their owner stays the owner. first, end: the
    blocks for which others wait behind it. sized: home has block -1 for a reclaim, and takes the
    others now"""

    node: NodeId
    token: Token
    file: FileId
    first: int
    end: float
    wants: Fetch | Acquire | OpenRequest | ReclaimRequest
    asks: set[int] = field(default_factory=set)
    started: bool = False
    taken: bool = False
    sized: bool = False
    alive: bool = True
    lent: set[int] = field(default_factory=set)

    def overlaps(self, first: int, end: float) -> bool:
        return max(self.first, first) < min(self.end, end)

    def narrow(self) -> None:
        """Wait for no more than it is about, after it has waited for all of the file."""
        wants = self.wants
        if isinstance(wants, Fetch | Acquire):
            self.first, self.end = wants.first, wants.first + wants.count
        elif isinstance(wants, ReclaimRequest) and not 0 == self.end < wants.behind:
            self.first, self.end = ATTRIBUTES, wants.behind

    def widen(self) -> bool:
        """Return whether it has to start again, about all of its blocks, after it was about -1."""
        wants = self.wants
        if not isinstance(wants, ReclaimRequest) or self.end >= wants.behind:
            return False
        self.sized, self.started, self.first, self.end = True, False, ATTRIBUTES, wants.behind
        return True


@dataclass(slots=True)
class FileRecord:
    """What is known of a file. grant: the number of the latest right to write all of it,
    natively or as home, which cuts; native_grant: of the former. brings: a node was lost that
    had it open, and may bring what it wrote under a grant that is known here. writing: nodes
    whose programs may write it. engaging: who had it natively and wrote it no more, until it
    has answered Engage: others read what home has meanwhile, and nobody writes. contended: a
    node that was asked for block -1 has asked for others, and had to wait: a cut takes -1 first
    from then on. cut_off: who pushed blocks that were cut off, and whether others had read
    that, until they are there again. over: it is no more, and only requests keep this."""

    base: int
    relaxation: float = 0.0
    blocks: dict[int, BlockRecord] = field(default_factory=dict)
    queue: list[Request] = field(default_factory=list)
    open: set[NodeId] = field(default_factory=set)
    native: NodeId | None = None
    writing: set[NodeId] = field(default_factory=set)
    engaging: NodeId | None = None
    grant: int = 0
    native_grant: int = 0
    seized: bool = False
    brings: bool = False
    over: bool = False
    contended: bool = False
    cut_off: dict[int, tuple[NodeId, bool]] = field(default_factory=dict)

    @property
    def rests(self) -> bool:
        """Whether the node that had it alone has closed it, and nobody has asked for it since."""
        return self.native is not None and self.native not in self.open and not self.queue

    @property
    def idle(self) -> bool:
        """Whether no node has anything of it, or may bring any of it, so that all is as of a file
        that was never opened, but for numbers."""
        had = self.native is not None or self.engaging is not None
        if self.open or had or self.seized or self.brings:
            return False
        return all(r.owner == HOME and not r.sharers and not r.seized for r in self.blocks.values())

    @property
    def newest(self) -> int:
        """The latest version of any block, of those that were cut off as well."""
        return max(self.base, *(record.version for record in self.blocks.values()), 0)

    def record(self, number: int) -> BlockRecord:
        found = self.blocks.get(number)
        if found is None:
            found = self.blocks[number] = BlockRecord(self.base, seized=self.seized)
            if number in self.cut_off:
                found.pusher, found.used = self.cut_off.pop(number)
        return found

    def look(self, number: int) -> BlockRecord:
        """The same, for who changes nothing of what is not known yet: that is not remembered."""
        return self.blocks.get(number) or BlockRecord(self.base, seized=self.seized)

    def takes(self, number: int, grant: int) -> bool:
        """Whether content that was written under this grant is the latest."""
        record = self.blocks.get(number)
        if record is None:
            return grant == self.grant
        if record.grant <= grant <= max(record.grant, record.again):
            # An owner that became the only user later may still have what it wrote as the owner.
            return self.native_grant <= grant or record.owner != HOME
        return grant == self.grant > record.grant

    def changed(self, taken: ReclaimRequest, grant: int) -> None:
        """Home has changed the blocks that it took: nothing that was written before is the latest.
        grant: a number that nobody writes under. Of what was cut off nothing is known any more, but
        that its versions have been."""
        kept: dict[int, BlockRecord] = {}
        for number, record in self.blocks.items():
            if taken.discards(number):
                self.base = max(self.base, record.version)
                if number < taken.discard + RELEARNT and record.pusher is not None:
                    self.cut_off[number] = record.pusher, record.used
                continue
            kept[number] = record
            if taken.takes(number):
                record.version += 1
                record.granted(grant)
        self.blocks = kept
        if taken.first < UNCUT:
            self.grant, self.seized = grant, False

    def alone(self, node: NodeId) -> bool:
        """Whether no other node has anything of it."""
        return self.engaging is None and all(
            record.owner in {HOME, node} and record.sharers <= {node}
            for record in self.blocks.values()
        )

    def engage(self) -> NodeId:
        """The node that has it natively, which is going to be told that others use it, and of
        which home has all that it wrote."""
        assert self.native is not None
        self.engaging, self.native = self.native, None
        for record in self.blocks.values():
            record.owner = HOME
        return self.engaging

    def lose(self, node: NodeId, left: bool) -> tuple[int, ...] | None:
        """The node is no more; left: for good. Of which blocks home goes on with what the log
        says; None: of all that it has."""
        alone, seized = self.native == node, []
        self.brings |= not left and (alone or node in self.open)
        if alone:
            self.native, self.seized, self.base = None, not left, self.base + 2
            for record in self.blocks.values():
                record.version, record.seized = record.version + 2, not left
        self.writing.discard(node)
        if self.engaging == node:
            self.engaging = None
        for number, record in self.blocks.items():
            if record.owner == node:
                # 2, because the lost owner may have counted what it gave as 1.
                record.owner, record.version = HOME, record.version + 2
                record.seized = not left
                seized.append(number)
            record.sharers -= {node}
            record.readers -= {node}
        self.open.discard(node)
        for request in self.queue:
            request.alive = request.alive and request.node != node
        self.queue = [request for request in self.queue if request.alive or request.started]
        return None if alone else tuple(sorted(seized))

    def pushed(
        self, node: NodeId, numbers: Iterable[int], everyone: bool
    ) -> dict[NodeId, list[int]]:
        """Who gets which of the blocks that the node has pushed, and shares them from now on."""
        wanting: defaultdict[NodeId, list[int]] = defaultdict(list)
        for number in numbers:
            record = self.record(number)
            # Who waits for the block gets it with the reply, or takes it from everybody.
            if record.pusher != node or self.busy(number, number + 1):
                continue
            readers = record.readers | self.open if everyone else record.readers
            for reader in sorted(readers - {node}):
                wanting[reader].append(number)
                record.sharers |= {reader}
        return wanting

    def drop(self, node: NodeId) -> None:
        """The node has nothing of it any more."""
        for record in self.blocks.values():
            record.sharers -= {node}
            record.readers -= {node}
            if record.owner == node:
                record.owner = HOME

    def update(self, file: FileId, first: int, count: int) -> Update:
        numbers = tuple(range(first, first + count))
        versions = tuple(self.record(number).version for number in numbers)
        return Update(file, first, count, numbers, versions=versions)

    def free(self, number: int, node: NodeId, opening: Request | None) -> bool:
        """Whether no other node has the block, or waits for it. opening: is not counted."""
        record = self.record(number)
        waits = any(r is not opening and r.overlaps(number, number + 1) for r in self.queue)
        return record.owner == HOME and record.sharers <= {node} and not waits

    def reserve(self, request: Request) -> None:
        """Let a request about many blocks keep others from -1 alone, if nodes contend for the file
        and that suffices. A node that has -1 may keep it until it gets other blocks, which must not
        wait for this request."""
        wants = request.wants
        shared = self.contended and self.native is None and self.engaging is None
        if isinstance(wants, ReclaimRequest) and not request.sized:
            request.end = 0 if shared else wants.behind
        elif isinstance(wants, OpenRequest):
            request.end = 0 if shared and self.open - {request.node} else inf

    def may_start(self, request: Request) -> bool:
        """Return whether no earlier request, and no started one, overlaps it."""
        others = self.queue[: self.queue.index(request)]
        started = [other for other in self.queue if other.started and other is not request]
        return not any(request.overlaps(o.first, o.end) for o in (*others, *started))

    def busy(self, first: int, end: float) -> bool:
        """Whether a request for these blocks is under way or waits."""
        return any(request.overlaps(first, end) for request in self.queue)
