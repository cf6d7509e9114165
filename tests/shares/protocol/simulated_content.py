# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The content of a node of the simulator: the machine, its buffer, and the accesses that wait.

It does around the machine what `shares.node.content` does, and what becomes of logged writes at the
end of a membership is settled by the node's own code.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf

from shares.node.content.lag import Replies, settle
from shares.protocol import (
    ATTRIBUTES,
    Ack,
    Acquire,
    Blocks,
    Carrier,
    Fetch,
    FileId,
    Invalidate,
    Keep,
    LogWrite,
    Message,
    NativeGrant,
    NodeMachine,
    Ownership,
    Push,
    PushPolicy,
    Recall,
    RefusalReply,
    Release,
    Update,
    runs,
)
from tests.shares.protocol.accesses import VALUE, Access, Place
from tests.shares.protocol.simulated_home import Session, SimHome
from tests.shares.protocol.world import Process

PINNED = 1.0
"""Seconds for which an access may keep block -1 while it waits for others."""


@dataclass(eq=False)
class Sent:
    """A request, and its reply when that has come. at: when it was sent, by the node's clock."""

    message: Message
    at: float
    session: Session
    access: Access | None = None
    given: dict[int, int] = field(default_factory=dict)
    replies: Replies = field(default_factory=list)

    @property
    def over(self) -> bool:
        return bool(self.replies) or self.session.over

    @property
    def refused(self) -> bool:
        return any(isinstance(reply, RefusalReply) for reply in self.replies)


@dataclass(slots=True)
class Right:
    """What a window of the node's may do with a block without the machine. wrote: how often it has
    written it since the machine was told last."""

    reads: bool = False
    writes: float = 0
    wrote: int = 0


