# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home of the simulator: its machine, what its files hold, the write log, and who is there.

It does around the machine what `shares.home` does, with the transitions that ship: a node
that joins again is lost first, brings what it had, and opens its files anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

from shares.protocol import (
    ATTRIBUTES,
    HOME,
    Action,
    Carrier,
    Fetch,
    FileId,
    FinishOpen,
    HomeMachine,
    LogWrite,
    Message,
    NativeGrant,
    NodeId,
    Token,
    answer_of_home,
    perform,
)
from tests.shares.protocol.accesses import NOTHING, VALUE, Cut, Place
from tests.shares.protocol.world import Delay, Link, World
from tests.shares.tree_history import DONE, Slot, TreeCall, answered

if TYPE_CHECKING:
    from tests.shares.protocol.simulated_node import SimNode


@dataclass(eq=False)
class Session:
    """A membership of a node's: its conversation with home. It outlives connections: what was sent
    comes, in its order, as long as home goes on with it. over: the node has heard that it ended."""

    node: SimNode
    up: Link
    down: Link
    opened: set[FileId] = field(default_factory=set)
    over: bool = False

    @property
    def id(self) -> NodeId:
        return self.node.id

    def end(self) -> None:
        self.up.dead = self.down.dead = True


class SimHome:
    """Home. It is what shares.protocol.Effects says.

    lease: seconds; inf for a home that loses nobody. late: for how long a call is under way at
    home, and its answer at the node, on threads that messages overtake; None: it is handled as
    they are. files: content of blocks; names: of the files that have one; tree: which has
    which in a folder
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
        self.directory = HomeMachine()
        self.files: defaultdict[Place, bytes] = defaultdict(lambda: NOTHING)
        self.log: dict[Place, bytes] = {}
        self.messages: Counter[str] = Counter()
        self.lease = lease
        self.relaxation = relaxation
        self.lost: list[NodeId] = []
        self.native = 0
        """How often a node got a file for itself."""
        self.sessions: dict[NodeId, Session] = {}
        self.names: dict[FileId, None] = {}
        self.tree: dict[Slot, FileId] = {}
        self._made: dict[FileId, int] = {}
        self._tokens = count(1)
        self._waiting: dict[Token, tuple[Session | None, Callable[[Any], None]]] = {}
        self._cuts: dict[Token, Callable[[], Iterable[Action]]] = {}
        self._heard: dict[NodeId, float] = {}

    # Who is there.

    def join(self, session: Session) -> None:
        """A new membership of a node; the one that it had is over."""
        old = self.sessions.get(session.id)
        if old is not None:
            self.lose(old)
        self.sessions[session.id] = session
        self.heard(session)

    def heard(self, session: Session) -> None:
        if self.sessions.get(session.id) is session:
            self._heard[session.id] = self.world.now

    def watch(self) -> None:
        """Loses the nodes whose lease is over. A hundredth is for clocks that run differently."""
        for node, heard in sorted(self._heard.items()):
            if self.world.now > heard + 1.01 * self.lease:
                self.lose(self.sessions[node])

    def lose(self, session: Session, *, left: bool = False) -> None:
        """Home goes on without the node."""
        if self.sessions.get(session.id) is not session:
            return
        del self.sessions[session.id], self._heard[session.id]
        session.end()
        if not left:
            self.lost.append(session.id)
        self.act(self.directory.lost(session.id, self.world.now, left=left))
        for file in sorted(session.opened):
            self._unnamed(file)
        for token in [t for t, (who, _) in self._waiting.items() if who is session]:
            del self._waiting[token]
        # The node learns that when its network is there again.
        node, late = session.node, max(session.up.stalled - self.world.now, 0.0)
        self.world.after(late + node.delay(), lambda: node.receive(lambda: node.ended(session)))

    # What arrives.

    def arrived(self, session: Session, event: Callable[[], Iterable[Action]]) -> None:
        """Something of a node's, in the order of its conversation."""
        if self.sessions.get(session.id) is session:
            self.heard(session)
            self.act(event())

    def called(
        self,
        session: Session,
        call: Callable[[Token], Iterable[Action]],
        over: Callable[[Any], None],
    ) -> None:
        """A call of a node's: it has a thread of its own, and so has the answer to it."""
        if self.sessions.get(session.id) is not session:
            return
        self.heard(session)
        token = self.expect(lambda found: self._answer(session, over, found), session)

        def begin() -> None:
            if self.sessions.get(session.id) is session:
                self.act(call(token))

        self._later(begin)

    def expect(self, over: Callable[[Any], None], session: Session | None = None) -> Token:
        """The token of a request; of a session's, nothing comes when that is lost."""
        token = next(self._tokens)
        self._waiting[token] = session, over
        return token

    def settle(self, token: Token, found: Any) -> None:
        if token in self._waiting:
            self._waiting.pop(token)[1](found)

    def _answer(self, session: Session, over: Callable[[Any], None], found: Any) -> None:
        node = session.node
        session.down.send(lambda: self._later(lambda: node.receive(lambda: over(found))))

    def _later(self, event: Callable[[], None]) -> None:
        if self.late is None:
            event()
        else:
            self.world.after(self.late(), event)

    # shares.protocol.Effects.

    def act(self, actions: Iterable[Action]) -> None:
        perform(actions, self)

    def store(self, node: NodeId, message: Carrier) -> None:
        for place, number in enumerate(message.fresh):
            self._put(message.file, number, message.data[place * VALUE : (place + 1) * VALUE])

    def append(self, node: NodeId, message: LogWrite, token: Token) -> None:
        self.log[message.file, message.first] = message.data

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        for place in [p for p in self.log if p[0] == file]:
            if numbers is None or place[1] in numbers:
                self.files[place] = self.log.pop(place)

    def reply(self, node: NodeId, token: Token, message: Message) -> None:
        full = self._filled(message)
        if node == HOME:
            self.settle(token, full)
        else:
            assert isinstance(token, int)
            self._send(node, full, lambda to: to.replied(token, full))

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        if node == HOME:
            return self.directory.answer(HOME, number, answer_of_home(message), self.world.now)
        session = self.sessions.get(node)
        if session is not None:
            full = self._filled(message)
            self.native += isinstance(message, NativeGrant)
            self._send(node, full, lambda to: to.asked(session, number, full))
        return []

    def opened(self, opened: FinishOpen) -> Iterable[Action]:
        """Home answers with the latest of block -1, and asks its owner for that before."""

        self.native += opened.native

        def answer(_: Any) -> None:
            self.settle(opened.token, (opened, self.files[opened.file, ATTRIBUTES]))

        return self._current(opened.node, opened.file, answer)

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        return self._cuts.pop(token)()

    def _current(self, node: NodeId, file: FileId, over: Callable[[Any], None]) -> Iterable[Action]:
        record = self.directory.record(file, ATTRIBUTES)
        owners = {self.directory.native(file) or HOME, record.owner if record else HOME}
        if owners <= {HOME, node}:
            over(None)
            return []
        fetch = Fetch(file, ATTRIBUTES, 1, (0,))
        return self.directory.request(HOME, fetch, self.expect(over), self.world.now)

    def _put(self, file: FileId, number: int, value: bytes) -> None:
        self.files[file, number] = value
        self.log.pop((file, number), None)

    def _filled(self, message: Message) -> Message:
        if not isinstance(message, Carrier):
            return message
        data = b"".join(self.files[message.file, number] for number in message.fresh)
        return replace(message, data=data)

    def _send(self, node: NodeId, message: Message, deliver: Callable[[SimNode], None]) -> None:
        session = self.sessions.get(node)
        if session is not None:
            to = session.node
            self.count(message)
            session.down.send(lambda: to.receive(lambda: deliver(to)))

    def count(self, message: Message) -> None:
        """By kind."""
        self.messages[type(message).__name__] += 1

    # Calls.

    def open(
        self, session: Session, file: FileId, token: Token, cut: Cut | None, *, writes: bool
    ) -> Iterable[Action]:
        """cut: it is made empty before. A file that has no name is opened if a node has it open."""
        held = any(file in each.opened for each in self.sessions.values())
        if file not in self.names and not held:
            self.settle(token, None)
            return []

        def opens() -> Iterable[Action]:
            if self.sessions.get(session.id) is not session:
                return []
            session.opened.add(file)
            terms = (session.id, file, token, self.world.now, self.relaxation)
            return self.directory.open(*terms, cut=cut is not None, writes=writes)

        return self.cut(session, file, cut, opens) if cut is not None else opens()

    def stat(self, session: Session, file: FileId, token: Token) -> Iterable[Action]:
        """Size and times, for a node that has the file not open. None where home went on without
        their owner and nobody has used them since: they are what home has, and that node may still
        bring later ones."""
        record = self.directory.record(file, ATTRIBUTES)
        if record is not None and record.seized:
            self.settle(token, None)
            return []
        return self._current(
            session.id, file, lambda _: self.settle(token, self.files[file, ATTRIBUTES])
        )

    def cut(
        self, session: Session, file: FileId, cut: Cut, over: Callable[[], Iterable[Action]]
    ) -> Iterable[Action]:
        """Home changes block -1, and all blocks from `cut.first` on; `over` when that is done."""
        if file not in self.names and file not in session.opened:
            return over()
        token = next(self._tokens)

        def taken() -> Iterable[Action]:
            if cut.kept is not None:
                cut.saw(self.files[file, cut.kept])
            for number in cut.numbers:
                self._put(file, number, cut.value)
            cut.happened = True
            return [*self.directory.gave(file, token, self.world.now), *over()]

        self._cuts[token] = taken
        by = session.id
        about = (cut.first, cut.discard, by, cut.end, cut.end)
        return self.directory.take(file, token, self.world.now, *about)

    def close(self, session: Session, file: FileId) -> Iterable[Action]:
        session.opened.discard(file)
        yield from self.directory.close(session.id, file, self.world.now)
        yield from self._forgotten(file)

    def written(self, session: Session, file: FileId) -> Iterable[Action]:
        """Its programs write it no more."""
        self.directory.written(session.id, file)
        return []

    def remove(self, file: FileId) -> None:
        """Its last name goes; every node is told that, behind what home has said before."""
        self.names.pop(file, None)
        for session in self.sessions.values():
            node = session.node
            session.down.send(lambda node=node: node.receive(lambda: node.stale(file)))  # type: ignore[misc]
        self._unnamed(file)

    def _unnamed(self, file: FileId) -> None:
        self.act(self._forgotten(file))

    def _forgotten(self, file: FileId) -> Iterable[Action]:
        """There is no such file any more, if it has no name and nobody has it open."""
        if file in self.names or any(file in s.opened for s in self.sessions.values()):
            return []
        return self.directory.forget(file, self.world.now)

    # Names in folders.

    def name(self, token: Token, call: TreeCall) -> Iterable[Action]:
        """A call about names, at one moment."""
        before = set(self.tree.values())
        answer, after = answered(frozenset(self.tree.items()), call)
        self.tree = {slot: FileId(file) for slot, file in after}
        if call.kind == "create" and answer == DONE:
            self.names[FileId(call.file)] = None
        for file in sorted(before - set(self.tree.values())):
            self.remove(file)
        self.settle(token, answer)
        return []

    # What nodes make ahead.

    def make(self, session: Session, file: FileId, over: Callable[[Any], None]) -> Iterable[Action]:
        """A node has made it by itself; now home makes it too, in its place in the stream."""
        node = session.node

        def answer(found: Any) -> None:
            self._later(lambda: session.down.send(lambda: node.receive(lambda: over(found))))

        token = self.expect(answer, session)
        self.names[file] = None
        session.opened.add(file)
        yield from self.directory.open(session.id, file, token, self.world.now, self.relaxation)
        self._made[file] = self.directory.granted(file, ATTRIBUTES, HOME)

    def make_again(self, file: FileId) -> int | None:
        """In the next membership. Under which grant what the node wrote was written; None where
        home has made it and others have taken it away since."""
        if file in self._made:
            return self._made[file] if file in self.names else None
        self.names[file] = None
        self._made[file] = 0
        return 0
