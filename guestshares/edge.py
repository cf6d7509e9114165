# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest at a surrogate asks of its shares, done there: by a node of the share.

A surrogate follows, as `DistantKeeper` does, until home lets it lead from an operation on. Then
what is about content is done here, at once, and told; names and locks stay home's. Whatever goes
wrong, it follows again. docs/shares-edge.md.
"""

from __future__ import annotations

import functools
import logging
import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from guestshares.calls import Answered, Call
from guestshares.digests import RELEASING, changes
from guestshares.distant import DistantKeeper
from guestshares.gate import Gate
from guestshares.handoff import HandoffPrefetch, OpenedFiles, files_of
from guestshares.host import MemberHost, ServedSession
from guestshares.kernel import IN_HEADER, OUT_HEADER, KernelRequest, Opcode, error_reply
from guestshares.lead import is_content
from guestshares.performer import Performer
from guestshares.requests import asked
from guestshares.settler import Settler
from satchel.errors import SatchelError
from shares.session import Handoff

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""After a lead that was lost, or a node that could not join, until the next is wanted."""

REFUSED_SECONDS = 0.5
"""After home has refused one, because its own replica was as far."""

REST_SECONDS = 10.0
"""For which a file that was written stays open for the next who writes it."""

REST_FILES = 64

HANDOFF_SECONDS = 20.0
"""For which a surrogate that hands over waits until home has all that it did."""

BOUNDARY_SECONDS = 0.25
"""For which it waits until its guest has executed the operation that it is at. What is left of that
home does."""

HANDOFF_BYTES = 64 << 10
SETTLE_SECONDS = 1.0
"""So much of what home has not goes along with a handoff, and more only where a guest that goes on
does not let it become less within this time."""

SESSION = "guest"
"""Its name, in a handoff: home knows whose it is."""

_LOCKS = (Opcode.GETLK, Opcode.SETLK, Opcode.SETLKW)
_WRITING = (Opcode.WRITE, Opcode.SETATTR, Opcode.FSYNC)
_BY_HANDLE = 1 << 6


class EdgeState(Enum):
    """FOLLOWS: home does what is asked; LEADS: this node does; HANDOFF: what it did is on its way,
    and what is asked meanwhile waits in the dirty queue."""

    FOLLOWS = "follows"
    LEADS = "leads"
    HANDOFF = "handoff"


