# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The machines at work in a world of one thread: nodes, home, links with delays, and their faults.

Everything that happens is an event of one queue, ordered by time and then by number, and chance is
one generator with a seed: the same seed is the same run. Real nodes and the real home do around the
machines what is done here, with files, threads and sockets. Content of a block is a short value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import inf

from shares.protocol.actions import Action, Opened, Token
from shares.protocol.directory import Directory
from shares.protocol.effects import answer_of_home, perform
from shares.protocol.messages import (
    ATTRIBUTES,
    HOME,
    Blocks,
    Carrier,
    Done,
    Fetch,
    FileId,
    Granted,
    Log,
    Message,
    NodeId,
    Own,
    Refused,
    Release,
    Update,
    runs,
)
from shares.protocol.node import Node
from shares.protocol.policies import Policy
from tests.shares.protocol.accesses import NOTHING, VALUE, Access, Place
from tests.shares.protocol.world import Delay, Link, World


class SimHome:
    """Home: the directory, what its files hold, the write log, and a connection for each node.

    lease: seconds; inf for a home that loses nobody. late: for how long the answer to an open is
    under way at the node, on another thread than messages; None: it is handled as they are
    """

    def __init__(
        self,
        world: World,
        lease: float = inf,
        relaxation: float = 0.0,
        late: Delay | None = None,
    ) -> None:
        self.world = world
        self.late = late
        self.directory = Directory()
        self.files: defaultdict[Place, bytes] = defaultdict(lambda: NOTHING)
        self.log: dict[Place, bytes] = {}
        self.messages: Counter[str] = Counter()
        self.lease = lease
        self.relaxation = relaxation
        self.lost: list[NodeId] = []
        self._connections: dict[NodeId, tuple[SimNode, Link, Link]] = {}
        self._cuts: dict[Token, Callable[[], Iterable[Action]]] = {}
        self._heard: dict[NodeId, float] = {}

    def connect(self, node: SimNode, up: Link, down: Link) -> None:
        """A node's new connection; the one that it had is dead."""
        self.disconnect(node.id)
        self._connections[node.id] = (node, up, down)
        self.heard(node.id)

    def disconnect(self, node: NodeId) -> None:
        old = self._connections.pop(node, None)
        if old is not None:
            old[1].dead = old[2].dead = True

    def heard(self, node: NodeId) -> None:
        self._heard[node] = self.world.now

    def watch(self) -> None:
        """Loses the nodes whose lease is over. A hundredth is for clocks that run differently."""
        for node, heard in sorted(self._heard.items()):
            if self.world.now > heard + 1.01 * self.lease:
                self.lose(node)

    def lose(self, node: NodeId) -> None:
        del self._heard[node]
        self.lost.append(node)
        connection = self._connections.get(node)
        self.disconnect(node)
        self.act(self.directory.lost(node, self.world.now))
        if connection is not None:
            cut, up, _ = connection
            # It learns that when its network is there again.
            late = max(up.stalled - self.world.now, 0.0) + cut.delay()
            self.world.after(late, lambda: cut.cut_off(up))

    def depart(self, node: NodeId) -> None:
        """The node's process is known to be dead: nothing is waited for."""
        if node in self._heard:
            self.lose(node)

    def content(self, message: Message) -> Message:
        if not isinstance(message, Carrier):
            return message
        data = b"".join(self.files[message.file, number] for number in message.fresh)
        return replace(message, data=data)

    def send(self, node: NodeId, message: Message, deliver: Callable[[SimNode], None]) -> None:
        connection = self._connections.get(node)
        if connection is not None:
            to, _, down = connection
            self.count(message)
            down.send(lambda: to.receive(lambda: deliver(to)))

    def count(self, message: Message) -> None:
        """By kind."""
        self.messages[type(message).__name__] += 1

    def act(self, actions: Iterable[Action]) -> None:
        perform(actions, self)

    # shares.protocol.Effects.

    def store(self, node: NodeId, message: Carrier) -> None:
        for place, number in enumerate(message.fresh):
            value = message.data[place * VALUE : (place + 1) * VALUE]
            self.files[message.file, number] = value
            self.log.pop((message.file, number), None)

    def append(self, node: NodeId, message: Log, token: Token) -> None:
        self.log[message.file, message.first] = message.data

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        for place in [p for p in self.log if p[0] == file]:
            if numbers is None or place[1] in numbers:
                self.files[place] = self.log.pop(place)

    def reply(self, node: NodeId, token: Token, message: Message) -> None:
        full = self.content(message)
        self.send(node, full, lambda to: to.replied(token, full))

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        if node == HOME:
            return self.directory.answer(HOME, number, answer_of_home(message), self.world.now)
        full = self.content(message)
        self.send(node, full, lambda to: to.asked(number, full))
        return []

    def opened(self, opened: Opened) -> Iterable[Action]:
        file, attributes = opened.file, self.files[opened.file, ATTRIBUTES]

        def take(to: SimNode) -> None:
            over = partial(to.opened, to.down, file, opened.native, opened.grant, attributes)
            if self.late is None:
                over()
            else:
                self.world.after(self.late(), lambda: to.receive(over))

        self.send(opened.node, Done(file, 0, 0), take)
        return []

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        return self._cuts.pop(token)()

    # Calls.

    def cut(
        self, by: SimNode, file: FileId, numbers: list[int], value: bytes, over: Callable[[], None]
    ) -> None:
        """Home writes block -1 and all from the second of these numbers on: to the machines that is
        what a cut is."""
        token = object()
        first = numbers[1]

        def taken() -> Iterable[Action]:
            for number in numbers:
                self.files[file, number] = value
                self.log.pop((file, number), None)
            self.send(by.id, Done(file, 0, 0), lambda _: over())
            return self.directory.gave(file, token, self.world.now)

        self._cuts[token] = taken
        self.act(self.directory.take(file, token, self.world.now, first, first, by.id))


