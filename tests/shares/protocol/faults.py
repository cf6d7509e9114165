# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs on several nodes that read and write the same few blocks, while things go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from shares.protocol import ATTRIBUTES, DelayedUpdate, FileId, Policy
from tests.shares.history import INITIAL, Operation
from tests.shares.protocol.accesses import NOTHING, VALUE, Access
from tests.shares.protocol.simulator import SimHome, SimNode
from tests.shares.protocol.world import World

FAULTS = ("pause", "stall", "break", "kill")


@dataclass(frozen=True)
class Plan:
    """A run. Times in seconds. faults: which kinds there are; one every `between` on average.
    log: "sync" or "off"; without the log nothing may be killed, and no lease may end. attributes:
    whether block -1 is used like the others; its content comes with the open of a native file.
    late: whether messages may overtake answers to opens; ahead: whether content is asked for with
    them. cuts: how often a file is cut instead, and of its opens, how many are with that"""

    seed: int = 1
    operations: int = 1000
    nodes: int = 3
    threads: int = 2
    files: int = 2
    blocks: int = 3
    policy: Callable[[], Policy] = DelayedUpdate
    log: str = "sync"
    faults: tuple[str, ...] = FAULTS
    between: float = 0.4
    lease: float = 0.5
    relaxation: float = 0.0
    closes: float = 0.02
    evicts: float = 0.05
    attributes: bool = False
    late: bool = False
    ahead: bool = False
    cuts: float = 0.0
    limit: float = 4000.0


@dataclass
class Run:
    """What came of a plan. stuck: accesses that had not ended when nothing happened any more."""

    plan: Plan
    history: list[Operation] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    cuts: int = 0
    ended: int = 0
    steps: int = 0


