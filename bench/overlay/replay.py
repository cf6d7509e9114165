# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A workload on the coherence machines of `shares.coherence`, over simulated links.

Two nodes, as in OFS: the mobile, and the other one, which is at home, beside the directory. What is
away runs there. Modelled are:

- Think times, as recorded: a task's access begins so long after the end of its access before as it
  did then.
  Pushes go on meanwhile. Accesses begin in the recorded order, and none before the end of an access
  to the same file that had ended before it began.
- A read or write waits for what has to come over the link, in round trips and in bytes; what is
  here costs
  nothing. Home needs no time.
- Every file is open at a node from the node's first access on; it is native as long as one node
  alone has
  used it. Opening and cutting a file are not reads or writes: their waits count for nobody. What
  they make the machines say is counted.
- What was there before is at home, and the mobile has a copy of all of it, as who has worked with
  it before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from bench.overlay.network import Clock, Line, Link, Traffic
from bench.overlay.plan import Plan, Step
from bench.overlay.trace import MICROSECONDS, Access, Kind
from bench.overlay.variants import VARIANTS
from bench.overlay.waits import OPEN, kind
from shares.coherence import (
    ATTRIBUTES,
    BLOCK,
    POLICIES,
    Action,
    Ask,
    Blocks,
    Directory,
    Fetch,
    FileId,
    Granted,
    Message,
    Node,
    NodeId,
    Opened,
    Optimal,
    Own,
    Policy,
    Reply,
    Taken,
    runs,
)

MOBILE = NodeId(1)
OTHER = NodeId(2)

NEARBY = Link(0.0, 1e12)
"""Between the other node and the directory, and all links before the replay begins."""

OPTIMAL = Optimal.name

EXTENT_BYTES = 40
"""Of block -1."""

AHEAD_FIRST, AHEAD_LIMIT = 4, 128
"""Blocks; those of `shares.nodes.access`."""

BEAT = 1.0
"""Seconds between heartbeats, as `shares.nodes` makes them with a lease of 3 s. What they are on
the wire is counted with no policy."""

Waiting = Generator[None, None, None]
"""What goes on whenever something has come to its node."""

Begin = Callable[[int, Callable[[], None]], None]
"""Begins the step of that number, and calls the other when it has ended."""


@dataclass
class Replayed:
    """latencies: seconds that each read and write waited for the network, in their order. opens:
    seconds that they waited for their files to be opened, which is in no latency. waits: seconds by
    what they were for, opens among them. seconds: what all of it took."""

    latencies: list[float] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    opens: float = 0.0
    waits: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    seconds: float = 0.0

    @property
    def latency_with_opens(self) -> float:
        """The mean, in seconds, with what opens took spread over all reads and writes."""
        return self.latency + self.opens / len(self.latencies)

    @property
    def latency(self) -> float:
        """The mean, in seconds."""
        return sum(self.latencies) / len(self.latencies)


def replay(plan: Plan, policy: str, link: Link, relaxation: float = 0.0) -> Replayed:
    """A whole workload. policy: OPTIMAL, or one of POLICIES and VARIANTS. relaxation: seconds."""
    return _Replay(plan, policy, link, relaxation).run()