class SimNode:
    """A node: the machine, its buffer, and the accesses that wait.

    rate: of its clock, against the world's. log: "sync" or "off". ahead: blocks of a file that are
    asked for before each open
    """

    def __init__(
        self,
        home: SimHome,
        number: int,
        delay: Delay,
        policy: Callable[[], Policy],
        *,
        log: str = "off",
        rate: float = 1.0,
        ahead: int = 0,
    ) -> None:
        self.home = home
        self.world = home.world
        self.id = NodeId(number)
        self.delay = delay
        self.log = log
        self.machine = Node()
        self.buffer: dict[Place, bytes] = {}
        self.waiting: list[Access] = []
        self.open_files: set[FileId] = set()
        self.paused_until = 0.0
        self.alive = True
        self.ahead = ahead
        self._expected: set[FileId] = set()
        self.policy = policy()
        self._rate = rate
        self._requests: dict[int, tuple[Message, float]] = {}
        self._token = 0
        self._held: list[Callable[[], None]] = []
        self._closing: dict[FileId, Callable[[], None]] = {}
        self._unanswered: Counter[FileId] = Counter()
        """Opens, of this connection."""
        self._opening: defaultdict[FileId, list[Callable[[], None]]] = defaultdict(list)
        self._up: Link | None = self.connect()
        home.connect(self, self._up, self.down)

    # Connection, clock, faults.

    @property
    def clock(self) -> float:
        return self.world.now * self._rate + 1000.0 * self.id

    def connect(self) -> Link:
        self.down = Link(self.world, self.delay)
        return Link(self.world, self.delay)

    def stall(self, seconds: float) -> None:
        """Nothing arrives for so long, in both directions; then everything does."""
        until = self.world.now + seconds
        if self._up is not None:
            self._up.stalled = self.down.stalled = until

    def pause(self, seconds: float) -> None:
        """The process stands still; what arrives waits for it."""
        self.paused_until = max(self.paused_until, self.world.now + seconds)
        self.world.after(seconds, self._resume)

    def _resume(self) -> None:
        if self.world.now >= self.paused_until:
            held, self._held = self._held, []
            for event in held:
                self.receive(event)

    def receive(self, event: Callable[[], None]) -> None:
        """Something comes to the node's process."""
        if not self.alive:
            return
        if self.world.now < self.paused_until:
            self._held.append(event)
        else:
            event()

    def kill(self) -> None:
        """The process is gone, with all that it had."""
        self.alive = False
        self._up = None
        self._held.clear()
        self.home.disconnect(self.id)
        for access in self.waiting:
            access.failed = True
            access.done(access)
        self.waiting.clear()

    def break_off(self) -> None:
        """The connection is lost, and what was on its way in both directions."""
        self.home.disconnect(self.id)
        if self._up is not None:
            self._up.dead = self.down.dead = True  # also where home has not heard of it yet
        self._up = None
        self._held.clear()

    def cut_off(self, connection: Link) -> None:
        """The node learns that home has closed this connection."""
        if self._up is connection:
            self._up = None

    def rejoin(self) -> None:
        """After break_off or cut_off: a new connection, and what home may not have."""
        if not self.alive or self._up is not None:
            return
        self._requests.clear()
        self._held.clear()
        for file in list(self._unanswered.elements()):
            self._opening_over(file)
        releases = self.machine.reset()
        self._up = self.connect()
        self._control(partial(self._rejoining, self._up, self.down))
        for release in releases:
            self.request(self._filled(release))
        self._control(lambda: self.home.directory.rejoined(self.id, self.world.now))
        for file in sorted(self.open_files):
            self.open(file)
        self.beat()
        lost = {(r.file, n) for r in releases for n in r.numbers}
        for access in self.waiting:
            # Of what is not released home has content that came after these writes.
            access.logs = {t: n for t, n in access.logs.items() if (access.file, n) in lost}
        self.progress()

    def _rejoining(self, up: Link, down: Link) -> list[Action]:
        """At home, at one instant: what the old connection was for never comes to the new one."""
        self.home.connect(self, up, down)
        return self.home.directory.rejoining(self.id, self.world.now)

    @property
    def connected(self) -> bool:
        return self._up is not None

    def beat(self) -> None:
        """A heartbeat; its answer renews the lease."""
        sent, mark = self.clock, self.machine.mark()

        def heard() -> list[Action]:
            self.home.heard(self.id)
            self.home.send(self.id, Done(FileId(0), 0, 0), lambda node: node.renewed(sent, mark))
            return []

        self._control(heard)

    def renewed(self, sent: float, mark: int) -> None:
        self.machine.confirmed(mark)
        self.machine.heard(sent)
        if self.home.lease < inf:
            self.machine.leased(sent + self.home.lease)
        self.progress()

    def _control(self, event: Callable[[], list[Action]]) -> None:
        if self._up is not None:
            self._up.send(lambda: self.home.act(event()))

    # Messages.

    def request(self, message: Message) -> None:
        self._token += 1
        token = self._token
        if self._up is None:
            return
        self._requests[token] = (message, self.clock)
        self.home.count(message)
        home = self.home

        def arrive() -> None:
            home.act(home.directory.request(self.id, message, token, self.world.now))

        self._up.send(arrive)

    def replied(self, token: object, message: Message) -> None:
        assert isinstance(token, int)
        if token not in self._requests:
            return
        request, sent = self._requests.pop(token)
        match request, message:
            case Fetch(), Blocks():
                self._stored(message, self.machine.blocks(request, message, sent))
            case Own(), Granted():
                self._stored(message, self.machine.granted(request, message, self.clock))
                self.progress()
                for release in self.machine.unwritten(request):
                    self.request(self._filled(release))
            case Log(), _:
                self.machine.log_done(request.file, request.first)
                self._logged(token, isinstance(message, Refused))
            case Release(), _:
                refused = message.refused if isinstance(message, Refused) else ()
                for number in request.fresh:
                    self._released(request.file, number, number in refused)
                    self.machine.arrived(request.file, number)
        self.progress()

    def asked(self, number: int, message: Message) -> None:
        for flush in self.machine.ahead(message, self.clock):
            self.request(self._filled(flush))
        answer = self.machine.answer(message, self.clock)
        if isinstance(message, Update | Granted):
            kept = getattr(answer, "kept", ())
            self._stored(message, [n for n, k in zip(message.numbers, kept, strict=True) if k])
        answer = self._filled(answer)
        self.home.count(answer)
        home = self.home
        if self._up is not None:
            self._up.send(
                lambda: home.act(home.directory.answer(self.id, number, answer, self.world.now))
            )
        self.progress()

    def _filled(self, message: Message) -> Message:
        if not isinstance(message, Carrier):
            return message
        data = b"".join(self.buffer[message.file, number] for number in message.fresh)
        return replace(message, data=data)

    def _stored(self, message: Carrier, numbers: list[int] | tuple[int, ...]) -> None:
        for place, number in enumerate(message.fresh):
            if number in numbers:
                value = message.data[place * VALUE : (place + 1) * VALUE]
                self.buffer[message.file, number] = value

    def _logged(self, token: int, refused: bool) -> None:
        for access in self.waiting:
            if access.logs.pop(token, None) is not None:
                access.failed = access.failed or refused

    def _released(self, file: FileId, number: int, refused: bool) -> None:
        """What the block's log was to say has come home by itself, after a lost connection."""
        for access in self.waiting:
            tokens = [t for t, n in access.logs.items() if n == number and t not in self._requests]
            if access.file == file and tokens:
                access.logs = {t: n for t, n in access.logs.items() if t not in tokens}
                access.failed = access.failed or refused

    # Files.

    def cut(self, file: FileId, numbers: list[int], value: bytes, over: Callable[[], None]) -> None:
        """Have home cut the file. Where the connection breaks, `over` is never called."""

        def arrive() -> list[Action]:
            self.home.cut(self, file, numbers, value, over)
            return []

        self._control(arrive)

    def open(
        self, file: FileId, then: Callable[[], None] | None = None, *, cut: bool = False
    ) -> None:
        """cut: as after home has made it empty for that."""
        self.open_files.add(file)
        if then is not None:
            self._opening[file].append(then)
        home = self.home
        self.machine.opening()
        self._unanswered[file] += 1
        if cut and file not in self.machine.files():
            self._expected.add(file)
            self.machine.expect(file, self.policy)
        self._ask_ahead(file)
        self._control(
            lambda: home.directory.open(
                self.id, file, None, self.world.now, home.relaxation, cut=cut
            )
        )

    def _ask_ahead(self, file: FileId) -> None:
        if not self.ahead:
            return
        if file not in self.machine.files():
            self._expected.add(file)
            self.machine.expect(file, self.policy)
        for request in self.machine.to_read(file, 0, self.ahead, self.clock):
            self.request(request)

    def _opening_over(self, file: FileId) -> None:
        self._unanswered[file] -= 1
        self.machine.opening_over()

    def opened(
        self, connection: Link, file: FileId, native: bool, grant: int, attributes: bytes
    ) -> None:
        if connection is not self.down:
            return  # it was asked again
        self._expected.discard(file)
        about = (native, self.home.relaxation, grant)
        if file in self.open_files and self.machine.open(file, self.policy, *about):
            self.buffer[file, ATTRIBUTES] = attributes
        self._opening_over(file)
        for then in self._opening.pop(file, []):
            then()
        self.progress()

    def close(self, file: FileId, then: Callable[[], None]) -> None:
        """No access to it may be under way, and none may begin before `then` is called."""
        self._closing[file] = then
        self.progress()

    def _close(self) -> None:
        """What was released has arrived; until then it may have to be sent again."""
        for file in list(self._closing):
            waits = self.home.late is not None and self._unanswered[file] > 0
            if self.machine.asking(file) or waits:
                continue
            if not self.machine.native(file):
                for release in self.machine.give_back(file):
                    self.request(self._filled(release))
            numbers = self.machine.numbers(file)
            given = any(self.machine.block(file, number).given for number in numbers)
            if self.connected and (self.machine.native(file) or not given):
                self.open_files.discard(file)
                self.machine.close(file)
                self._control(partial(self.home.directory.close, self.id, file, 0.0))
                self._closing.pop(file)()

    def evict(self, file: FileId, number: int) -> None:
        """The buffer is full: this block goes, if it can."""
        for release in self.machine.release(file, number, 1):
            self.request(self._filled(release))
        if not self.machine.needed(file, number):
            self.buffer.pop((file, number), None)

    def flush(self, file: FileId) -> None:
        for message in self.machine.flush(file):
            self.request(self._filled(message))

    # Accesses.

    def access(self, access: Access) -> None:
        access.left = list(access.numbers)
        self.waiting.append(access)
        self.progress()

    def progress(self) -> None:
        """Whatever can be done now is done."""
        self._close()
        for access in list(self.waiting):
            if access.file not in self.machine.files() or access.file in self._expected:
                continue
            if access.writes:
                self._write(access)
            else:
                self._read(access)
            if not access.left and not access.logs and access in self.waiting:
                self.waiting.remove(access)
                access.done(access)

    def _read(self, access: Access) -> None:
        now = self.clock
        for number in list(access.left):
            if self.machine.readable(access.file, number, now):
                access.values[number] = self.buffer[access.file, number]
                self.machine.did_read(access.file, number, 1)
                access.left.remove(number)
        if access.left and self.connected:
            for first, count in runs(access.left):
                for request in self.machine.to_read(access.file, first, count, now):
                    self.request(request)

    def _write(self, access: Access) -> None:
        now = self.clock
        assert access.value is not None
        ready = [
            number
            for number in access.left
            if self.machine.writable(access.file, number, now, number in access.whole)
        ]
        for first, count in runs(ready):
            for number in range(first, first + count):
                self.buffer[access.file, number] = access.value
                access.left.remove(number)
            pushes = self.machine.did_write(access.file, first, count, now)
            for number in range(first, first + count):
                self._log(access, number)
            for push in pushes:
                self.request(self._filled(push))
            self._arm()
        if access.left and self.connected:
            for first, count in runs(access.left):
                asks = self.machine.to_write(access.file, first, count, access.whole, now)
                for request in asks:
                    self.request(request)

    def _arm(self) -> None:
        """Has `_due` happen when blocks are quiet."""
        wait = self.machine.next_due() - self.clock
        if wait < inf:
            self.world.after(wait / self._rate, lambda: self.receive(self._due))

    def _due(self) -> None:
        for push in self.machine.due(self.clock):
            self.request(self._filled(push))

    def _log(self, access: Access, number: int) -> None:
        if self.log != "sync":
            return
        assert access.value is not None
        self.machine.log_sent(access.file, number)
        self.request(Log(access.file, number, 1, 0, access.value))
        access.logs[self._token] = number