class EdgeKeeper:
    """See the module, and Keeper. Takes over the distant keeper."""

    def __init__(
        self,
        distant: DistantKeeper,
        join: Callable[[Gate], MemberHost],
        *,
        writable: bool,
        synchronous: bool = False,
    ) -> None:
        """join: a host whose node says what it says through that gate. writable: as the grant says;
        a node that may only read serves what is asked outside of operations. synchronous: nothing
        that was written is answered before home has it."""
        self._distant, self._join = distant, join
        self._writable, self._synchronous = writable, synchronous
        self._changed = threading.Condition()
        self._state = EdgeState.FOLLOWS
        self._first = 0  # the operation from which this node leads
        self._asked = False  # home was asked for the lead, and has not answered
        self._not_before = 0.0
        self._under_way = 0
        self._dirty: list[tuple[Call, Answered]] = []
        self._opened = OpenedFiles()
        self._at = self._executed = 0  # the operation that is asked in, and the last that is over
        self._until = 0  # the last that is still done here, in a handoff
        self._expected = b""
        self._locked: set[int] = set()
        self._init: Call | None = None
        self._node: _Node | None = None
        self._beginning = False
        self._endings: list[threading.Thread] = []
        self._closed = False
        distant.begins = lambda: self._lost("home has lost the conversation")
        distant.recalled = self._recall
        distant.session = lambda: self._opened.session(SESSION)
        distant.expected = self.expect_handoff

    @property
    def state(self) -> EdgeState:
        return self._state

    # Keeper.

    def ask(self, call: Call, answered: Answered) -> None:
        request = call.request
        if request.opcode == Opcode.INIT:
            self._init = call
            self._distant.ask(call, answered)
            self._begin_node()
            return
        if request.opcode in RELEASING:
            self._release(call, answered)
            return
        with self._changed:
            if call.name is not None:
                self._at = max(self._at, call.name.operation)
            if self._state is EdgeState.HANDOFF and self._waits(call):
                self._dirty.append((call, answered))
                return
            node = self._chosen(call)
            if node is not None:
                self._under_way += 1
        if node is None:
            self._ask_home(call, answered)
        else:
            node.perform(request, functools.partial(self._performed, node, call, answered))

    def interrupt(self, call: Call) -> None:
        self._distant.interrupt(call)

    def finished(self, operation: int) -> None:
        self._distant.finished(operation)
        with self._changed:
            self._executed = max(self._executed, operation)
            self._changed.notify_all()
        self._want_lead(operation + 1)

    def close(self) -> None:
        with self._changed:
            self._closed = True
        self.hand_over(HANDOFF_SECONDS / 4)
        with self._changed:
            node, self._node = self._node, None
        if node:
            node.end()
        self._distant.close()
        for ending in self._endings:
            ending.join()

    # Handoffs: of the session of this guest, as MEFS has them.

    def hand_over(self, seconds: float = HANDOFF_SECONDS) -> bool:
        """Home has, on return, all that this node has done, and who wants to leads next. Whether it
        has; what is asked meanwhile waits, and is asked of home then."""
        self.settle_most(seconds)
        handoff = self.prepare_handoff(seconds)
        return handoff is None or self.send_handoff(handoff, seconds)

    def settle_most(self, seconds: float) -> None:
        """Before a handoff: wait, while the guest goes on, until it is going to be short."""
        with self._changed:
            node = self._node
        if node is not None:
            node.settler.drain(min(seconds, SETTLE_SECONDS), most=HANDOFF_BYTES)

    def prepare_handoff(self, seconds: float = HANDOFF_SECONDS) -> Handoff | None:
        """From now on calls wait in the dirty queue, but those of the operation that the guest is
        at. None where this node does not lead."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not EdgeState.HANDOFF, seconds)
            if self._state is not EdgeState.LEADS:
                return None
            self._state, self._until = EdgeState.HANDOFF, self._at
            over = lambda: self._executed >= self._until and self._under_way == 0  # noqa: E731
            if not self._changed.wait_for(over, min(seconds, BOUNDARY_SECONDS)):
                logger.info("handed over amid operation %d", self._until)
            self._until = 0
            self._changed.wait_for(lambda: self._under_way == 0, seconds)
            if self._state is not EdgeState.HANDOFF:
                return None
        return Handoff(SESSION, self._opened.session(SESSION))

    def send_handoff(self, handoff: Handoff, seconds: float = HANDOFF_SECONDS) -> bool:
        """Home does what it has not, and gives the session to who leads next. Whether it has said
        so; else it goes on without what this node has not told."""
        with self._changed:
            node = self._node
        if node is None:
            return False
        unsent, behind = node.settler.take()
        node.gate.abandon()
        taken: list[bool] = []
        done = threading.Event()

        def answered(took: bool) -> None:
            taken.append(took)
            done.set()

        self._distant.hand_over(unsent, handoff.session, answered)
        if not done.wait(seconds) or not taken[0]:
            self._lost("home does not take its session over")
            return False
        self._leave(node)
        for act in behind:
            act()
        self._follow(EdgeState.HANDOFF)
        return True

    def expect_handoff(self, session: bytes) -> None:
        """The session that leads now may come here: its names are looked up, and what it only reads
        is opened. Never waits."""
        with self._changed:
            self._expected, node = session, self._node
        if node is not None:
            node.open_ahead(session, reading_only=True)

    def restore_handoff(self, first: int, session: bytes) -> None:
        """Lead from that operation on. What the session has open is opened; never waits."""
        with self._changed:
            node = self._node
            if node is None or self._closed:
                self._distant.yielded()
                return
            self._first, self._state = first, EdgeState.LEADS
        logger.info("this node does what is asked from operation %d on", first)
        if session:
            node.open_ahead(session, reading_only=False)

    def _waits(self, call: Call) -> bool:
        """With the lock, in a handoff."""
        return call.name is None or call.name.operation > self._until

    # Following.

    def _chosen(self, call: Call) -> _Node | None:
        """With the lock: the node, if it is to do that."""
        node = self._node
        if node is None or not is_content(call.request) or call.request.refusal():
            return None
        if call.name is None:
            reads = not changes(call.request) and call.request.opcode != Opcode.FSYNC
            leads = self._state is EdgeState.LEADS or not self._writable
            return node if reads and leads else None
        leads = self._state is not EdgeState.FOLLOWS and call.name.operation >= self._first
        return node if leads else None

    def _ask_home(self, call: Call, answered: Answered) -> None:
        request, node = call.request, self._node
        if call.name is not None:
            self._want_lead(call.name.operation + 1)
        if request.opcode in _LOCKS:
            self._locked.add(request.file)
        elif request.opcode == Opcode.CREATE:
            answered = functools.partial(self._created, request, answered)
        leads = self._state is not EdgeState.FOLLOWS
        if leads and node is not None and call.name is not None:
            if request.opcode == Opcode.FLUSH and request.file not in self._locked:
                self._distant.ask(call, lambda reply: None)
                answered(error_reply(0, 0))
                return
            node.settler.then(lambda: self._distant.ask(call, answered))
            return
        self._distant.ask(call, answered)

    def _created(self, request: KernelRequest, answered: Answered, reply: bytes) -> None:
        self._opened.note(request, reply)
        answered(reply)

    def _want_lead(self, first: int) -> None:
        with self._changed:
            idle = self._state is EdgeState.FOLLOWS and not self._asked and not self._closed
            if not (self._writable and idle) or time.monotonic() < self._not_before:
                return
            if self._node is None:
                begin = True
            else:
                begin, self._asked = False, True
        if begin:
            self._begin_node()
            return
        self._distant.want_lead(first, self._led)

    def _led(self, first: int, session: bytes) -> None:
        with self._changed:
            self._asked = False
            if not first:
                self._not_before = time.monotonic() + REFUSED_SECONDS
        if first:
            self.restore_handoff(first, session)
        else:
            self._want_lead_later()

    def _want_lead_later(self) -> None:
        """A guest that has executed all that there was asks nothing more meanwhile."""
        again = lambda: self._want_lead(max(self._at, self._executed) + 1)  # noqa: E731
        timer = threading.Timer(REFUSED_SECONDS, again)
        timer.daemon = True
        timer.start()

    def _begin_node(self) -> None:
        with self._changed:
            if self._beginning or self._node or self._closed or self._init is None:
                return
            self._beginning = True
        threading.Thread(target=self._join_share, name="edge", daemon=True).start()

    def _join_share(self) -> None:
        node: _Node | None = None
        try:
            init = self._init
            assert init is not None
            node = _Node(self._join, init.request, self._distant, self._lost)
        except (SatchelError, OSError) as error:
            logger.warning("no node of the share here: %s", error)
        with self._changed:
            self._beginning = False
            if node is None:
                self._not_before = time.monotonic() + AGAIN_SECONDS
            elif not self._closed:
                self._node, node = node, None
            joined, session, at = self._node, self._expected, self._at
        if node:
            node.end()
        elif joined and session:
            joined.open_ahead(session, reading_only=True)
        if joined and at:
            self._want_lead(at + 1)

    # Leading.

    def _performed(self, node: _Node, call: Call, answered: Answered, reply: bytes) -> None:
        request, name = call.request, call.name
        _, error, _ = OUT_HEADER.unpack_from(reply)
        self._opened.note(request, reply)
        if name is None:
            self._done()
            answered(reply)
        elif request.opcode in _WRITING or _cuts(request):
            here = error or request.opcode == Opcode.FSYNC
            handle = None if here else node.handle_of(request)
            node.settler.written(name, reply, handle, request)
            self._done()
            if self._synchronous or not node.settler.room:
                node.settler.then(lambda: answered(reply))
            else:
                answered(reply)
        else:
            node.settler.read(name, reply)
            self._done()
            answered(reply)

    def _done(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _release(self, call: Call, answered: Answered) -> None:
        node = self._node
        if node is not None:
            node.release(call.request, rests=self._state is EdgeState.LEADS)
        self._distant.ask(call, answered)

    # The end of a lead.

    def _recall(self, yielded: Callable[[], None]) -> None:
        def hand_over() -> None:
            self.hand_over()
            yielded()

        threading.Thread(target=hand_over, name="hand over", daemon=True).start()

    def _lost(self, why: str) -> None:
        """Home goes on without what this node did and has not told: nothing of it comes home."""
        with self._changed:
            node = self._node
            if node is None or (self._state is EdgeState.FOLLOWS and not self._asked):
                return
        logger.warning("this node leads no more: %s", why)
        self._distant.yielded()
        self._leave(node)
        self._follow(self._state)

    def _leave(self, node: _Node) -> None:
        """Nothing that it has comes home any more."""
        with self._changed:
            self._node, self._asked = None, False
        node.gate.abandon()
        ending = threading.Thread(target=node.give_up, name="edge ends", daemon=True)
        self._endings = [each for each in self._endings if each.is_alive()] + [ending]
        ending.start()

    def _follow(self, since: EdgeState) -> None:
        with self._changed:
            if self._state is not since:
                return
            self._state = EdgeState.FOLLOWS
            self._changed.notify_all()
            self._not_before = time.monotonic() + AGAIN_SECONDS
            dirty, self._dirty = self._dirty, []
        for call, answered in dirty:
            self._ask_home(call, answered)


class _Node:
    """A node of the share here, with the session that asks it."""

    def __init__(
        self,
        join: Callable[[Gate], MemberHost],
        init: KernelRequest,
        distant: DistantKeeper,
        lost: Callable[[str], None],
    ) -> None:
        """Join. Raises what that does."""
        self.gate = Gate()
        host = join(self.gate)
        serve: Callable[..., ServedSession] = host.serve
        self._performer = Performer(serve)
        self.perform = self._performer.perform
        self.settler = Settler(self.gate, distant.tell_done, self.perform, lost)
        self._writes: dict[int, int] = {}  # the last handle of each file that writes
        self._lock = threading.Lock()
        self._rests: OrderedDict[int, tuple[float, KernelRequest]] = OrderedDict()
        self._timer: threading.Timer | None = None
        self.perform(init, lambda reply: None)

    def handle_of(self, request: KernelRequest) -> int | None:
        """Through which home gets what that wrote."""
        file, body = request.file, request.message[IN_HEADER.size :]
        if request.opcode == Opcode.WRITE:
            (self._writes[file],) = struct.unpack_from("<Q", body)
        elif request.opcode == Opcode.SETATTR:
            valid, _, handle = struct.unpack_from("<IIQ", body)
            if valid & _BY_HANDLE:
                self._writes[file] = handle
        elif request.opcode == Opcode.OPEN:
            self._writes[file] = file << 8 | os.O_RDWR
        return self._writes.get(file)

    def release(self, request: KernelRequest, *, rests: bool) -> None:
        """Of a handle. rests: for a while, where it writes: whoever writes the file next opens it
        without asking home."""
        (handle,) = struct.unpack_from("<Q", request.message, IN_HEADER.size)
        over = [request]
        if rests and request.opcode == Opcode.RELEASE and handle & os.O_ACCMODE != os.O_RDONLY:
            over = self._rest(request)
        for each in over:
            self.perform(each, lambda reply: None)

    def _rest(self, release: KernelRequest) -> list[KernelRequest]:
        """Later. Those that are not to rest any more."""
        with self._lock:
            _, before = self._rests.pop(release.file, (0.0, None))
            self._rests[release.file] = time.monotonic(), release
            over = [before] if before else []
            if len(self._rests) > REST_FILES:
                over.append(self._rests.popitem(last=False)[1][1])
            self._look_later()
        return over

    def open_ahead(self, session: bytes, *, reading_only: bool) -> None:
        """Open what that session has open, for a while."""
        try:
            files = files_of(session)
        except SatchelError as error:
            logger.warning("%s", error)
            return
        HandoffPrefetch(self.perform, self._opened_ahead).open(files, reading_only=reading_only)

    def _opened_ahead(self, file: int, flags: int) -> None:
        body = struct.pack("<QIIQ", file << 8 | flags, flags, 0, 0)
        for each in self._rest(asked(Opcode.RELEASE, file, body)):
            self.perform(each, lambda reply: None)

    def release_rested(self, least: float = 0.0) -> None:
        """Those that rest for so many seconds."""
        with self._lock:
            before = time.monotonic() - least
            over = [r for since, r in self._rests.values() if since <= before]
            for request in over:
                del self._rests[request.file]
        for request in over:
            self.perform(request, lambda reply: None)

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(REST_SECONDS, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        self.release_rested(REST_SECONDS)
        with self._lock:
            self._timer = None
            if self._rests:
                self._look_later()

    def give_up(self) -> None:
        """Nothing of it comes home any more."""
        self.gate.close()
        self.end()

    def end(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
            self._rests.clear()
        if timer:
            timer.cancel()
        self.settler.close()
        self._performer.close()


def _cuts(request: KernelRequest) -> bool:
    if request.opcode != Opcode.OPEN:
        return False
    (flags,) = struct.unpack_from("<I", request.message, IN_HEADER.size)
    return bool(flags & os.O_TRUNC)