class SimContent:
    """The content of a node's files.

    log: "sync", "async" or "off". windows: whether programs read and write by themselves what the
    machine gives rights to. full: how often content that comes finds no room here
    """

    def __init__(
        self,
        home: SimHome,
        process: Process,
        policy: Callable[[], PushPolicy],
        told: Callable[[Message], None],
        moved: Callable[[], None],
        *,
        log: str = "off",
        windows: bool = False,
        full: float = 0.0,
    ) -> None:
        """told: the machine has answered that. moved: something has come."""
        self.machine = NodeMachine()
        self.buffer: dict[Place, bytes] = {}
        self.waiting: list[Access] = []
        self.policy = policy()
        self.bringing = False
        self.expected: set[FileId] = set()
        """Files that home is being asked to open, and that were not known here."""
        self.refused: list[tuple[FileId, int]] = []
        """What home has not taken of what was written here."""
        self.session: Session
        """The membership by whose messages the machine goes."""
        self._home = home
        self._world = home.world
        self._process = process
        self._told = told
        self._moved = moved
        self._log = log
        self._full = full
        self._windows = windows and log != "sync"
        self._leased = -inf
        self._rights: defaultdict[FileId, dict[int, Right]] = defaultdict(dict)
        self._requests: dict[int, Sent] = {}
        self._logs: dict[int, Sent] = {}
        self._token = 0
        self._unanswered: Counter[FileId] = Counter()
        self._pinned: dict[FileId, tuple[Access, float]] = {}
        self._deferred: defaultdict[FileId, list[tuple[Session, int, Message]]] = defaultdict(list)

    @property
    def clock(self) -> float:
        return self._process.clock

    # A membership.

    def begin(self, session: Session) -> tuple[list[Release], list[tuple[LogWrite, Replies]]]:
        """It goes by this membership from now on. What it has to bring, and the logged writes that
        the one before has not confirmed, for `settled`."""
        for file in list(self._rights):
            self.take_back_all(file)
        self.session, self._leased = session, -inf
        self._requests.clear()
        for access in self.waiting:
            access.rounds.reset()
        self._unanswered.clear()
        self._deferred.clear()
        self._pinned.clear()
        self.bringing = True
        releases = self.machine.reset()
        logs, self._logs = self._logs, {}
        found = [(s.message, s.replies) for s in logs.values() if isinstance(s.message, LogWrite)]
        return releases, found

    def settled(
        self, session: Session, logs: list[tuple[LogWrite, Replies]], pending: list[Sent]
    ) -> None:
        """All of what was brought is answered, or that membership is over as well."""
        settle(logs, [sent.replies for sent in pending])
        self.bringing = self.bringing and session is not self.session

    def leased(self, session: Session, sent: float, mark: int | None) -> None:
        """mark: of a heartbeat; None where a ping was answered."""
        if session is not self.session:
            return
        if self._home.lease < inf:
            self._leased = max(self._leased, sent + self._home.lease)
            self.machine.leased(self._leased)
        if mark is not None:
            self.machine.confirmed(mark)

    # Messages.

    def request(self, message: Message, access: Access | None = None) -> Sent:
        """access: that it is for, if any"""
        self._token += 1
        token, home, session = self._token, self._home, self.session
        sent = self._requests[token] = Sent(message, self.clock, session, access)
        if access is not None:
            access.rounds.sent(message)
        sent.given = {
            number: self.machine.block(message.file, number).given
            for number in getattr(message, "fresh", ())
        }
        if isinstance(message, Carrier):
            self._unanswered[message.file] += 1
        home.count(message)
        session.up.send(
            lambda: home.arrived(
                session, lambda: home.directory.request(session.id, message, token, home.world.now)
            )
        )
        return sent

    def send(self, message: Carrier) -> Sent:
        """It is filled, and has its place in the stream."""
        return self.request(self._filled(message))

    def replied(self, token: int, message: Message) -> None:
        """Home has answered a request."""
        sent = self._requests.pop(token, None)
        if sent is None:
            return
        sent.replies.append(message)
        if sent.access is not None:
            sent.access.rounds.came(sent.message)
        request = sent.message
        match request, message:
            case Fetch(), Blocks():
                self._came(request, message, sent)
            case Acquire(), Ownership():
                self._came(request, message, sent)
            case LogWrite(), _:
                self._logs.pop(token, None)
                self.machine.log_done(request.file, request.first)
            case Carrier(), _:
                self._unanswered[request.file] -= 1
                refused = message.refused if isinstance(message, RefusalReply) else ()
                self.refused += [(request.file, number) for number in refused]
                for number, given in sent.given.items():
                    if self.machine.block(request.file, number).given == given:
                        self.machine.arrived(request.file, number)
        self.progress()

    def _came(self, request: Fetch | Acquire, reply: Blocks | Ownership, sent: Sent) -> None:
        self._take_back(request.file, request.numbers, read=True)
        if isinstance(request, Fetch) and isinstance(reply, Blocks):
            numbers = self.machine.blocks(request, reply, sent.at)
        else:
            assert isinstance(request, Acquire)
            assert isinstance(reply, Ownership)
            numbers = self.machine.granted(request, reply, self.clock)
        if numbers and self._is_full():
            self.machine.unstored(request, numbers)
        else:
            self._stored(reply, numbers)
        self._go_on(request.file)
        empty = self.machine.unwritten(request)
        for release in empty:
            self.send(release)
        if empty:
            self._go_on(request.file)

    def _is_full(self) -> bool:
        return self._full > 0 and self._world.chance.random() < self._full

    def asked(self, session: Session, number: int, message: Message) -> None:
        """Home asks."""
        pinned = self._pinned.get(message.file)
        if (
            pinned is not None
            and isinstance(message, Recall | Invalidate)
            and message.waited_for
            and ATTRIBUTES in message.numbers
            and self._world.now < pinned[1]
        ):
            self._deferred[message.file].append((session, number, message))
            return
        self._answer(session, number, message)

    def _answer(self, session: Session, number: int, message: Message) -> None:
        self._withdraw(message)
        for ahead in self.machine.ahead(message, self.clock):
            self.send(ahead)
        answer = self.machine.answer(message, self.clock)
        if isinstance(message, Update | Ownership):
            kept = getattr(answer, "kept", ())
            taken = {n for n, k in zip(message.numbers, kept, strict=True) if k}
            if taken and self._is_full():
                taken -= self.machine.lose(message.file, taken)
                answer = replace(answer, kept=tuple(n in taken for n in message.numbers))  # type: ignore[call-arg]
            else:
                self._stored(message, taken)
        filled, home = self._filled(answer), self._home
        home.count(filled)
        session.up.send(
            lambda: home.arrived(
                session,
                lambda: home.directory.answer(session.id, number, filled, home.world.now),
            )
        )
        self._told(message)
        self.progress()

    def _filled(self, message: Message) -> Message:
        if not isinstance(message, Carrier):
            return message
        data = b"".join(self.buffer[message.file, number] for number in message.fresh)
        return replace(message, data=data)

    def _stored(self, message: Carrier, numbers: Iterable[int]) -> None:
        wanted = set(numbers)
        for place, number in enumerate(message.fresh):
            if number in wanted:
                value = message.data[place * VALUE : (place + 1) * VALUE]
                self.buffer[message.file, number] = value

    def quiet(self, file: FileId) -> bool:
        """Whether home has answered all content of the file."""
        return self._unanswered[file] <= 0

    # Windows.

    def _withdraw(self, message: Message) -> None:
        if isinstance(message, NativeGrant):
            return
        if not message.count:
            self.take_back_all(message.file)
        else:
            reads_on = isinstance(message, Recall) and message.keep in {Keep.COPY, Keep.LENT}
            self._take_back(message.file, message.numbers, read=not reads_on)

    def _take_back(self, file: FileId, numbers: Iterable[int], *, read: bool) -> None:
        for number in numbers:
            right = self._rights[file].get(number)
            if right is not None:
                right.writes, right.reads = 0, right.reads and not read
        self._absorb(file)

    def take_back_all(self, file: FileId) -> None:
        self._take_back(file, list(self._rights[file]), read=True)

    def _absorb(self, file: FileId) -> None:
        """What was written through the window is the machine's."""
        for number, right in sorted(self._rights[file].items()):
            if right.wrote:
                times, right.wrote = right.wrote, 0
                right.writes = 0
                self._push(self.machine.did_write(file, number, 1, self.clock, times))

    def _grant(self, file: FileId, number: int) -> None:
        if self._windows:
            for rights in self.machine.rights(file, (number,), self.clock):
                self._rights[file][number] = Right(rights.reads, rights.writes)

    def through_window(self, access: Access) -> bool:
        """Whether the access is done without the machine."""
        (number,) = access.numbers if len(access.numbers) == 1 else (-2,)
        right = self._rights[access.file].get(number)
        if right is None or self.clock >= self.machine.until(access.file):
            return False
        if access.value is None and right.reads:
            access.values[number] = self.buffer[access.file, number]
            return True
        if access.value is not None and right.writes > 0:
            right.writes -= 1
            right.wrote += 1
            self.buffer[access.file, number] = access.value
            return True
        return False

    # Accesses.

    def access(self, access: Access) -> None:
        access.left, access.asked = list(access.numbers), self.clock
        if self.through_window(access):
            access.done(access)
            return
        self.waiting.append(access)
        self.progress()

    def progress(self) -> None:
        """Whatever can be done now is done."""
        for access in list(self.waiting):
            self._step(access)
        self._moved()

    def _go_on(self, file: FileId) -> None:
        """The accesses that waited for the file, before anything else that came."""
        for access in list(self.waiting):
            if access.file == file:
                self._step(access)

    def _step(self, access: Access) -> None:
        if access not in self.waiting or self.bringing:
            return
        file = access.file
        if file in self.expected:
            return
        if file not in self.machine.files():
            access.failed = True
        else:
            self._absorb(file)
            access.rounds.look()
            lacking = self._write(access) if access.writes else self._read(access)
            self._ask(access, lacking)
        access.failed = access.failed or any(
            not isinstance(reply, Ack) for replies in access.logs for reply in replies
        )
        if access.failed or (not access.left and all(access.logs)):
            self.waiting.remove(access)
            self._let_go(file, access)
            for number in access.numbers:
                self._grant(file, number)
            access.done(access)

    def _read(self, access: Access) -> list[int]:
        """What it lacks."""
        file, now = access.file, self.clock
        about = now, access.asked
        here = [number for number in access.left if self.machine.readable(file, number, *about)]
        if access.joint and len(here) < len(access.left):
            return self._joint(access, [number for number in access.left if number not in here])
        for number in here:
            access.values[number] = self.buffer[file, number]
            self.machine.did_read(file, number, 1)
            access.left.remove(number)
        return access.left

    def _joint(self, access: Access, lacking: list[int]) -> list[int]:
        """What an access asks for that lacks this and needs all of its blocks at one time."""
        together = access.rounds.together
        if ATTRIBUTES in lacking:
            if self._pinned.get(access.file, (None, 0.0))[0] is access:
                self._let_go(access.file, access)
            guess = [] if access.guessed or together else lacking[1:]
            access.guessed = True
            return [ATTRIBUTES, *guess]
        if ATTRIBUTES in access.numbers and (access.longer or together):
            self._pinned.setdefault(access.file, (access, self._world.now + PINNED))
            self.machine.hold(access.file, True)
        return [n for n in access.left if n != ATTRIBUTES] if together else lacking

    def _write(self, access: Access) -> list[int]:
        """What it lacks."""
        file, now = access.file, self.clock

        def ready(number: int) -> bool:
            whole = number in access.whole
            hollow = self.machine.block(file, number).hollow
            return (whole or not hollow) and self.machine.writable(file, number, now, whole)

        lacking = [number for number in access.left if not ready(number)]
        if access.joint and lacking:
            return self._joint(access, lacking)
        self._put(access, [number for number in access.left if number not in lacking])
        return lacking

    def _ask(self, access: Access, numbers: list[int]) -> None:
        parts = [n for n in numbers if n == ATTRIBUTES], [n for n in numbers if n != ATTRIBUTES]
        together = access.rounds.together
        wanted = [part for part in parts if part and access.rounds.may_ask(part[0])]
        for first, count in [run for part in wanted for run in runs(part)]:
            about, now = (access.file, first, count), self.clock
            asks = (
                self.machine.to_write(*about, access.whole, now, together=together)
                if access.writes
                else self.machine.to_read(*about, now, together=together)
            )
            for request in asks:
                self.request(request, access)

    def _put(self, access: Access, numbers: list[int]) -> None:
        for number in numbers:
            self._put_block(access, number)
            access.left.remove(number)

    def _put_block(self, access: Access, number: int) -> None:
        assert access.value is not None
        file = access.file
        self._take_back(file, (number,), read=self._log == "sync")
        self.buffer[file, number] = access.value
        pushes = self.machine.did_write(file, number, 1, self.clock)
        native = self.machine.native(file)
        if self._log == "sync":
            self.machine.log_sent(file, number)
            sent = self.request(LogWrite(file, number, 1, 0, access.value))
            self._logs[self._token] = sent
            access.logs.append(sent.replies)
        elif self._log == "async" and not native:
            self.request(LogWrite(file, number, 1, 0, access.value))
        self._push(pushes)

    def _push(self, pushes: list[Push]) -> None:
        """Send the pushes that a write caused."""
        for push in pushes:
            self.send(push)

    def _let_go(self, file: FileId, access: Access | None = None) -> None:
        """Answer what was held back, if nothing holds it any more."""
        pinned = self._pinned.get(file)
        if pinned is not None and pinned[0] is not access and self._world.now < pinned[1]:
            return
        self._pinned.pop(file, None)
        self.machine.hold(file, False)
        for session, number, message in self._deferred.pop(file, []):
            self._answer(session, number, message)

    def let_go(self) -> None:
        """Of all files, now and then."""
        for file in list(self._pinned):
            self._let_go(file)

    # What the buffer has no room for, and what home is to have.

    def evict(self, file: FileId, number: int) -> None:
        """This block goes, if it can."""
        self._take_back(file, (number,), read=True)
        for release in self.machine.release(file, number, 1):
            self.send(release)
        if not self.machine.needed(file, number):
            self.buffer.pop((file, number), None)

    def flush(self, file: FileId) -> list[Sent]:
        self._absorb(file)
        return [self.send(message) for message in self.machine.flush(file)]

    def trim(self, file: FileId) -> None:
        """The file was cut: what is behind the last block that has to stay goes."""
        self._absorb(file)
        end = self.machine.trim(file)
        for place in [p for p in self.buffer if p[0] == file and p[1] >= max(end, 0)]:
            del self.buffer[place]
