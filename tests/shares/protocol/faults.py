# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs on several nodes that open, read, write, cut and close the same few files, while things
go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from shares.protocol import ATTRIBUTES, UNCUT, DelayedUpdate, FileId, PushPolicy
from tests.shares.history import INITIAL, Operation
from tests.shares.protocol.accesses import NOTHING, VALUE, Access, Cut
from tests.shares.protocol.simulated_home import SimHome
from tests.shares.protocol.simulated_node import SimNode
from tests.shares.protocol.world import World
from tests.shares.tree_history import ABSENT, DONE, TreeCall

FAULTS = ("pause", "stall", "break", "kill")
"""break: a node gives its membership up and joins anew. kill: a new node comes in its place. There
is also "leave": the same, in an orderly way. Stalls and pauses may outlast the lease."""

LEFT = 0
"""The node of operations that home does."""


KINDS = ("create", "create", "link", "rename", "rename", "unlink", "lookup", "lookup", "list")
SLOTS = [(folder, name) for folder in range(2) for name in range(3)]
"""Names that programs use."""


@dataclass(frozen=True)
class Plan:
    """A run. Times in seconds. faults: which kinds there are; one every `between` on average.

    log: the log policy. With "sync" nothing may be lost that was written; else what a killed node
    had not given, and what home has refused. files: there from the beginning; makes: how often a
    program makes one ahead instead of opening one, which is not done with "sync"; removes: how
    often it takes one away that was made. writes: how many of the accesses. holds: accesses for
    which a program keeps a file open, on average; closes: how often the file is closed at home
    after it. attributes: whether block -1 is used like the others. late: whether calls and their
    answers may be overtaken by messages; ahead: whether content is asked for with opens; cuts: how
    often a file is cut instead of an access, and with an open; holes: how many of these cuts end
    before the file does. longer: how many of the writes are
    of block -1 as well. spans: how many accesses are of several blocks, of
    which a write overwrites those in the middle entirely, and mostly not the first and the last.
    patience: seconds after which an access waits for too long (`Starved`). windows, full: as for
    SimContent. tree: how often a program makes, links, renames, removes, looks up or lists names in
    folders, and uses the file that it finds
    """

    seed: int = 1
    operations: int = 1000
    nodes: int = 3
    threads: int = 2
    files: int = 2
    blocks: int = 3
    policy: Callable[[], PushPolicy] = DelayedUpdate
    log: str = "sync"
    faults: tuple[str, ...] = FAULTS
    between: float = 0.4
    lease: float = 0.5
    relaxation: float = 0.0
    writes: float = 0.5
    holds: float = 8.0
    closes: float = 0.1
    evicts: float = 0.05
    attributes: bool = False
    late: bool = False
    ahead: bool = False
    cuts: float = 0.0
    holes: float = 0.0
    longer: float = 0.0
    spans: float = 0.0
    patience: float = inf
    makes: float = 0.0
    removes: float = 0.0
    windows: bool = False
    full: float = 0.0
    tree: float = 0.0
    limit: float = 4000.0


@dataclass
class Run:
    """What came of a plan. names: calls about them. did: what programs did besides accesses. lost:
    nodes that home went on without. refused: blocks that it has not taken of those that came back.
    longest: seconds that an access that ended has waited.
    native: how often one node alone got a file. gone: writes of a node to a register, or to all
    (""), up to an instant, that may be lost by what the log policy says."""

    plan: Plan
    history: list[Operation] = field(default_factory=list)
    names: list[TreeCall] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)
    gone: list[tuple[int, str, float]] = field(default_factory=list)
    lost: int = 0
    refused: int = 0
    native: int = 0
    ended: int = 0
    steps: int = 0
    longest: float = 0.0

    @property
    def orderly(self) -> bool:
        """Whether home has no reason to refuse anything: it went on without nobody."""
        return self.lost == 0 and "leave" not in self.faults

    @property
    def judged(self) -> list[Operation]:
        """The history without the writes that may be lost and that no other node has seen. It is
        of one memory if the whole is: a write and all that saw it are left out together."""
        if self.plan.log == "sync" or not self.gone:
            return self.history
        until: dict[tuple[int, str], float] = {}
        for node, register, now in self.gone:
            until[node, register] = max(now, until.get((node, register), -inf))
        writers = {(op.register, op.value): op for op in self.history if op.writes}
        others = {
            (op.register, op.value)
            for op in self.history
            if not op.writes
            and (op.register, op.value) in writers
            and writers[op.register, op.value].node != op.node
        }

        def left_out(op: Operation) -> bool:
            write = writers.get((op.register, op.value))
            if write is None or (op.register, op.value) in others:
                return False
            own, all_ = until.get((write.node, op.register)), until.get((write.node, ""))
            return any(end is not None and write.began <= end for end in (own, all_))

        return [op for op in self.history if not left_out(op)]


