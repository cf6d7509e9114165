# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A workload on the coherence machines of `shares.protocol`, over simulated links.

Two nodes, as in OFS: the mobile, and the other one, which is at home, beside the directory. What is
away runs there. Modelled are:

- Think times, as recorded: a task's access begins so long after the end of its access before as it
  did then.
  Pushes go on meanwhile. Accesses begin in the recorded order, and none before the end of an access
  to the same file that had ended before it began.
- A read or write waits for what has to come over the link, in round trips and in bytes; what is
  here costs
  nothing. Home needs no time.
- Files are opened and closed as real nodes do it (opens.py). Opening and cutting a file are not
  reads or writes: their waits count for nobody. What they make the machines say is counted.
- What was there before is at home, and the mobile has a copy of all of it, as who has just read
  it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from papers.ofs.machines import ACROSS, MOBILE, OTHER, Machines, Waiting
from papers.ofs.made import OwnFolders
from papers.ofs.network import Clock, Link, Traffic
from papers.ofs.opens import Opens
from papers.ofs.plan import Plan, Step
from papers.ofs.trace import MICROSECONDS, Access, Kind
from papers.ofs.variants import VARIANTS
from papers.ofs.waits import OPEN, kind
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    POLICIES,
    FileId,
    Message,
    NodeId,
    Optimal,
    PushPolicy,
    runs,
)

OPTIMAL = Optimal.name

AT_ONCE = 1.0
"""Seconds in which nodes that are beside home get all that they ask for; no file has rested for
long by then."""

AHEAD_FIRST, AHEAD_LIMIT = 4, 128
"""Blocks; those of `shares.node.content.access`."""

Begin = Callable[[int, Callable[[], None]], None]
"""Begins the step of that number, and calls the other when it has ended."""


@dataclass
class ReplayResult:
    """latencies: seconds that each read and write waited for the network, in their order; reads,
    writes: apart. written: how often a block was written. opens: seconds that they waited for their
    files to be opened, which is in no latency. waits: seconds by what they were for, opens among
    them. seconds: what all of it took."""

    latencies: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    written: int = 0
    traffic: Traffic = field(default_factory=Traffic)
    opens: float = 0.0
    waits: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    seconds: float = 0.0

    @property
    def latency_with_opens(self) -> float:
        """The mean, in seconds, with what opens took spread over all reads and writes."""
        return self.latency + self.opens / len(self.latencies)

    @property
    def overwrites(self) -> float:
        """Writes of blocks for each block that went over the link (Figure 10 of OFS)."""
        return self.written / max(1, self.traffic.blocks)

    @property
    def latency(self) -> float:
        """The mean, in seconds."""
        return sum(self.latencies) / len(self.latencies)


def replay(plan: Plan, policy: str, link: Link, relaxation: float = 0.0) -> ReplayResult:
    """A whole workload. policy: OPTIMAL, or one of POLICIES and VARIANTS. relaxation: seconds."""
    return _Replay(plan, policy, link, relaxation).run()


