# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keeper of one service: each call of its guests is done here once, and its reply recorded.

Replicas ask in any order and at any time. The first that asks a call has it done, the others get
the reply. Home's own replica decides what an operation consists of: when it has finished one, a
call of it that nobody has made is of a replica that has parted from it, and fails. A change that a
surrogate without a writable grant asks for is done when home's replica asks for the same.
"""

from __future__ import annotations

import errno
import functools
import logging
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from guestshares.calls import Answered, Call, Keeper
from guestshares.counts import CallName
from guestshares.digests import RELEASING, changes
from guestshares.handoff import HandoffRestore
from guestshares.host import ServedSession
from guestshares.kernel import IN_HEADER, OUT_HEADER, SILENT, KernelRequest, Opcode, error_reply
from guestshares.lead import Granted, Leader, LeaderLease, LeadWatch, is_content
from guestshares.messages import CallResult, UnsentCall
from guestshares.performer import Performer
from guestshares.record import CallRecord
from guestshares.requests import handle_in, lasting, request_like, written_through
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)

TOLD_OPERATIONS = 64
"""How many operations ahead of what a replica asks it is told what home's has asked."""

TOLD_BYTES = 256 << 10
"""What is told of one operation at most. The rest is asked for."""

ASKED_BYTES = 1 << 30
"""Of an operation, of requests and what they may be answered, that surrogates may ask before home's
replica does: a stranger does not fill home's disk."""

NEAR_OPERATIONS = 64
"""A surrogate that is further behind does not lead: home's replica would wait until it is there."""

BEHIND = 4096
"""Operations that a replica may be behind the log's beginning and still find its calls."""

_OPEN_OUT = 16
"""Bytes of a fuse_open_out, with which the reply to a CREATE ends."""

_OPENING = (Opcode.OPEN, Opcode.OPENDIR)


class DistantLine(Keeper, Protocol):
    """What a replica at a surrogate has of the keeper."""

    def lead(self, leader: Leader, first: int, granted: Granted) -> None:
        """As `CallKeeper.lead`."""

    def told(self, done: Sequence[CallResult]) -> bool:
        """As `CallKeeper.told`."""

    def hand_over(
        self, unsent: Sequence[UnsentCall], session: bytes, answered: Callable[[bool], None]
    ) -> None:
        """As `CallKeeper.hand_over`."""

    def yielded(self) -> None:
        """It leads no more."""