class _Players:
    """Runs one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.run = Run(plan)
        self.world = World(plan.seed)
        late = partial(self.world.chance.expovariate, 20.0) if plan.late else None
        self.home = SimHome(self.world, plan.lease, plan.relaxation, late)
        self.chance = self.world.chance
        self.order = 0
        self.begun = 0
        self.values = 0
        self.cut: dict[int, float] = {}
        self.busy: Counter[tuple[int, FileId]] = Counter()
        self.closed: set[tuple[int, FileId]] = set()
        self.nodes: dict[int, SimNode] = {}
        for number in range(1, plan.nodes + 1):
            self.start(number)
        self.watch()
        if plan.faults:
            self.after(plan.between, self.fault)

    def after(self, mean: float, event: Callable[[], None]) -> None:
        self.world.after(self.chance.expovariate(1 / mean), event)

    @property
    def over(self) -> bool:
        return self.begun >= self.plan.operations

    def delay(self) -> float:
        return self.chance.uniform(0.001, 0.02)

    def start(self, number: int) -> None:
        rate = self.chance.uniform(0.998, 1.002)
        node = SimNode(
            self.home,
            number,
            self.delay,
            self.plan.policy,
            log=self.plan.log,
            rate=rate,
            ahead=self.plan.blocks if self.plan.ahead else 0,
        )
        self.nodes[number] = node
        for file in range(1, self.plan.files + 1):
            self.closed.discard((number, FileId(file)))
            node.open(FileId(file))
        self.tick(node)
        for _ in range(self.plan.threads):
            self.after(0.02, lambda: self.act(node))

    def tick(self, node: SimNode) -> None:
        """The node's own timer: heartbeats, and new connections for lost ones."""
        if not node.alive:
            return
        if self.world.now >= node.paused_until:
            if node.connected:
                node.beat()
            elif self.cut.get(node.id, 0.0) <= self.world.now:
                node.rejoin()
            node.progress()
        if not self.over or any(other.waiting for other in self.nodes.values()):
            self.world.after(min(self.plan.lease, 1.0) / 5, lambda: self.tick(node))

    def watch(self) -> None:
        self.home.watch()
        if not self.over or any(node.waiting for node in self.nodes.values()):
            self.world.after(0.03, self.watch)

    def now(self) -> float:
        """Instants: of the world for staleness, numbers of what happened for the order."""
        self.order += 1
        return self.world.now if self.plan.relaxation else self.order

    def act(self, node: SimNode) -> None:
        """One access by one thread of a program, and the next after it."""
        if self.over or not node.alive:
            return
        if self.world.now < node.paused_until:
            self.world.after(node.paused_until - self.world.now, lambda: self.act(node))
            return
        file = FileId(self.chance.randint(1, self.plan.files))
        number = self.chance.randrange(ATTRIBUTES if self.plan.attributes else 0, self.plan.blocks)
        if (node.id, file) in self.closed or self.nudge(node, file, number):
            self.after(0.01, lambda: self.act(node))
            return
        if self.plan.cuts and self.chance.random() < self.plan.cuts and node.connected:
            self.shorten(node, file)
            return
        self.begun += 1
        value = None
        if self.chance.random() < 0.5:
            self.values += 1
            value = str(self.values).encode().rjust(VALUE, b".")
        whole = range(number, number + 1) if self.chance.random() < 0.5 else range(0)
        self.busy[node.id, file] += 1
        access = Access(
            file, [number], value, whole, lambda done: self.done(node, done), self.now()
        )
        node.access(access)

    def nudge(self, node: SimNode, file: FileId, number: int) -> bool:
        """Evicts, flushes, closes and opens again, now and then. Whether the file is closed now."""
        if self.chance.random() < self.plan.evicts:
            node.evict(file, number)
        if self.chance.random() < self.plan.evicts:
            node.flush(file)
        if self.chance.random() < self.plan.closes and not self.busy[node.id, file]:
            self.closed.add((node.id, file))

            def opened() -> None:
                self.closed.discard((node.id, file))

            cut = bool(self.plan.cuts) and self.chance.random() < 0.5
            node.close(file, lambda: self.after(0.05, lambda: node.open(file, opened, cut=cut)))
            return True
        return False

    def shorten(self, node: SimNode, file: FileId) -> None:
        """Home writes block -1 and those behind the cut, each of them with a value of its own."""
        self.values += 1
        value = str(self.values).encode().rjust(VALUE, b".")
        numbers = [ATTRIBUTES, *range(self.chance.randrange(self.plan.blocks), self.plan.blocks)]
        began, places = self.now(), [f"{file}/{number}" for number in numbers]
        self.begun += len(numbers)
        text = value.decode().lstrip(".")
        self.run.cuts += 1
        at = len(self.run.history)
        self.run.history += [Operation(node.id, place, True, text, began, None) for place in places]
        self.run.ended += len(numbers)
        self.busy[node.id, file] += 1

        def over() -> None:
            ended = self.now()
            for place in range(at, at + len(places)):
                self.run.history[place] = replace(self.run.history[place], ended=ended)
            go_on()

        gone = [False]

        def go_on() -> None:
            if not gone[0]:
                gone[0] = True
                self.busy[node.id, file] -= 1
                self.after(0.01, lambda: self.act(node))

        self.world.after(2.0, go_on)  # its answer may never come
        node.cut(file, numbers, value, over)

    def done(self, node: SimNode, access: Access) -> None:
        self.run.ended += 1
        self.busy[node.id, access.file] -= 1
        (number,) = access.numbers
        value = access.value or access.values.get(number, NOTHING)
        self.run.history.append(
            Operation(
                node.id,
                f"{access.file}/{number}",
                access.writes,
                INITIAL if value == NOTHING else value.decode().lstrip("."),
                access.began,
                None if access.failed else self.now(),
            )
        )
        self.after(0.01, lambda: self.act(node))

    def fault(self) -> None:
        if self.over:
            return
        kind = self.chance.choice(self.plan.faults)
        node = self.nodes[self.chance.randint(1, self.plan.nodes)]
        seconds = self.chance.expovariate(2 / min(self.plan.lease, 1.0))
        if node.alive:
            self.run.faults[kind] += 1
            if kind == "pause":
                node.pause(seconds)
            elif kind == "stall":
                node.stall(seconds)
            elif kind == "break":
                self.cut[node.id] = self.world.now + seconds
                node.break_off()
            else:
                node.kill()
                self.world.after(seconds, lambda: self.restart(node.id))
        self.after(self.plan.between, self.fault)

    def restart(self, number: int) -> None:
        """A new process with the number of the dead one: home has to let go of that first."""
        self.busy = Counter({key: n for key, n in self.busy.items() if key[0] != number})
        self.home.depart(self.nodes[number].id)
        self.start(number)


def play(plan: Plan) -> Run:
    """Runs the plan to its end."""
    players = _Players(plan)
    players.world.run(plan.limit)
    players.run.lost = len(players.home.lost)
    players.run.steps = players.world.steps
    for node in players.nodes.values():
        for access in node.waiting:
            access.failed = True
            players.done(node, access)
            players.run.ended -= 1
    return players.run


NO_LEASE = inf