class _Replay:
    """policies: each node's."""

    def __init__(self, plan: Plan, policy: str, link: Link, relaxation: float) -> None:
        self._plan = plan
        self._link = link
        self.policies = {node: self._policy(policy, node) for node in ACROSS}
        self._machines = Machines(relaxation, self.policies, self._engaged)
        self._clock = self._machines.clock
        self._opens = Opens(self._machines, OwnFolders.of(plan.workload.trace.files))
        self._ahead: defaultdict[tuple[NodeId, FileId], _ReadaheadState] = defaultdict(
            _ReadaheadState
        )
        self._done = ReplayResult()

    def _policy(self, name: str, node: NodeId) -> PushPolicy:
        if name == OPTIMAL:
            return Optimal(partial(self._elsewhere, node))
        return (POLICIES | VARIANTS)[name]()

    def _elsewhere(self, node: NodeId, file: FileId, number: int) -> bool:
        return self._plan.elsewhere(file, number, self._machines.future, node == OTHER)

    def _engaged(self, node: NodeId, file: FileId) -> None:
        self._opens.engaged(node, file)

    def run(self) -> ReplayResult:
        for file, size in self._plan.before():
            blocks = -(-size // BLOCK)
            access = replace(self._plan.steps[0].access, file=file - 1, kind=Kind.READ)
            about = (False, tuple(range(blocks)), range(0), blocks, size)
            self._start(Step(access, *about, opens=True, closes=True), lambda: None)
            self._clock.run(until=AT_ONCE)
        self._ahead.clear()
        self._done = ReplayResult()
        self._machines.connect(self._link, self._done.traffic)
        _Order(self._plan, self._clock, self._begin).run()
        return self._done

    def _begin(self, at: int, ended: Callable[[], None]) -> None:
        self._start(self._plan.steps[at], ended, at)

    def _start(self, step: Step, ended: Callable[[], None], at: int = 0) -> None:
        node = OTHER if step.away else MOBILE
        self._machines.go_on(node, step.file, self._access(node, step, ended, at))

    # One access.

    def _access(self, node: NodeId, step: Step, ended: Callable[[], None], at: int) -> Waiting:
        asked = self._clock.now
        self._machines.sizes[step.file] = step.bytes
        if step.opens:
            self._machines.opening[step.file] = at
            yield from self._opens.open(node, step, writes=step.opened_to_write)
        began = self._clock.now
        self._done.opens += began - asked
        self._done.waits[OPEN] += began - asked
        self._machines.hear(node)
        machine = self._machines.nodes[node]
        waits_for = kind(machine, self._machines.directory, node, step, began)
        if step.cut is None or machine.native(step.file):
            yield from self._touch(node, step, at)
            if waits_for is not None:
                self._done.waits[waits_for] += self._clock.now - began
        elif step.cut or not step.opens:
            yield from self._machines.cut(node, step.file, step.cut)
        if step.cut is not None:
            self._opens.cut(node, step.file)
        if step.access.kind is not Kind.RESIZE:
            self._note(step, self._clock.now - began)
        self._done.seconds = self._clock.now
        if step.write and not step.changes:
            self._opens.wrote(node, step.file)
        ended()
        if step.closes:
            self._opens.release(node, step.file)

    def _note(self, step: Step, seconds: float) -> None:
        self._done.latencies.append(seconds)
        if step.write:
            self._done.writes.append(seconds)
            self._done.written += len(step.numbers)
        else:
            self._done.reads.append(seconds)

    def _touch(self, node: NodeId, step: Step, at: int) -> Waiting:
        """Blocks of one access: those that are here at once, the others when they have come. What
        is lacking is asked for together; nothing is written before the size is known."""
        parts = [
            _Part([ATTRIBUTES], step.changes, range(0)),
            _Part(list(step.numbers), step.write, step.whole),
        ]
        while True:
            self._machines.hear(node)
            self._machines.future = at + 1
            for part in parts:
                if part.write and parts[0].left and part is not parts[0]:
                    break
                self._do(node, step.file, part)
            if not any(part.left for part in parts):
                break
            for part in parts:
                for message in self._needed(node, step, part):
                    self._machines.ask_home(node, message)
            yield
        if not step.write and step.numbers:
            self._ahead[node, step.file].note(step.numbers[0], step.numbers[-1] + 1)

    def _do(self, node: NodeId, file: FileId, part: _Part) -> None:
        """What can be read or written of it now."""
        machine, now = self._machines.nodes[node], self._clock.now
        if part.write:
            ready = [n for n in part.left if machine.writable(file, n, now, n in part.whole)]
        else:
            ready = [n for n in part.left if machine.readable(file, n, now)]
        part.left = [n for n in part.left if n not in set(ready)]
        for first, count in runs(ready):
            if part.write:
                self._machines.write(node, file, first, count)
            else:
                machine.did_read(file, first, count)

    def _needed(self, node: NodeId, step: Step, part: _Part) -> Iterator[Message]:
        machine, now = self._machines.nodes[node], self._clock.now
        if not part.left:
            return
        wanted = part.left if part.write else self._with_ahead(node, step, part.left)
        for first, count in runs(wanted):
            if part.write:
                yield from machine.to_write(step.file, first, count, part.whole, now)
            else:
                yield from machine.to_read(step.file, first, count, now)

    def _with_ahead(self, node: NodeId, step: Step, left: list[int]) -> list[int]:
        if left[0] == ATTRIBUTES:
            return left
        return list(range(left[0], self._ahead[node, step.file].end(left, step.size)))


@dataclass
class _Part:
    """Blocks of one access that are treated alike, and which of them are left to do."""

    left: list[int]
    write: bool
    whole: range


@dataclass
class _ReadaheadState:
    """How far a node fetches ahead of who reads a file in order, as `shares.node` does it."""

    next: int = 0
    window: int = 0

    def end(self, left: list[int], blocks: int) -> int:
        if self.next - 1 <= left[0] <= self.next and self.window:
            return max(left[-1] + 1, min(left[-1] + 1 + self.window, blocks))
        return left[-1] + 1

    def note(self, first: int, end: int) -> None:
        in_order = self.next - 1 <= first <= self.next
        self.window = min(AHEAD_LIMIT, max(AHEAD_FIRST, 2 * self.window)) if in_order else 0
        self.next = end


class _Order:
    """Begins the steps one after the other, when each may begin."""

    def __init__(self, plan: Plan, clock: Clock, begin: Begin) -> None:
        self._steps = plan.steps
        self._clock = clock
        self._start = begin
        self._at = 0
        self._open: set[int] = set()
        self._ended: dict[int, tuple[float, int]] = {}
        """Of each task the time at which its last access ended, and when that was in the trace."""
        self._before = clock.now
        self._armed = False

    def run(self) -> None:
        self._next()
        self._clock.run()
        assert self._at == len(self._steps) and not self._open, "an access never ended"

    def _next(self) -> None:
        """Arms the next step, unless it waits for the end of another one."""
        if self._armed or self._at == len(self._steps):
            return
        access = self._steps[self._at].access
        if any(self._precedes(self._steps[other].access, access) for other in self._open):
            return
        self._armed = True
        self._clock.at(self._when(access), self._begin)

    @staticmethod
    def _precedes(other: Access, access: Access) -> bool:
        """Whether `other` has to be over before `access` begins."""
        if other.task == access.task:
            return True
        return other.file == access.file and other.at + other.took <= access.at

    def _when(self, access: Access) -> float:
        if access.task in self._ended:
            time, recorded = self._ended[access.task]
            began = time + (access.at - recorded) / MICROSECONDS
        else:
            previous = self._steps[self._at - 1].access.at if self._at else access.at
            began = self._before + (access.at - previous) / MICROSECONDS
        return max(began, self._before)

    def _begin(self) -> None:
        at = self._at
        access = self._steps[at].access
        self._before = self._clock.now
        self._at, self._armed = at + 1, False
        self._open.add(at)

        def ended() -> None:
            self._open.discard(at)
            self._ended[access.task] = self._clock.now, access.at + access.took
            self._next()

        self._start(at, ended)
        self._next()


__all__ = ["MOBILE", "OPTIMAL", "OTHER", "ReplayResult", "replay"]