class CallKeeper:
    """See the module. Thread-safe."""

    def __init__(
        self,
        service: str,
        record: CallRecord,
        serve: Callable[[socket.socket], ServedSession],
        last_logged: Callable[[], int],
    ) -> None:
        """Takes over the record. serve: as ShareHost.serve, for one session of the service, which
        there is while anybody asks."""
        self._service = service
        self._record = record
        self._serve = serve
        self._last_logged = last_logged
        self._life = threading.Lock()  # of the session; its beginning and end take a while
        self._lines: set[_Line] = set()
        self._performer: Performer | None = None
        self._leading: _Line | None = None
        self._first: tuple[bytes, bytes] | None = None  # FUSE_INIT and its reply
        self._lock = threading.Lock()  # of what follows
        self._cut = self._unlogged = 0
        self._under_way: dict[CallName, list[Answered]] = {}
        self._unconfirmed: dict[CallName, list[Answered]] = {}  # changes that strangers ask for
        self._numbers: dict[CallName, int] = {}
        self._ahead: list[tuple[_Line, CallName, KernelRequest, Answered]] = []
        self._asked_bytes: Counter[int] = Counter()  # by operation
        self._lead: LeaderLease | None = None
        self._watch: LeadWatch | None = None
        self._told_ahead: list[CallResult] = []  # by who leads, of operations that are not logged
        self._wishes: list[tuple[_Line, Leader, int, Granted]] = []
        self._session = b""  # that was handed over, for who leads next
        self._last_told = 0  # the last operation of which who leads has told or asked
        self._begun = record.finished  # the last operation in which home's replica has asked

    def at_home(self) -> Keeper:
        """For home's own replica: what it has finished is over, and it may change the share between
        operations."""
        return _Line(self, trusted=True, earlier=self._record.finished)

    def elsewhere(
        self,
        tell: Callable[[list[CallResult]], None] = lambda done: None,
        granted: Callable[[], bool] = lambda: False,
    ) -> DistantLine:
        """For a replica at a surrogate. tell: given, before it asks, what home's replica has asked;
        never waits. granted: whether a grant lets it change the share now; without one its changes
        wait until home's replica asks for the same."""
        return _Line(self, trusted=False, earlier=0, tell=tell, granted=granted)

    def copy(self) -> Keeper:
        """For a copy of a replica, which executes operations once more and must not touch anything:
        it is given what was done."""
        return _Line(self, trusted=False, earlier=0, copy=True)

    def logged(self) -> None:
        """The log has more operations: what surrogates ask in them is done."""
        with self._lock:
            last = self._last_logged()
            ready = [asked for asked in self._ahead if asked[1].operation <= last]
            self._ahead = [asked for asked in self._ahead if asked[1].operation > last]
            told = [done for done in self._told_ahead if done.name.operation <= last]
            self._told_ahead = [done for done in self._told_ahead if done.name.operation > last]
        self._keep_told(told)
        for asked in ready:
            self.once(*asked)

    # The surrogate that leads.

    def lead(self, line: _Line, leader: Leader, first: int, granted: Granted) -> None:
        """Have that surrogate do what is asked of content, from that operation on or a later one.
        granted: is told from which, perhaps when the one that leads now has handed over; 0: it is
        not to be so, because it is far behind."""
        with self._lock:
            self._wishes = [wish for wish in self._wishes if wish[0] is not line]
            now, leads = self._lead, line is self._leading
            if not leads:
                self._wishes.append((line, leader, first, granted))
        if leads:
            granted(0, b"")
        elif now:
            now.leader.session(leader.expect)
        else:
            self._next_lead(None)

    def _begin_lead(self, line: _Line, leader: Leader, first: int) -> None:
        """With the lock held."""
        self._lead, self._leading = LeaderLease(leader, first), line
        self._watch = LeadWatch(self._lead, self.end_lead)
        logger.info("%s: a surrogate leads from operation %d on", self._service, first)

    def _next_lead(self, before: LeaderLease | None) -> None:
        """Who wanted to lead gets its turn, behind all that was told. before: the lead that was
        handed over; what home's replica asks waited for that, so the next one goes on in the
        operation that is begun."""
        with self._lock:
            if self._lead or not self._wishes:
                return
            line, leader, wished, granted = self._wishes.pop(0)
            begun = before.first if before else self._begun + 1
            first = max(wished, begun, self._record.finished + 1, self._last_told + 1)
            behind = first > max(line.asked + 1, wished) + NEAR_OPERATIONS
            session = b""
            if not behind:
                session, self._session = self._session, session
                self._begin_lead(line, leader, first)
        if not behind:
            line.send_ahead()
        granted(0 if behind else first, session)
        if behind:
            self._next_lead(before)

    def hand_over(
        self,
        line: _Line,
        unsent: Sequence[UnsentCall],
        session: bytes,
        answered: Callable[[bool], None],
    ) -> None:
        """That surrogate leads no more. What it has done and home has not is done here, durably;
        then who wants to leads next, with that session. Never waits. answered: whether it led."""
        with self._lock:
            lead = self._lead if line is self._leading else None
            least = max(lead.first if lead else 0, self._record.finished + 1)
        if lead is None:
            answered(False)
            return
        lead.leader.fence(handed_over=True)

        def restored(done: list[UnsentCall]) -> None:
            taken = self.told(line, [CallResult(each.name, each.reply) for each in done])
            with self._lock:
                self._session = session
            self.end_lead(lead, "it has handed over", handed_over=taken)
            answered(taken)

        wanted = [each for each in unsent if each.name.operation >= least]
        going = lambda: not lead.over  # noqa: E731
        HandoffRestore(self.perform, going, restored).begin(
            [e for e in wanted if is_content(e.request)]
        )

    def told(self, line: _Line, done: Sequence[CallResult]) -> bool:
        """What the surrogate that leads has done; whether it still leads. What is told of
        operations that home's replica is over with is passed over, and of none more than it may
        ask."""
        with self._lock:
            lead = self._lead
            if lead is None or line is not self._leading:
                return False
            least = max(lead.first, self._record.finished + 1)
            done = [each for each in done if each.name.operation >= least]
            for each in done:
                self._last_told = max(self._last_told, each.name.operation)
                self._asked_bytes[each.name.operation] += len(each.reply)
                if self._asked_bytes[each.name.operation] > ASKED_BYTES:
                    return False
            last = self._last_logged()
            ready = [each for each in done if each.name.operation <= last]
            self._told_ahead += [each for each in done if each.name.operation > last]
        self._keep_told(ready)
        return True

    def _keep_told(self, done: Sequence[CallResult]) -> None:
        for place, each in enumerate(done):
            if self._found(each.name) is None:
                self._add(each.name, each.reply, durable=place == len(done) - 1)

    def end_lead(self, lead: LeaderLease, why: str, *, handed_over: bool = False) -> None:
        """Home does what is asked of content again, beginning with what is waited for; or who leads
        next does."""
        with self._lock:
            if self._lead is not lead:
                return
            self._lead = self._leading = None
            lead.over, watch = True, self._watch
            again = [ask for _, asks in lead.waiting.values() for ask in asks]
        if watch:
            watch.close()
        logger.info("%s: the surrogate leads no more: %s", self._service, why)
        self._next_lead(lead if handed_over else None)
        for ask in again:
            ask()

    def yielded(self, line: _Line, why: str = "it has yielded") -> None:
        """That line leads no more, if it did."""
        with self._lock:
            lead = self._lead if line is self._leading else None
        if lead:
            self.end_lead(lead, why)

    def _waits(
        self, line: _Line, name: CallName, request: KernelRequest, answered: Answered
    ) -> bool:
        """With the lock held: whether the surrogate that leads is to do it. Then it is asked again
        when that has told something."""
        lead = self._lead
        if lead is None or line is self._leading or name.operation < lead.first:
            return False
        if not is_content(request):
            return False
        lead.wait(name, functools.partial(self.once, line, name, request, answered))
        return True

    def cut(self, operation: int) -> None:
        """The log has operations up to that one no more. What the log had before that is kept, and
        what replicas that are behind have not asked for."""
        with self._lock:
            before, self._unlogged = self._unlogged, max(self._unlogged, operation)
            behind = [line.asked - 1 for line in tuple(self._lines) if not line.trusted]
            self._cut = max(self._cut, min([before, *behind]), before - BEHIND)
            cut = self._cut
        self._record.cut(cut)

    def close(self) -> None:
        """End the session; the record is durable on return."""
        with self._life:
            self._lines.clear()
            self._end()
        self._record.close()

    def begin(self, line: _Line, request: KernelRequest) -> bytes:
        """FUSE_INIT: the same words have the same reply. Home's guest says which they are, also
        where a stranger has said others before."""
        body = request.message[IN_HEADER.size :]
        with self._life:
            self._lines.add(line)
            if line.trusted and self._first is not None and self._first[0] != body:
                logger.warning("the shares of %s were begun in other words", self._service)
                self._end()
            if self._performer is None:
                try:
                    self._performer = Performer(self._serve)
                except (SatchelError, OSError) as error:
                    logger.warning("the shares of %s: %s", self._service, error)
                    return error_reply(0, errno.EIO)
            if self._first is None:
                self._first = body, self._performer.wait_for(request)
            if self._first[0] != body:
                return error_reply(0, errno.EPROTO)
            return self._first[1]

    def leave(self, line: _Line) -> None:
        """The session ends with the last one who asks."""
        with self._lock:
            self._wishes = [wish for wish in self._wishes if wish[0] is not line]
        self.yielded(line, "it is gone")
        with self._lock:
            self._ahead = [waiting for waiting in self._ahead if waiting[0] is not line]
        with self._life:
            self._lines.discard(line)
            if not self._lines:
                self._end()

    def finished(self, operation: int) -> None:
        try:
            self._record.finish(operation)
        except OSError as error:
            logger.error("the record of calls of %s: %s", self._service, error)
        with self._lock:
            for number in [number for number in self._asked_bytes if number <= operation]:
                del self._asked_bytes[number]
            over = [name for name in self._unconfirmed if name.operation <= operation]
            parted = [answered for name in over for answered in self._unconfirmed.pop(name)]
        for answered in parted:
            answered(error_reply(0, errno.EIO))
        for line in tuple(self._lines):
            line.send_ahead()

    def ahead_of(self, line: _Line, asked: int, told: int) -> tuple[int, list[CallResult]]:
        """What a replica that asks in that operation is going to ask, as far as home's has asked
        it, or who led before, and nothing was told of: up to which operation that is, and the
        calls."""
        with self._lock:
            lead = self._lead if line is self._leading else None
            known = lead.first - 1 if lead else self._record.finished
        last = min(known, asked + TOLD_OPERATIONS)
        done: list[CallResult] = []
        for operation in range(max(asked, told + 1), last + 1):
            size = 0
            for name in self._record.of(operation, TOLD_BYTES):
                reply = self._found(name)
                if reply is not None and (size := size + len(reply)) <= TOLD_BYTES:
                    done.append(CallResult(name, reply))
        return max(last, told), done

    def perform(self, request: KernelRequest, answered: Answered) -> int:
        """Have it done, whether it was or not, and record nothing."""
        performer = self._performer
        if performer is None:
            answered(error_reply(0, errno.EIO))
            return 0
        return performer.perform(request, answered)

    def once(self, line: _Line, name: CallName, request: KernelRequest, answered: Answered) -> None:
        """Have a call of an operation done, unless it was. What a surrogate asks waits until the
        operation is logged: one that is lost with its client has changed nothing."""
        with self._lock:
            if not line.trusted and name.operation > self._last_logged():
                self._ahead.append((line, name, request, answered))
                return
            self._note_begun(line, name.operation)
            reply = self._found(name)
            if reply is None and name in self._under_way:
                self._under_way[name].append(answered)
                return
            if reply is None and self._is_unconfirmed(line, name, request):
                self._unconfirmed.setdefault(name, []).append(answered)
                return
            if reply is None and self._waits(line, name, request, answered):
                return
            if reply is None and (why := self._refused(line, name)):
                logger.warning("%s, operation %d: %s", self._service, name.operation, why)
                reply = error_reply(0, errno.EIO)
            if reply is None:
                self._under_way[name] = [answered, *self._unconfirmed.pop(name, [])]
                if not line.trusted:
                    self._asked_bytes[name.operation] += request.cost
        if reply is not None:
            answered(reply)
            return
        number = self.perform(request, functools.partial(self._done, name, request))
        with self._lock:
            if name in self._under_way:
                self._numbers[name] = number

    def _is_unconfirmed(self, line: _Line, name: CallName, request: KernelRequest) -> bool:
        """With the lock held: whether it is a stranger's change that home's replica has not asked
        for, and may still ask for."""
        if line.trusted or line.copy or line.granted() or not changes(request):
            return False
        return not self._refused(line, name)

    def _note_begun(self, line: _Line, operation: int) -> None:
        if line.trusted:
            self._begun = max(self._begun, operation)
        if line is self._leading:
            self._last_told = max(self._last_told, operation)

    def interrupt(self, name: CallName) -> None:
        with self._lock:
            number = self._numbers.get(name)
        performer = self._performer
        if number and performer:
            performer.interrupt(number)

    def _found(self, name: CallName) -> bytes | None:
        try:
            return self._record.find(name)
        except (SatchelError, OSError) as error:
            logger.error("the record of calls of %s: %s", self._service, error)
            return error_reply(0, errno.EIO)

    def _refused(self, line: _Line, name: CallName) -> str:
        """Why a call that was not done is not done now; empty: it is."""
        finished = line.earlier if line.trusted else self._record.finished
        if name.operation <= max(finished, self._cut):
            return "a replica asks what no other one has asked in it"
        if line.copy:
            return "a copy asks what nobody has asked"
        if not line.trusted and self._asked_bytes[name.operation] > ASKED_BYTES:
            return "surrogates ask more than they may before home's replica does"
        if self._performer is None:
            return "it is asked before the session has begun, or after its end"
        return ""

    def _done(self, name: CallName, request: KernelRequest, reply: bytes) -> None:
        """What is in the record is not done again. So what was written is at home before: a session
        that ends with this process takes its node's copies along."""
        performer = self._performer
        if performer and self._leading and request.opcode == Opcode.CREATE and len(reply) > 32:
            # Who leads has it open from now on, alone: home's node is not to keep it.
            (made,) = struct.unpack_from("<Q", reply, len(reply) - _OPEN_OUT)
            body = struct.pack("<QIIQ", made, 0, 0, 0)
            performer.perform(request_like(Opcode.RELEASE, request, body), lambda reply: None)
        handle = written_through(request)
        if performer is None or handle is None or OUT_HEADER.unpack_from(reply)[1]:
            self._add(name, reply, durable=lasting(request))
            return
        sync = request_like(Opcode.FSYNC, request, struct.pack("<QII", handle, 0, 0))
        performer.perform(sync, lambda synced: self._synced(name, reply, synced), follows=True)

    def _synced(self, name: CallName, reply: bytes, synced: bytes) -> None:
        _, error, _ = OUT_HEADER.unpack_from(synced)
        self._add(name, error_reply(0, -error) if error else reply, durable=True)

    def _add(self, name: CallName, reply: bytes, *, durable: bool) -> None:
        try:
            self._record.add(name, reply, durable=durable)
        except OSError as error:
            logger.error("the record of calls of %s: %s", self._service, error)
            reply = error_reply(0, errno.EIO)
        with self._lock:
            waiting = self._under_way.pop(name, [])
            self._numbers.pop(name, None)
            again = self._lead.told(name) if self._lead else []
        for answered in waiting:
            answered(reply)
        for ask in again:
            ask()

    def _end(self) -> None:
        """With `_life` held."""
        performer, self._performer = self._performer, None
        self._first = None
        if performer:
            performer.close()
        with self._lock:
            self._under_way.clear()
            self._unconfirmed.clear()
            self._numbers.clear()