class Starved(AssertionError):
    """An access waits, and what it waits for does not come."""


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
        self.numbers = 0
        self.cut_off: dict[int, float] = {}
        self.since_over = 0.0
        self.made = plan.files
        self.nodes: dict[int, SimNode] = {}
        for number in range(1, plan.files + 1):
            self.home.names[FileId(number)] = None
        for place in range(plan.nodes):
            self.start(place)
        self.watch()
        if plan.faults:
            self.after(plan.between, self.fault)

    def after(self, mean: float, event: Callable[[], None]) -> None:
        self.world.after(self.chance.expovariate(1 / mean), event)

    @property
    def over(self) -> bool:
        return self.begun >= self.plan.operations

    @property
    def waits(self) -> bool:
        """Whether anything is to be waited for: also that nodes come back when all is over."""
        if not self.over:
            self.since_over = self.world.now
        settled = self.world.now > self.since_over + 10 * min(self.plan.lease, 1.0)
        return not settled or any(node.waiting for node in self.nodes.values())

    def delay(self) -> float:
        return self.chance.uniform(0.001, 0.02)

    def value(self) -> bytes:
        self.values += 1
        return str(self.values).encode().rjust(VALUE, b".")

    def start(self, place: int) -> None:
        """A new node, with a number that no other has had."""
        self.numbers += 1
        node = SimNode(
            self.home,
            self.numbers,
            self.delay,
            self.plan.policy,
            log=self.plan.log,
            rate=self.chance.uniform(0.998, 1.002),
            ahead=self.plan.blocks if self.plan.ahead else 0,
            windows=self.plan.windows,
            full=self.plan.full,
        )
        self.nodes[place] = node
        self.tick(node)
        for _ in range(self.plan.threads):
            self.after(0.02, _Program(self, node).go_on)

    def tick(self, node: SimNode) -> None:
        """The node's own timer: heartbeats, and new memberships for lost ones."""
        if not node.process.alive:
            return
        if not node.process.paused:
            if node.connected:
                node.beat()
            elif self.cut_off.get(node.id, 0.0) <= self.world.now:
                node.rejoin()
            if self.plan.log == "async" and self.chance.random() < 0.2:
                for file in list(node.machine.files()):
                    node.content.flush(file)
            node.content.progress()
        if self.waits:
            self.world.after(min(self.plan.lease, 1.0) / 5, lambda: self.tick(node))

    def watch(self) -> None:
        self.home.watch()
        waiting = [access for node in self.nodes.values() for access in node.waiting]
        for access in waiting:
            if self.world.now - access.since > self.plan.patience:
                raise Starved(f"{access.numbers} of {access.file}, writes: {access.writes}")
        if self.waits:
            self.world.after(0.03, self.watch)

    def now(self) -> float:
        """Instants: of the world for staleness, numbers of what happened for the order."""
        self.order += 1
        return self.world.now if self.plan.relaxation else self.order

    def note(self, op: Operation) -> None:
        self.run.ended += 1
        self.run.history.append(op)

    def note_refused(self, node: SimNode) -> None:
        """What home has not taken of a node's."""
        self.run.refused += len(node.content.refused)
        for file, number in node.content.refused:
            self.run.gone.append((node.id, f"{file}/{number}", self.now()))
        node.content.refused.clear()

    # Faults.

    def fault(self) -> None:
        if self.over:
            return
        kind = self.chance.choice(self.plan.faults)
        place = self.chance.randrange(self.plan.nodes)
        node = self.nodes[place]
        seconds = self.chance.expovariate(2 / min(self.plan.lease, 1.0))
        if node.process.alive and not (kind == "leave" and node.leaves):
            self.run.faults[kind] += 1
            if kind == "pause":
                node.process.pause(seconds)
            elif kind == "stall":
                node.stall(seconds)
            elif kind == "break":
                self.cut_off[node.id] = self.world.now + seconds
                node.break_off()
            elif kind == "leave":
                node.leaves = True
                node.leave(partial(self.ended, place, node))
            else:
                node.kill()
                self.world.after(seconds, partial(self.ended, place, node))
        self.after(self.plan.between, self.fault)

    def ended(self, place: int, node: SimNode) -> None:
        """A node is no more, and a new one comes."""
        self.run.gone.append((node.id, "", self.now()))
        if self.plan.lease == inf and node.id in self.home.sessions:
            self.home.lose(self.home.sessions[node.id])
        self.start(place)