class _Replay:
    def __init__(self, plan: Plan, policy: str, link: Link, relaxation: float) -> None:
        self._plan = plan
        self._link = link
        self._relaxation = relaxation
        self._future = 0
        """From which step on what happens is to come."""
        self._opening: dict[FileId, int] = {}
        self._clock = Clock()
        self._directory = Directory()
        self._nodes = {MOBILE: Node(), OTHER: Node()}
        self._policies: dict[NodeId, Policy] = {}
        for node in self._nodes:
            told = Optimal(partial(self._elsewhere, node)) if policy == OPTIMAL else None
            self._policies[node] = told or (POLICIES | VARIANTS)[policy]()
        self._sizes: defaultdict[FileId, int] = defaultdict(int)
        self._lines = self._connect(NEARBY, None)
        self._opened: set[tuple[NodeId, FileId]] = set()
        self._waiting: defaultdict[tuple[NodeId, FileId], list[Waiting]] = defaultdict(list)
        self._asked: dict[int, tuple[Message, float]] = {}
        self._cuts: dict[int, Callable[[], None]] = {}
        self._ahead: defaultdict[tuple[NodeId, FileId], _Ahead] = defaultdict(_Ahead)
        self._tokens = 0
        self._done = Replayed()

    def _elsewhere(self, node: NodeId, file: FileId, number: int) -> bool:
        return self._plan.elsewhere(file, number, self._future, node == OTHER)

    def _connect(self, link: Link, traffic: Traffic | None) -> dict[NodeId, tuple[Line, Line]]:
        """Of each node the line to home, and the one from it."""
        there, here = (self._clock, link, traffic), (self._clock, NEARBY, None)
        return {
            MOBILE: (Line(*there, self._held), Line(*there, self._held)),
            OTHER: (Line(*here, self._held), Line(*here, self._held)),
        }

    def _held(self, file: FileId, number: int) -> int:
        """No block ends with zeros but where its file ends: traces do not tell."""
        if number == ATTRIBUTES:
            return EXTENT_BYTES
        return max(0, min(BLOCK, self._sizes[file] - number * BLOCK))

    def run(self) -> Replayed:
        for file, size in self._plan.before():
            blocks = -(-size // BLOCK)
            access = replace(self._plan.steps[0].access, file=file - 1, kind=Kind.READ)
            step = Step(access, False, tuple(range(blocks)), range(0), blocks, size)
            self._start(step, lambda: None)
            self._clock.run()
        self._ahead.clear()
        self._done = Replayed()
        self._lines = self._connect(self._link, self._done.traffic)
        began = self._clock.now
        _Order(self._plan, self._clock, self._begin).run()
        self._done.seconds = self._clock.now - began
        return self._done

    def _begin(self, at: int, ended: Callable[[], None]) -> None:
        self._start(self._plan.steps[at], ended, at)

    def _start(self, step: Step, ended: Callable[[], None], at: int = 0) -> None:
        node = OTHER if step.away else MOBILE
        self._sizes[step.file] = step.bytes
        self._go_on(node, step.file, self._access(node, step, ended, at))

    def _go_on(self, node: NodeId, file: FileId, waiting: Waiting) -> None:
        try:
            next(waiting)
        except StopIteration:
            return
        self._waiting[node, file].append(waiting)

    def _came(self, node: NodeId, file: FileId) -> None:
        """Something has come: who waits for the file looks again."""
        for waiting in self._waiting.pop((node, file), []):
            self._go_on(node, file, waiting)

    # One access.

    def _access(self, node: NodeId, step: Step, ended: Callable[[], None], at: int) -> Waiting:
        asked = self._clock.now
        yield from self._open(node, step.file, at)
        began = self._clock.now
        self._done.opens += began - asked
        self._done.waits[OPEN] += began - asked
        self._hear(node)
        machine = self._nodes[node]
        waits_for = kind(machine, self._directory, node, step, began)
        if step.cut is not None and not machine.native(step.file):
            yield from self._cut(node, step)
        else:
            yield from self._touch(node, step, at)
            if waits_for is not None:
                self._done.waits[waits_for] += self._clock.now - began
        if step.access.kind is not Kind.RESIZE:
            self._done.latencies.append(self._clock.now - began)
        ended()

    def _open(self, node: NodeId, file: FileId, at: int) -> Waiting:
        if (node, file) in self._opened:
            return
        self._opening[file] = at
        self._opened.add((node, file))
        self._tokens += 1
        token = self._tokens
        self._act(self._directory.open(node, file, token, self._clock.now, self._relaxation))
        while file not in self._nodes[node].files():
            yield

    def _touch(self, node: NodeId, step: Step, at: int) -> Waiting:
        """Blocks of one access: those that are here at once, the others when they have come. What
        is lacking is asked for together; nothing is written before the size is known."""
        parts = [
            _Part([ATTRIBUTES], step.changes, range(0)),
            _Part(list(step.numbers), step.write, step.whole),
        ]
        while True:
            self._hear(node)
            self._future = at + 1
            for part in parts:
                if part.write and parts[0].left and part is not parts[0]:
                    break
                self._do(node, step.file, part)
            if not any(part.left for part in parts):
                break
            for part in parts:
                for message in self._needed(node, step, part):
                    self._ask_home(node, message)
            yield
        if not step.write and step.numbers:
            self._ahead[node, step.file].note(step.numbers[0], step.numbers[-1] + 1)

    def _do(self, node: NodeId, file: FileId, part: _Part) -> None:
        """What can be read or written of it now."""
        machine, now = self._nodes[node], self._clock.now
        if part.write:
            ready = [n for n in part.left if machine.writable(file, n, now, n in part.whole)]
        else:
            ready = [n for n in part.left if machine.readable(file, n, now)]
        part.left = [n for n in part.left if n not in set(ready)]
        for first, count in runs(ready):
            if not part.write:
                machine.did_read(file, first, count)
                continue
            for push in machine.did_write(file, first, count, now):
                self._ask_home(node, push)
            if machine.next_due() < inf:
                self._clock.at(machine.next_due(), partial(self._due, node))

    def _due(self, node: NodeId) -> None:
        for push in self._nodes[node].due(self._clock.now):
            self._ask_home(node, push)
        if self._nodes[node].next_due() < inf:
            self._clock.at(self._nodes[node].next_due(), partial(self._due, node))

    def _hear(self, node: NodeId) -> None:
        """The node knows of its last heartbeat that has been answered."""
        round_trip = self._link.round_trip if node == MOBILE else 0.0
        answered = self._clock.now - round_trip
        interval = min(BEAT, self._relaxation / 3) if self._relaxation else BEAT
        self._nodes[node].heard(answered - answered % interval)

    def _needed(self, node: NodeId, step: Step, part: _Part) -> Iterator[Message]:
        machine, now = self._nodes[node], self._clock.now
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

    def _cut(self, node: NodeId, step: Step) -> Waiting:
        """Home is asked for it, and takes the blocks."""
        assert step.cut is not None
        file, over = step.file, [False]
        first, discard = step.cut // BLOCK, -(-step.cut // BLOCK)
        half = self._link.round_trip / 2 if node == MOBILE else 0.0
        self._tokens += 1
        token = self._tokens

        def arrived() -> None:
            now = self._clock.now
            self._act(self._directory.take(file, token, now, first, discard, node))

        def answered() -> None:
            over[0] = True
            self._came(node, file)

        self._cuts[token] = lambda: self._clock.at(self._clock.now + half, answered)
        self._clock.at(self._clock.now + half, arrived)
        while not over[0]:
            yield

    # What home says, and what it is told.

    def _ask_home(self, node: NodeId, message: Message) -> None:
        self._tokens += 1
        token = self._tokens
        self._asked[token] = message, self._clock.now

        def arrived() -> None:
            self._act(self._directory.request(node, message, token, self._clock.now))

        self._lines[node][0].send(message, arrived)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Reply):
                self._reply(action)
            elif isinstance(action, Ask):
                self._ask(action)
            elif isinstance(action, Opened):
                self._tell_opened(action)
            elif isinstance(action, Taken):
                self._act(self._directory.gave(action.file, action.token, self._clock.now))
                self._cuts.pop(int(str(action.token)))()

    def _reply(self, action: Reply) -> None:
        node, reply = action.node, action.message
        request, sent = self._asked.pop(int(str(action.token)))

        def arrived() -> None:
            machine = self._nodes[node]
            if isinstance(request, Fetch) and isinstance(reply, Blocks):
                machine.blocks(request, reply, sent)
            elif isinstance(request, Own) and isinstance(reply, Granted):
                machine.granted(request, reply, self._clock.now)
            self._came(node, request.file)

        self._lines[node][1].send(reply, arrived)

    def _ask(self, action: Ask) -> None:
        node, number = action.node, action.number

        def arrived() -> None:
            self._hear(node)
            self._future = self._opening.get(action.message.file, 0)
            for flush in self._nodes[node].ahead(action.message, self._clock.now):
                self._ask_home(node, flush)
            answer = self._nodes[node].answer(action.message, self._clock.now)

            def answered() -> None:
                self._act(self._directory.answer(node, number, answer, self._clock.now))

            self._lines[node][0].send(answer, answered)
            self._came(node, action.message.file)

        self._lines[node][1].send(action.message, arrived)

    def _tell_opened(self, action: Opened) -> None:
        """In the stream, behind what was said before; its bytes are a call's and not counted."""
        node = action.node

        def arrived() -> None:
            machine = self._nodes[node]
            policy, relaxation = self._policies[node], self._relaxation
            machine.open(action.file, policy, action.native, relaxation, action.grant)
            self._came(node, action.file)

        self._lines[node][1].follow(arrived)


@dataclass
class _Part:
    """Blocks of one access that are treated alike, and which of them are left to do."""

    left: list[int]
    write: bool
    whole: range


@dataclass
class _Ahead:
    """How far a node fetches ahead of who reads a file in order, as `shares.nodes` does it."""

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


__all__ = ["MOBILE", "OPTIMAL", "OTHER", "Replayed", "replay"]