class _Line:
    """One replica. See Keeper."""

    def __init__(
        self,
        keeper: CallKeeper,
        *,
        trusted: bool,
        earlier: int,
        copy: bool = False,
        tell: Callable[[list[CallResult]], None] = lambda done: None,
        granted: Callable[[], bool] = lambda: False,
    ) -> None:
        """copy: has nothing done. tell, granted: as for CallKeeper.elsewhere. earlier: what this
        replica may have executed in an earlier life: whatever is not in the record of that was not
        asked then."""
        self.trusted = trusted
        self.copy = copy
        self.granted = granted
        self.earlier = earlier
        self._keeper = keeper
        self._tell = tell
        self._lock = threading.Lock()
        self.asked = self._told = 0
        self._open: Counter[int] = Counter()

    def ask(self, call: Call, answered: Answered) -> None:
        request = call.request
        if code := request.refusal():
            answered(error_reply(0, code))
        elif request.opcode == Opcode.INIT:
            answered(self._keeper.begin(self, request))
        elif request.opcode in SILENT or request.opcode == Opcode.DESTROY:
            answered(error_reply(0, 0))
        elif request.opcode in RELEASING:
            self._release(request, answered)
        elif call.name:
            self._keeper.once(self, call.name, request, answered)
            if not self.trusted:
                self.asked = max(self.asked, call.name.operation)
                self.send_ahead()
        else:
            self._at_once(request, answered)

    def send_ahead(self) -> None:
        """Tell the replica what it is going to ask."""
        if self.trusted or not self.asked:
            return
        with self._lock:  # what is told is told in order
            self._told, done = self._keeper.ahead_of(self, self.asked, self._told)
            if done:
                self._tell(done)

    def interrupt(self, call: Call) -> None:
        if call.name and self.trusted:  # all are interrupted, or none
            self._keeper.interrupt(call.name)

    def finished(self, operation: int) -> None:
        if self.trusted:
            self._keeper.finished(operation)

    def close(self) -> None:
        self._keeper.leave(self)

    def lead(self, leader: Leader, first: int, granted: Granted) -> None:
        self._keeper.lead(self, leader, first, granted)

    def hand_over(
        self, unsent: Sequence[UnsentCall], session: bytes, answered: Callable[[bool], None]
    ) -> None:
        self._keeper.hand_over(self, unsent, session, answered)

    def told(self, done: Sequence[CallResult]) -> bool:
        return self._keeper.told(self, done)

    def yielded(self) -> None:
        self._keeper.yielded(self)

    def _at_once(self, request: KernelRequest, answered: Answered) -> None:
        """What is part of no operation has no name that replicas share: reads are done for each of
        them, changes for home's alone."""
        if self.trusted:
            self._keeper.perform(request, answered)
        elif changes(request):
            answered(error_reply(0, errno.EROFS))
        elif request.opcode == Opcode.FLUSH:
            answered(error_reply(0, 0))  # it would give up home's locks
        elif request.opcode in _OPENING:
            self._keeper.perform(request, functools.partial(self._opened, answered))
        else:
            self._keeper.perform(request, answered)

    def _opened(self, answered: Answered, reply: bytes) -> None:
        _, error, _ = OUT_HEADER.unpack_from(reply)
        if not error:
            with self._lock:
                self._open[handle_in(reply[OUT_HEADER.size :])] += 1
        answered(reply)

    def _release(self, request: KernelRequest, answered: Answered) -> None:
        """A handle that was opened once for all is given up once: by home's replica."""
        handle = handle_in(request.message[IN_HEADER.size :])
        with self._lock:
            mine = self._open[handle] > 0
            self._open[handle] -= mine
            self._open += Counter()  # without those that are zero
        if self.trusted or mine:
            self._keeper.perform(request, lambda reply: None)
        answered(error_reply(0, 0))
