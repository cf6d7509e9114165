# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The machines of `shares.protocol` and the lines between them: two nodes and the directory.

The mobile is at the end of a link; the other node is at home, beside the directory. Home needs no
time. What waits for the network is a generator, which looks again whenever something has come that
is about its file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

from papers.ofs.network import Clock, Line, Link, Traffic
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    Acquire,
    Action,
    Blocks,
    Carrier,
    Engage,
    Fetch,
    FileId,
    FinishOpen,
    HomeMachine,
    LogWrite,
    Message,
    NodeId,
    NodeMachine,
    Ownership,
    PushPolicy,
    Token,
    answer_of_home,
    perform,
)

MOBILE = NodeId(1)
OTHER = NodeId(2)

ACROSS = {MOBILE: OTHER, OTHER: MOBILE}
"""Of each node the one at the other end of the link."""

NEARBY = Link(0.0, 1e12)
"""Between the other node and the directory, and all links before the replay begins."""

EXTENT_BYTES = 40
"""Of block -1."""

BEAT = 1.0
"""Seconds between heartbeats, as `shares.node` makes them with a lease of 3 s. What they are on
the wire is counted with no policy."""

Waiting = Generator[None, None, None]
"""What goes on whenever something has come to its node."""


@dataclass
class Machines:
    """policies: each node's. engaged: told of an Engage that a node has answered.

    future: the step from which on what happens is to come; opening: of each file the step that
    opened it last, which is its future while others answer that."""

    relaxation: float
    policies: dict[NodeId, PushPolicy]
    engaged: Callable[[NodeId, FileId], None]
    clock: Clock = field(default_factory=Clock)
    directory: HomeMachine = field(default_factory=HomeMachine)
    nodes: dict[NodeId, NodeMachine] = field(
        default_factory=lambda: {node: NodeMachine() for node in ACROSS}
    )
    sizes: defaultdict[FileId, int] = field(default_factory=lambda: defaultdict(int))
    pending: Counter[tuple[NodeId, FileId]] = field(default_factory=Counter)
    future: int = 0
    opening: dict[FileId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: defaultdict[tuple[NodeId, FileId], list[Waiting]] = defaultdict(list)
        self._asked: dict[Token, tuple[Message, float]] = {}
        self._told: dict[Token, Callable[[], None]] = {}
        self._took: dict[Token, Callable[[], Iterable[Action]]] = {}
        self._tokens = 0
        self.connect(NEARBY, None)

    def connect(self, link: Link, traffic: Traffic | None) -> None:
        """From now on the mobile is at the end of that link. lines: of each node the one to home,
        and the one from it."""
        there, here = (self.clock, link, traffic), (self.clock, NEARBY, None)
        self._link = link
        self.lines = {
            MOBILE: (Line(*there, self._held), Line(*there, self._held)),
            OTHER: (Line(*here, self._held), Line(*here, self._held)),
        }

    def _held(self, file: FileId, number: int) -> int:
        """No block ends with zeros but where its file ends: traces do not tell."""
        if number == ATTRIBUTES:
            return EXTENT_BYTES
        return max(0, min(BLOCK, self.sizes[file] - number * BLOCK))

    # What waits.

    def go_on(self, node: NodeId, file: FileId, waiting: Waiting) -> None:
        """Until it waits for something that comes, or is over."""
        try:
            next(waiting)
        except StopIteration:
            return
        self._waiting[node, file].append(waiting)

    def came(self, node: NodeId, file: FileId) -> None:
        """Something has come: who waits for the file looks again."""
        for waiting in self._waiting.pop((node, file), []):
            self.go_on(node, file, waiting)

    def hear(self, node: NodeId) -> None:
        """The node knows of its last heartbeat that has been answered."""
        round_trip = self._link.round_trip if node == MOBILE else 0.0
        answered = self.clock.now - round_trip
        interval = min(BEAT, self.relaxation / 3) if self.relaxation else BEAT
        self.nodes[node].heard(answered - answered % interval)

    # What home is told.

    def ask_home(self, node: NodeId, message: Message, *, closes: bool = False) -> None:
        """closes: because the file is closed."""
        self._tokens += 1
        token = self._tokens
        self._asked[token] = message, self.clock.now
        self.pending[node, message.file] += 1

        def arrived() -> None:
            self._perform(self.directory.request(node, message, token, self.clock.now))

        self.lines[node][0].send(message, arrived, closes=closes)

    def write(self, node: NodeId, file: FileId, first: int, count: int) -> None:
        """A program writes these blocks, which are writable."""
        machine = self.nodes[node]
        for push in machine.did_write(file, first, count, self.clock.now):
            self.ask_home(node, push)

    # Calls: their own bytes are not counted.

    def open(self, node: NodeId, file: FileId, *, cut: bool, writes: bool) -> Waiting:
        """Home is asked to open it, and to make it empty before. The node's machine has it open
        then."""
        over = [False]

        def answered() -> None:
            over[0] = True
            self.came(node, file)

        def opens() -> Iterable[Action]:
            token = self._token(answered)
            about = (node, file, token, self.clock.now, self.relaxation)
            return self.directory.open(*about, cut=cut, writes=writes)

        def cuts() -> Iterable[Action]:
            return self._take(node, file, 0, opens)

        self.lines[node][0].follow(lambda: self._perform(cuts() if cut else opens()))
        while not over[0]:
            yield

    def make(self, node: NodeId, file: FileId) -> None:
        """The node has made it by itself; home is told, and nobody waits for that."""
        self.nodes[node].make(file, self.policies[node])
        token = self._token(lambda: None)

        def opens() -> None:
            now = self.clock.now
            self._perform(self.directory.open(node, file, token, now, self.relaxation))

        self.lines[node][0].follow(opens)

    def call_back(self, node: NodeId, file: FileId) -> Waiting:
        """Home asks the one across, and has its answer behind all that it said before."""
        over = [False]
        there, back = self.lines[ACROSS[node]][1], self.lines[ACROSS[node]][0]

        def answered() -> None:
            over[0] = True
            self.came(node, file)

        there.follow(lambda: back.follow(answered))
        while not over[0]:
            yield

    def written(self, node: NodeId, file: FileId) -> None:
        """Home is told that the node's programs write it no more; nobody waits for that."""
        self.lines[node][0].follow(lambda: self.directory.written(node, file))

    def close(self, node: NodeId, file: FileId) -> None:
        """Home is told, behind all that was sent before; nobody waits for that."""
        self.lines[node][0].follow(
            lambda: self._perform(self.directory.close(node, file, self.clock.now))
        )

    def cut(self, node: NodeId, file: FileId, size: int) -> Waiting:
        """Home is asked for it, and takes the blocks."""
        over = [False]

        def answered() -> None:
            over[0] = True
            self.came(node, file)

        def cut() -> Iterable[Action]:
            self.lines[node][1].follow(answered)
            return []

        def cuts() -> None:
            self._perform(self._take(node, file, size, cut))

        self.lines[node][0].follow(cuts)
        while not over[0]:
            yield

    def _take(
        self, node: NodeId, file: FileId, size: int, then: Callable[[], Iterable[Action]]
    ) -> Iterable[Action]:
        """then: what home goes on with when it has cut the file."""
        first, discard = size // BLOCK, -(-size // BLOCK)
        self._tokens += 1
        self._took[self._tokens] = then
        return self.directory.take(file, self._tokens, self.clock.now, first, discard, node)

    def _token(self, then: Callable[[], None]) -> int:
        self._tokens += 1
        self._told[self._tokens] = then
        return self._tokens

    # What home says: as shares.protocol.Effects.

    def _perform(self, actions: Iterable[Action]) -> None:
        perform(actions, self)

    def store(self, node: NodeId, message: Carrier) -> None:
        """Nothing here has content, and so none of the log either."""

    def append(self, node: NodeId, message: LogWrite, token: Token) -> None:
        """As store."""

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        """As store."""

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        gave = self.directory.gave(file, token, self.clock.now)
        return [*gave, *self._took.pop(token)()]

    def reply(self, node: NodeId, token: Token, message: Message) -> None:
        if node == HOME:
            self._told.pop(token)()
            return
        request, sent = self._asked.pop(token)

        def arrived() -> None:
            machine = self.nodes[node]
            self.pending[node, request.file] -= 1
            if isinstance(request, Fetch) and isinstance(message, Blocks):
                machine.blocks(request, message, sent)
            elif isinstance(request, Acquire) and isinstance(message, Ownership):
                machine.granted(request, message, self.clock.now)
            self.came(node, request.file)

        self.lines[node][1].send(message, arrived)

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        if node == HOME:
            return self.directory.answer(HOME, number, answer_of_home(message), self.clock.now)

        def arrived() -> None:
            self.hear(node)
            self.future = self.opening.get(message.file, 0)
            for ahead in self.nodes[node].ahead(message, self.clock.now):
                self.ask_home(node, ahead)
            answer = self.nodes[node].answer(message, self.clock.now)

            def answered() -> None:
                self._perform(self.directory.answer(node, number, answer, self.clock.now))

            self.lines[node][0].send(answer, answered)
            if isinstance(message, Engage):
                self.engaged(node, message.file)
            self.came(node, message.file)

        self.lines[node][1].send(message, arrived)
        return []

    def opened(self, opened: FinishOpen) -> Iterable[Action]:
        """Home answers with size and times, and asks their owner for them before."""
        node, file = opened.node, opened.file

        def arrived() -> None:
            terms = (self.policies[node], opened.native, self.relaxation, opened.grant)
            self.nodes[node].open(file, *terms)
            self._told.pop(opened.token)()

        def answer() -> None:
            self.lines[node][1].follow(arrived)

        record = self.directory.record(file, ATTRIBUTES)
        if record is None or record.owner in {HOME, node}:
            answer()
            return []
        fetch = Fetch(file, ATTRIBUTES, 1, (0,))
        return self.directory.request(HOME, fetch, self._token(answer), self.clock.now)


__all__ = ["ACROSS", "MOBILE", "OTHER", "Machines", "Waiting"]
