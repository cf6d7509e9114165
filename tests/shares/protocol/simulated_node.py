# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of the simulator: its memberships, and the files that it has open.

It does what `shares.node.node` does: opens, what stays of a native file when its last handle is
closed, closes, files that are made ahead, and joining again. What has to wait is a generator that
yields until it may go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from shares.protocol import (
    Action,
    Engage,
    FileId,
    FinishOpen,
    Message,
    NodeId,
    NodeMachine,
    PushPolicy,
)
from tests.shares.protocol.accesses import Access, Cut
from tests.shares.protocol.simulated_content import Sent, SimContent
from tests.shares.protocol.simulated_home import Session, SimHome
from tests.shares.protocol.world import Delay, Link, Process
from tests.shares.tree_history import TreeCall

Task = Generator[Callable[[], bool], None, None]
"""Yields what it waits for."""

Opening = Generator[Callable[[], bool], None, bool]


@dataclass(slots=True)
class Use:
    """A file at a node. busy: an open or a close is under way. open: as far as the node knows, home
    has it open for it. handles: of programs. kept: nobody uses it, and it is native. writes: home
    believes that it is written here. leaves: it is to be closed as soon as nobody uses it. pending:
    it was made ahead, and home has not answered. gone: home has not made it"""

    busy: bool = False
    open: bool = False
    handles: int = 0
    kept: bool = False
    writes: bool = False
    leaves: bool = False
    pending: bool = False
    gone: bool = False


@dataclass(slots=True)
class Call:
    """A call of home's, and what it answered. over: also where the membership has ended."""

    session: Session
    answered: bool = False
    found: Any = None

    @property
    def over(self) -> bool:
        return self.answered or self.session.over