class _Program:
    """One thread of a program at a node: it opens a file, uses it for a while, and closes it."""

    def __init__(self, players: _Players, node: SimNode) -> None:
        self.players = players
        self.node = node
        self.plan = players.plan
        self.chance = players.chance
        self.file: FileId | None = None

    def go_on(self) -> None:
        players, process = self.players, self.node.process
        if not process.alive:
            return
        if process.paused:
            players.world.after(process.paused_until - players.world.now, self.go_on)
            return
        players.note_refused(self.node)
        if players.over or self.node.leaves:
            if self.file is not None:
                self.leave(self.file)
        elif self.file is None:
            self.begin()
        elif self.chance.random() < 1 / (1 + self.plan.holds):
            self.leave(self.file)
            self.soon()
        else:
            self.act(self.file)

    def soon(self) -> None:
        self.players.after(0.01, self.go_on)

    # Files.

    def begin(self) -> None:
        """Open a file, or make one; or ask about one, or take it away."""
        players, chance = self.players, self.chance
        if self.plan.log != "sync" and chance.random() < self.plan.makes and self.node.joined:
            players.made += 1
            self.file = FileId(players.made)
            self.write_of_home(self.node.id, self.file, [ATTRIBUTES], value := players.value())
            self.node.make(self.file, value)
            players.run.did["make"] += 1
            self.soon()
            return
        if self.plan.tree and chance.random() < self.plan.tree:
            self.name()
            return
        file = chance.choice(list(players.home.names))
        if file > self.plan.files and chance.random() < self.plan.removes:
            players.run.did["remove"] += 1
            players.home.remove(file)
            self.soon()
            return
        if self.plan.attributes and chance.random() < 0.1 and not self.node.uses[file].open:
            self.stat(file)
            return
        self.open(file)

    def open(self, file: FileId) -> None:
        players, chance = self.players, self.chance
        closed = not self.node.uses[file].open and not self.node.uses[file].busy
        cut = self.new_cut(file, 0) if closed and chance.random() < 2 * self.plan.cuts else None

        def opened(whether: bool) -> None:
            if cut is not None:
                self.cut_over(whether and cut.happened)
            self.file = file if whether else None
            self.soon()

        players.run.did["open"] += 1
        writes = cut is not None or chance.random() < 0.6
        self.node.use(file, opened, writes=writes, cut=cut)

    def name(self) -> None:
        """Of a name in a folder; who makes or finds a file there opens it."""
        players, chance = self.players, self.chance
        kind = chance.choice(KINDS)
        if kind == "create":
            players.made += 1
        old, new = chance.choice(SLOTS), chance.choice(SLOTS)
        call = TreeCall(kind, old, new, players.made, players.now())
        place = len(players.run.names)
        players.run.names.append(call)
        players.run.did["name"] += 1

        def over(answered: bool, answer: Any) -> None:
            if answered:
                done = replace(call, ended=players.now(), answer=answer)
                players.run.names[place] = done
            if answered and kind == "create" and answer == DONE:
                self.open(FileId(call.file))
            elif answered and kind == "lookup" and answer != ABSENT:
                self.open(FileId(answer))
            else:
                self.soon()

        self.node.name(call, over)

    def leave(self, file: FileId) -> None:
        self.file = None
        self.node.unuse(file)
        if self.chance.random() < self.plan.closes:
            self.players.run.did["close"] += 1
            self.node.close(file)

    # Accesses.

    def act(self, file: FileId) -> None:
        plan, chance = self.plan, self.chance
        number = chance.randrange(ATTRIBUTES if plan.attributes else 0, plan.blocks)
        pending = self.node.uses[file].pending  # all of such a file stays in the buffer
        if number >= 0 and not pending and chance.random() < plan.evicts:
            self.node.content.evict(file, number)
        if chance.random() < plan.evicts:
            self.node.content.flush(file)
        if chance.random() < plan.cuts:
            self.cut(file)
            return
        writes = chance.random() < plan.writes
        if writes and not self.node.uses[file].writes:
            self.leave(file)
            self.soon()
            return
        longer = writes and number >= 0 and chance.random() < plan.longer
        whole = range(number, number + 1) if chance.random() < 0.5 else range(0)
        numbers = [number]
        if plan.spans and number >= 0 and chance.random() < plan.spans:
            end = chance.randrange(number, plan.blocks) + 1
            numbers = list(range(number, end))
            whole = range(number + (chance.random() < 0.8), end - (chance.random() < 0.8))
            longer = longer or (not writes and plan.attributes and chance.random() < 0.5)
        numbers = [ATTRIBUTES, *numbers] if longer else numbers
        self.players.begun += len(numbers)
        value = self.players.value() if writes else None
        began = self.players.now()
        access = Access(file, numbers, value, whole, self.done, began)
        access.since = self.players.world.now
        self.node.access(access)

    def done(self, access: Access) -> None:
        players = self.players
        players.run.longest = max(players.run.longest, players.world.now - access.since)
        ended = None if access.failed else players.now()
        for number in access.numbers:
            value = access.value or access.values.get(number, NOTHING)
            place = f"{access.file}/{number}"
            op = Operation(self.node.id, place, access.writes, text(value), access.began, ended)
            players.note(op)
        self.soon()

    def stat(self, file: FileId) -> None:
        players = self.players
        began = players.now()

        def over(value: bytes | None) -> None:
            if value is not None:
                players.begun += 1
                players.run.did["stat"] += 1
                place, seen = f"{file}/{ATTRIBUTES}", text(value)
                players.note(Operation(self.node.id, place, False, seen, began, players.now()))
            self.soon()

        self.node.stat(file, over)

    # What home does for a program.

    def new_cut(self, file: FileId, first: int, end: float = inf) -> Cut:
        """Its operations are in the history, and nobody knows yet whether they happen."""
        kept = first if 0 < first < self.plan.blocks and self.chance.random() < 0.5 else None
        cut = Cut(self.players.value(), first, self.plan.blocks, kept, end)
        self.write_of_home(LEFT, file, cut.numbers, cut.value)
        self.players.run.did["cut"] += 1
        self.at = len(self.players.run.history) - len(cut.numbers)
        self.now_cut = cut, file
        return cut

    def write_of_home(self, node: int, file: FileId, numbers: list[int], value: bytes) -> None:
        players, began = self.players, self.players.now()
        players.begun += len(numbers)
        for number in numbers:
            players.note(Operation(node, f"{file}/{number}", True, text(value), began, None))

    def cut_over(self, answered: bool) -> None:
        players, (cut, file) = self.players, self.now_cut
        if not answered:
            return
        ended = players.now()
        history = players.run.history
        for place in range(self.at, self.at + len(cut.numbers)):
            history[place] = replace(history[place], ended=ended)
        if cut.before is not None:
            about = (LEFT, f"{file}/{cut.kept}", False, text(cut.before))
            history.append(Operation(*about, history[self.at].began, ended))

    def cut(self, file: FileId) -> None:
        first, end = self.chance.choice([UNCUT, *range(self.plan.blocks + 1)]), inf
        if self.plan.holes and first < UNCUT and self.chance.random() < self.plan.holes:
            end = self.chance.randrange(first, self.plan.blocks + 1) + 1
        cut = self.new_cut(file, first, end)

        def over(answered: bool) -> None:
            self.cut_over(answered and cut.happened)
            self.soon()

        self.node.cut(file, cut, over)


def text(value: bytes) -> str:
    return INITIAL if value == NOTHING else value.decode().lstrip(".")


def play(plan: Plan) -> Run:
    """Runs the plan to its end."""
    players = _Players(plan)
    players.world.run(plan.limit)
    for node in players.nodes.values():
        players.note_refused(node)
        for access in list(node.waiting):
            access.failed = True
            access.done(access)
            players.run.ended -= len(access.numbers)
    players.run.lost = len(players.home.lost)
    players.run.native = players.home.native
    players.run.steps = players.world.steps
    return players.run


NO_LEASE = inf