class SimNode:
    """A node. ahead: blocks of a file that are asked for before each open to read."""

    def __init__(
        self,
        home: SimHome,
        number: int,
        delay: Delay,
        policy: Callable[[], PushPolicy],
        *,
        log: str = "off",
        rate: float = 1.0,
        ahead: int = 0,
        windows: bool = False,
        full: float = 0.0,
    ) -> None:
        self.home = home
        self.world = home.world
        self.id = NodeId(number)
        self.delay = delay
        self.process = Process(home.world, number, rate)
        self.content = SimContent(
            home, self.process, policy, self._told, self._tick, log=log, windows=windows, full=full
        )
        self.uses: defaultdict[FileId, Use] = defaultdict(Use)
        self.joined = True
        self.leaves = False
        """It is about to end: no program uses it any more."""
        self._log = log
        self._ahead = ahead
        self._tasks: list[tuple[Callable[[], bool], Task]] = []
        self._ticking = False
        self.latest = self.session = self.content.session = self._join()
        """The last membership, and the one by which calls are made; so are the content's messages
        from when it has begun to bring what it had."""

    @property
    def machine(self) -> NodeMachine:
        return self.content.machine

    @property
    def waiting(self) -> list[Access]:
        return self.content.waiting

    def access(self, access: Access) -> None:
        self.content.access(access)

    # The process and its connection.

    def receive(self, event: Callable[[], None]) -> None:
        self.process.receive(event)

    def replied(self, token: int, message: Message) -> None:
        self.content.replied(token, message)

    def asked(self, session: Session, number: int, message: Message) -> None:
        self.content.asked(session, number, message)

    def stall(self, seconds: float) -> None:
        """Nothing arrives for so long, in both directions; then everything does: the connection is
        lost, and the conversation goes on over the next one."""
        until, session = self.world.now + seconds, self.latest
        session.up.stalled = session.down.stalled = until

    def kill(self) -> None:
        """The process is gone, with all that it had."""
        self.process.kill()
        self.latest.end()
        self._tasks.clear()
        for access in self.waiting:
            access.failed = True
            access.done(access)
        self.waiting.clear()

    def break_off(self) -> None:
        """The node gives its membership up; home does not know that yet."""
        self.latest.end()
        self.ended(self.latest)

    # Memberships.

    def _join(self) -> Session:
        session = Session(self, Link(self.world, self.delay), Link(self.world, self.delay))
        self.home.join(session)
        return session

    def ended(self, session: Session) -> None:
        """The node has heard that it is not a member any more."""
        session.over = True
        if session is self.latest:
            self.joined = False
        self._tick()

    @property
    def connected(self) -> bool:
        return not self.latest.over

    def rejoin(self) -> None:
        """After a membership has ended: the next one."""
        if self.process.alive and not self.connected:
            self.latest = self._join()
            self._start(self._rejoining(self.latest))

    def _rejoining(self, session: Session) -> Task:
        made = [file for file, use in self.uses.items() if use.pending]
        found: list[Call] = []
        for file in made:
            found.append(self._say(session, partial(self._make_again, file)))
        for file, call in zip(made, found, strict=True):
            yield lambda call=call: call.over  # type: ignore[misc]
            if session.over:
                return
            self._made_before(file, call.found)
        for use in self.uses.values():
            use.kept = False
        releases, logs = self.content.begin(session)
        pending = [self.content.send(release) for release in releases]
        yield lambda: all(sent.over for sent in pending)
        self.content.settled(session, logs, pending)
        if session.over:
            self.content.progress()
            return
        self.session, self.joined = session, True
        for file, use in list(self.uses.items()):
            yield from self._locked(use)
            if use.open and session is self.content.session:
                yield from self._open(file, use, writes=use.writes, cut=None)
            use.busy = False
        self.content.progress()
        self.beat()

    def _make_again(self, file: FileId) -> Any:
        return self.home.make_again(file)

    def _made_before(self, file: FileId, grant: int | None) -> None:
        use = self.uses[file]
        use.pending = False
        if grant is None:
            self._refused(file, use)
        else:
            self.machine.made(file, grant)

    def _refused(self, file: FileId, use: Use) -> None:
        use.gone, use.open, use.kept = True, False, False
        blocks = ((n, self.machine.block(file, n)) for n in self.machine.numbers(file))
        self.content.refused += [(file, n) for n, block in blocks if block.dirty or block.given]
        self.machine.forget(file)

    def beat(self) -> None:
        """A heartbeat; its answer renews the lease. A ping, which goes ahead of it, does too."""
        session, sent = self.session, self.process.clock
        home, content = self.home, self.content
        mark = 0 if content.bringing else content.machine.mark()

        def heard() -> None:
            home.heard(session)
            session.down.send(lambda: self.receive(beaten))

        def beaten() -> None:
            content.machine.heard(sent)
            content.leased(session, sent, mark)
            content.progress()

        def pinged() -> None:
            home.heard(session)
            session.down.overtake(
                lambda: self.receive(partial(content.leased, session, sent, None))
            )

        session.up.overtake(pinged)
        session.up.send(heard)
        content.let_go()

    # Calls.

    def _call(self, begin: Callable[[Session, object], Any]) -> Call:
        """A call of home's, which has a thread of its own there."""
        session = self.session
        call = Call(session)

        def over(found: Any) -> None:
            call.answered, call.found = True, found
            self._tick()

        session.up.send(
            lambda: self.home.called(session, lambda token: begin(session, token), over)
        )
        return call

    def _say(self, session: Session, what: Callable[[], Any]) -> Call:
        """What home does in the order of the stream, and answers there."""
        call = Call(session)

        def over(found: Any) -> None:
            call.answered, call.found = True, found
            self._tick()

        def arrived() -> list[Any]:
            found = what()
            session.down.send(lambda: self.receive(lambda: over(found)))
            return []

        session.up.send(lambda: self.home.arrived(session, arrived))
        return call

    # Tasks.

    def _start(self, task: Task) -> None:
        self._tasks.append((lambda: True, task))
        self._tick()

    def _tick(self) -> None:
        """Have all that waits go on which may."""
        if self._ticking:
            return
        self._ticking = True
        try:
            again = True
            while again and self.process.alive:
                again = False
                for entry in list(self._tasks):
                    ready, task = entry
                    if entry not in self._tasks or not ready():
                        continue
                    self._tasks.remove(entry)
                    again = True
                    wanted = next(task, None)
                    if wanted is not None:
                        self._tasks.append((wanted, task))
        finally:
            self._ticking = False

    @staticmethod
    def _locked(use: Use) -> Task:
        while use.busy:
            yield lambda: not use.busy
        use.busy = True

    # Files.

    def open(
        self, file: FileId, then: Callable[[], None] | None = None, *, cut: Cut | None = None
    ) -> None:
        """For good: nobody counts the handle."""
        self.home.names.setdefault(file)
        self.use(file, lambda opened: then() if then is not None else None, cut=cut)

    def use(
        self,
        file: FileId,
        then: Callable[[bool], None],
        *,
        writes: bool = True,
        cut: Cut | None = None,
    ) -> None:
        """A program opens it; whether home lets it. `unuse` follows where it does. cut: where home
        has to be asked to open it, it makes it empty before."""
        self._start(self._using(file, then, writes=writes, cut=cut))

    def _using(
        self, file: FileId, then: Callable[[bool], None], *, writes: bool, cut: Cut | None
    ) -> Task:
        use = self.uses[file]
        yield from self._locked(use)
        opened = not use.gone
        if opened and (not use.open or (writes and not use.writes)):
            opened = yield from self._open(file, use, writes=writes or use.writes, cut=cut)
            if cut is not None:
                self.content.trim(file)
        if opened:
            use.handles += 1
            use.leaves = False
            if use.kept:
                use.kept = False
                self.machine.keep(file, False)
        use.busy = False
        then(opened)
        self.content.progress()

    def _open(self, file: FileId, use: Use, *, writes: bool, cut: Cut | None) -> Opening:
        """Whether home has opened it."""
        machine, expected = self.machine, self.content.expected
        machine.opening()
        new = not use.open and file not in machine.files()
        while True:
            yield lambda: self.joined
            if cut is not None and new and file not in expected:
                expected.add(file)
                machine.expect(file, self.content.policy)
            if cut is None and not writes and self._ahead and not self.content.bringing:
                self._ask_ahead(file)
            call = self._call(lambda s, token: self.home.open(s, file, token, cut, writes=writes))
            yield lambda call=call: call.over  # type: ignore[misc]
            if call.answered or cut is not None:
                break
        if call.found is None:
            yield lambda: not machine.asking(file) or not self.connected
            if file in expected and not machine.asking(file):
                session = self.session
                session.up.send(
                    lambda: self.home.arrived(session, lambda: self.home.close(session, file))
                )
        else:
            self._opened(file, call.session, *call.found)
            use.open, use.writes = True, writes
        machine.opening_over()
        if file in expected:
            expected.discard(file)
            machine.forget(file)
        return call.found is not None

    def _ask_ahead(self, file: FileId) -> None:
        if file not in self.machine.files():
            self.content.expected.add(file)
            self.machine.expect(file, self.content.policy)
        for request in self.machine.to_read(file, 0, self._ahead, self.process.clock):
            self.content.request(request)

    def _opened(
        self, file: FileId, session: Session, opened: FinishOpen, attributes: bytes
    ) -> None:
        native, grant = opened.native, opened.grant
        if session is not self.content.session:
            native, grant = False, 0
        self.content.expected.discard(file)
        self.content.take_back_all(file)
        if self.machine.open(file, self.content.policy, native, self.home.relaxation, grant):
            self.content.buffer[file, -1] = attributes
        self.content.progress()

    def make(self, file: FileId, value: bytes) -> None:
        """A program makes a file in a folder of this node's own, and block -1 has that value; home
        is told, and nobody waits for that. `unuse` follows."""
        use, session = self.uses[file], self.session
        use.open, use.writes, use.handles, use.pending = True, True, 1, True
        self.machine.make(file, self.content.policy)
        self.content.buffer[file, -1] = value

        def made(found: tuple[FinishOpen, bytes]) -> None:
            opened, attributes = found
            if session is not self.content.session or not use.pending:
                return
            use.pending = False
            self.machine.made(file, opened.grant)
            kept = use.kept
            self._opened(file, session, opened, attributes)
            if kept:
                self.machine.keep(file, True)

        session.up.send(
            lambda: self.home.arrived(session, lambda: self.home.make(session, file, made))
        )

    def cut(self, file: FileId, cut: Cut, over: Callable[[bool], None]) -> None:
        """A program has home cut the file, which it may have open. Whether home has answered."""
        self._start(self._cutting(file, cut, over))

    def _cutting(self, file: FileId, cut: Cut, over: Callable[[bool], None]) -> Task:
        yield lambda: self.joined

        def begin(session: Session, token: object) -> Any:
            def done() -> list[Any]:
                self.home.settle(token, True)
                return []

            return self.home.cut(session, file, cut, done)

        call = self._call(begin)
        yield lambda: call.over
        self.content.trim(file)
        over(call.answered)
        self.content.progress()

    def stat(self, file: FileId, over: Callable[[bytes | None], None]) -> None:
        """A program asks for size and times of a file that is not open here. None: nobody knows."""
        self._start(self._asking(file, over))

    def _asking(self, file: FileId, over: Callable[[bytes | None], None]) -> Task:
        yield lambda: self.joined
        call = self._call(lambda session, token: self.home.stat(session, file, token))
        yield lambda: call.over
        over(call.found)

    def name(self, tree: TreeCall, over: Callable[[bool, Any], None]) -> None:
        """A program calls home about names. Whether it has answered, and what."""
        self._start(self._naming(tree, over))

    def _naming(self, tree: TreeCall, over: Callable[[bool, Any], None]) -> Task:
        yield lambda: self.joined
        call = self._call(lambda session, token: self.home.name(token, tree))
        yield lambda: call.over
        over(call.answered, call.found)

    def unuse(self, file: FileId) -> None:
        """A program closes it."""
        use = self.uses[file]
        use.handles -= 1
        if not use.handles:
            self._start(self._left(file, use))

    def _left(self, file: FileId, use: Use) -> Task:
        """What was written goes home; what is here stays for the next program."""
        yield from self._locked(use)
        if not use.handles and use.open and use.writes:
            pending = self.content.flush(file)
            if self._log == "sync":
                yield lambda: all(sent.over for sent in pending) and self._quiet(file)
            if self.machine.native(file):
                if not self.machine.relaxed(file):
                    use.kept = True
                    self.machine.keep(file, True)
                use.writes = False
                session, home = self.session, self.home
                session.up.send(lambda: home.arrived(session, lambda: home.written(session, file)))
        use.busy = False
        if use.leaves:
            self.close(file)

    def _quiet(self, file: FileId) -> bool:
        return self.content.quiet(file) or not self.connected

    def close(self, file: FileId, then: Callable[[], None] = lambda: None) -> None:
        """It is closed at home, if nobody uses it."""
        self._start(self._closing(file, then))

    def _closing(self, file: FileId, then: Callable[[], None]) -> Task:
        use = self.uses[file]
        yield from self._locked(use)
        if use.open and not use.handles and not use.pending:
            yield from self._give_back(file, use)
        use.busy = False
        then()

    def _give_back(self, file: FileId, use: Use) -> Task:
        """Home gets what is here alone, and is told then that the file is closed. Where it does not
        take all of that, or the membership ends, the file stays open."""
        session, content = self.session, self.content
        pending = content.flush(file)
        yield partial(self._over, pending)
        if any(sent.refused for sent in pending):
            return
        yield lambda: session.over or (not self.machine.asking(file) and content.quiet(file))
        if session.over or session is not content.session:
            return
        content.take_back_all(file)
        releases = [] if self.machine.native(file) else self.machine.give_back(file)
        pending = [content.send(release) for release in releases]
        yield partial(self._over, pending)
        if any(sent.refused or sent.session.over for sent in pending):
            return
        if not self.machine.native(file) and self.machine.gives(file):
            self.beat()
            yield lambda: session.over or not self.machine.gives(file)
            if session.over:
                return
        use.open, use.leaves, use.writes, use.kept = False, False, False, False
        self.machine.close(file)
        self._say_closed(file)

    @staticmethod
    def _over(pending: list[Sent]) -> bool:
        return all(sent.over for sent in pending)

    def _say_closed(self, file: FileId) -> None:
        session, home = self.session, self.home

        def closed() -> None:
            if session is self.content.session:
                self.machine.closed(file)

        def arrived() -> Iterable[Action]:
            found = list(home.close(session, file))
            session.down.send(lambda: self.receive(closed))
            return found

        session.up.send(lambda: home.arrived(session, arrived))

    def leave(self, then: Callable[[], None]) -> None:
        """It ends in an orderly way; no program uses a file any more. What home does not take of
        what is here is lost."""
        self._start(self._leaving(then))

    def _leaving(self, then: Callable[[], None]) -> Task:
        for file, use in list(self.uses.items()):
            yield lambda use=use: not (use.pending or use.handles)  # type: ignore[misc]
            yield from self._closing(file, lambda: None)
        session, home = self.session, self.home

        def left() -> list[Any]:
            home.lose(session, left=True)
            return []

        session.up.send(lambda: home.arrived(session, left))
        yield lambda: session.over
        self.process.kill()
        then()

    def stale(self, file: FileId) -> None:
        """Home says that it has lost its last name."""
        self._leave(file)

    def _told(self, message: Message) -> None:
        """Another node opens a file that was native: it is to be that node's alone, if no program
        has it open here."""
        if isinstance(message, Engage):
            use = self.uses[message.file]
            if use.kept or (use.writes and not use.handles):
                use.kept = False
                self._leave(message.file)

    def _leave(self, file: FileId) -> None:
        use = self.uses[file]
        if use.open:
            use.leaves = True
            if not use.handles:
                self.close(file)
