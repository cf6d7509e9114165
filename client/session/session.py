# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One service in use: every operation goes to every replica, the first response wins.

An operation is `fast`-acknowledged with its first response and `stable` once home has it on
disk. While the journal cannot be on the medium any more, an operation is acknowledged only when it
is stable, so that no acknowledged operation is ever in one place only.

A read may go to one replica only, as the policy says: see client.session.reads.

Home is believed. A surrogate's replica that answers otherwise than home is in quarantine: it
answers nothing from then on (verification). A stranger's answer is provisional until home has
confirmed it, and a limit applies to those (provisional). If home says that another client has taken
the service over, the session accepts nothing more: it could not be merged.

    program -- call --> Session -- assignments --> Feed -- operations --> replica
                           ^                        |
                           +-------- events --------+
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator

from client.platform.activity_gate import ActivityGate
from client.platform.limit import Limit
from client.platform.settings import HOME, Policy
from client.session.answers import Answer, PendingOperation, Tally
from client.session.assignments import Assignments
from client.session.comparison import Divergence
from client.session.feed import (
    FINAL,
    AnswerEvent,
    EarlyAnswerEvent,
    Endpoint,
    Event,
    EventQueue,
    Feed,
    FeedState,
    LongAnswerEvent,
    LossEvent,
    ReadsEvent,
    SampleEvent,
    SendEvent,
)
from client.session.journal import Encode, Journal
from client.session.long_answer import LongAnswer
from client.session.provisional import ProvisionalAnswers
from client.session.reads import SAMPLED, next_to_ask
from client.session.sampling import ReadSampler
from client.session.verification import Verification
from client.state.savings import HeadStart
from replay import AnswerPreview, Operation, Response
from satchel.errors import ConflictError, SatchelError, StateError, UnavailableError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

CONFIRM_POLL_SECONDS = 0.5
"""How often one whose answer is not believed looks whether home can still confirm it."""

DOWN_SECONDS = 5.0
"""How long home says that a service does not run until programs hear of it: it may be starting."""

LAUNCH = "satchel-home launch"
"""In the remedy of home's error, where a person must launch the service."""

SAMPLES_SECONDS = 2.0
"""How long home may take at the session's end to compare the last reads."""

END_SECONDS = 5.0
"""How long the end of a feed is waited for while an operation of its is under way."""


class NoResponse(UnavailableError):
    """No replica answered in time. An operation is logged and will be executed; a read is not."""


class NotStable(UnavailableError):
    """A replica answered, but home does not have the operation and the medium has failed."""


class Session:
    """See the module. Thread-safe; calls may be made at once and are executed in order."""

    def __init__(
        self,
        journal: Journal,
        *,
        stateful: bool,
        response_seconds: float,
        policy: Policy = "all",
        read_only: Callable[[Operation], bool] = lambda operation: False,
        on_quarantine: Callable[[Divergence], None] = lambda divergence: None,
        early: bool = False,
        limit: Limit | None = None,
        trusted: Collection[str] = (),
        sampled: int = SAMPLED,
    ) -> None:
        """read_only: which operations of a stateful service change nothing. on_quarantine: receives
        the answer that put a replica in quarantine, from a feed's thread and under the session's
        lock: it returns at once and calls nothing here. early: replicas say early what they are
        going to answer. limit: of what is believed without home; None: no limit. trusted: the
        surrogates to whom it does not apply. sampled: one read in so many is compared."""
        self.journal = journal
        self.stateful = stateful
        self.early = early
        self.tally = Tally()
        self.operations = ActivityGate()
        self.policy = policy
        self._read_only = read_only
        self._response_seconds = response_seconds
        self._order = threading.RLock()  # of the numbers; taken before all others
        self._lock = threading.RLock()  # guards all below; taken before the journal's
        self._changed = threading.Condition(self._lock)
        self._pending: dict[OperationNumber, PendingOperation] = {}
        self.provisional = ProvisionalAnswers(limit or Limit(), {HOME, *trusted})
        self.lead = HeadStart(response_seconds)
        self._verification = Verification(self.tally, self.lead, on_quarantine)
        self._sampling = ReadSampler(
            journal,
            self.provisional,
            self._verification,
            self.tally,
            stateful=stateful,
            sampled=sampled,
        )
        self.assignments = Assignments(journal, self._sampling, self.provisional, self._changed)
        self.events = EventQueue(self._lock, self._handle)
        self._long: dict[OperationNumber, LongAnswer] = {}
        self._count = 0  # of the calls of a stateless service
        self._feeds: dict[str, Feed] = {}
        self._refusal: SatchelError | None = None

    @property
    def refusal(self) -> SatchelError | None:
        """Why the session accepts no operations any more, or None."""
        return self._refusal

    @property
    def last(self) -> int:
        """The number of the last operation; of a stateless service, how many calls there were."""
        return self.journal.last if self.stateful else self._count

    def call(self, encode: Encode, on_early: Callable[[bytes], None] | None = None) -> Answer:
        """Execute one operation and return the first response. on_early: receives, from this
        thread, what a replica says that it is going to answer.

        Raises NoResponse, NotStable, NotConfirmed, what ended the session, and what the journal
        raises when the operation can be written nowhere.
        """
        if self._refusal:
            raise self._refusal
        with self._lock:
            if self.provisional.stuck(self._feeds.values()):
                raise self.provisional.refusal()
            if down := self._down():
                raise NoResponse("no replica can answer", why=down.what, fix=down.fix)
        began = time.monotonic()
        with self.operations.operation():
            read = self._as_read(encode)
            answer = self._read(read, began) if read else self._operate(encode, began, on_early)
        with self._changed:
            self.tally.answered += 1
            self.tally.answered_seconds += time.monotonic() - began
        return answer

    def _operate(
        self, encode: Encode, began: float, on_early: Callable[[bytes], None] | None
    ) -> Answer:
        pending = PendingOperation(threading.Condition(self._lock), began, on_early=on_early)

        def promise(operation: Operation) -> None:
            # Not under the lock: an operation that is being logged must not hold up the answers
            # to others. Nobody looks for the number before the journal shows it.
            pending.operation = operation
            self._pending[operation.number] = pending

        with self.alone():
            operation = self.journal.append(encode, promise)
        return self._await(pending, operation.number)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else's operations get numbers between those that this thread makes meanwhile.
        Raises NoResponse where somebody else has that for as long as a response may take."""
        if not self._order.acquire(timeout=self._response_seconds):
            raise NoResponse("cannot begin an operation", why="a long request is under way")
        try:
            yield
        finally:
            self._order.release()

    def _await(self, pending: PendingOperation, number: OperationNumber) -> Answer:
        try:
            while (early := self._next_early(pending, number)) is not None:
                assert pending.on_early
                pending.on_early(early)
        finally:
            with self._lock:
                del self._pending[number]  # no call waits for it any more
        with self._lock:
            if pending.answer is None or not self._acknowledged(pending, number):
                raise self._refusal or self._unanswered(pending)
            stable = self.journal.stable >= number
            return dataclasses.replace(pending.answer, stable=stable)

    def _next_early(self, pending: PendingOperation, number: OperationNumber) -> bytes | None:
        """Wait for the next early answer. None: there is an acknowledged answer, or no hope of
        one."""
        deadline = pending.began + self._response_seconds
        with self._lock:
            while not self._acknowledged(pending, number) and not self._refusal:
                if pending.early:
                    return pending.early.popleft()
                left = deadline - time.monotonic()
                if left <= 0 or self._given_up(pending):
                    break
                pending.told.wait(min(left, CONFIRM_POLL_SECONDS))
            return None

    def add(self, endpoint: Endpoint, cursor: OperationNumber | None) -> Feed:
        """Let a replica take part, from the operation after `cursor` on; None: ask it where it
        is. A replica of that name that takes part already is dropped."""
        self.drop(endpoint.name)
        feed = Feed(endpoint, cursor, self.assignments, self.events)
        with self._changed:
            self._feeds[endpoint.name] = feed
            self._changed.notify_all()
        feed.start()
        return feed

    def drop(self, name: str, timeout: float = END_SECONDS) -> None:
        """Let a replica take part no more. Returns when its feed has ended or is hopeless."""
        with self._changed:
            feed = self._feeds.pop(name, None)
        if feed:
            feed.end()
            self.journal.wake()
            feed.join(timeout)
            with self._changed:  # what it was asked is asked of the next one
                self._changed.notify_all()

    def feed(self, name: str) -> Feed | None:
        """The feed of that replica, if it takes part."""
        with self._changed:
            return self._feeds.get(name)

    def feeds(self) -> list[Feed]:
        with self._changed:
            return list(self._feeds.values())

    def refuse(self, error: SatchelError) -> None:
        """Accept nothing more and end the calls that wait, all with `error`."""
        with self._changed:
            self._refusal = self._refusal or error
            for long in self._long.values():
                long.fail(error)
            for pending in list(self._pending.values()):
                pending.told.notify()
            self._changed.notify_all()

    def close(self) -> None:
        """End every feed and every call. Feeds whose operation is under way end with their link.
        Home compares the last reads before, if it answers soon."""
        with self._changed:
            self._sampling.flush()
            if (home := self._feeds.get(HOME)) and home.answers:
                self._changed.wait_for(lambda: self._sampling.over, SAMPLES_SECONDS)
        self.refuse(StateError("the session has ended", fix="start it again with `satchel run`"))
        feeds = self.feeds()
        for feed in feeds:
            feed.end()
        self.journal.wake()
        for feed in feeds:
            self.drop(feed.name, timeout=0.2)
        self.journal.close()

    def confirmed(self, answer: Answer, timeout: float) -> bool:
        """Whether home, or a trusted surrogate, has answered the same; wait up to `timeout` seconds
        for it. With a timeout home compares a read even if it is not a sample."""
        read, feed = answer.read, answer.feed
        if feed is None or self.provisional.trusts(feed.name):
            return True

        def heard() -> bool:
            if read is None:
                return not self.provisional.has(answer.number)
            return read.heard_home

        with self._changed:
            if read is not None and timeout:
                self._sampling.want(read)
            self._changed.wait_for(lambda: heard() or self._refusal, timeout)
            return heard() and feed.state is not FeedState.QUARANTINED

    def wait_stable(self, timeout: float) -> bool:
        """Whether home has everything on disk, waiting up to `timeout` seconds for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self.journal.stable >= self.journal.last, timeout)

    def acknowledge(self, number: OperationNumber) -> None:
        """Note that home has every operation up to that one on disk."""
        self.journal.acknowledge(number)
        with self._changed:
            for pending in list(self._pending.values()):
                if pending.answer is not None:
                    pending.told.notify()
            self._changed.notify_all()

    def _handle(self, event: Event) -> None:
        """Take an event of a feed; with the lock."""
        match event:
            case SendEvent():
                self.tally.sent_bytes += event.size
                self.tally.sent_bytes_if_all += 0 if event.apart else event.size
                return  # no call waits for this
            case AnswerEvent():
                self._take(event.feed, event.response)
            case EarlyAnswerEvent():
                self._take_early(event.feed, event.early)
            case LongAnswerEvent():
                event.answer.set_result(self._begin_long(event.feed, event.number))
            case ReadsEvent():
                self._take_reads(event)
            case SampleEvent():
                self._sampling.compared(event.feed, event.read, event.digest)
                self._confirmed(event.read)
            case LossEvent():
                logger.warning("replica at %s is lost: %s", event.feed.name, event.error)
                if event.feed.name == HOME and isinstance(event.error, ConflictError):
                    self.refuse(event.error)  # another client has the service now
        self._changed.notify_all()

    def _take(self, feed: Feed, response: Response) -> None:
        """The first response to an operation is its answer."""
        if feed.state not in FINAL:
            self._verification.check(feed, response)
        if feed.state not in FINAL:
            self._answer(feed, response)
            if long := self._long.get(response.number):
                long.finish(feed, response)
        if feed.name == HOME:
            self.lead.home(response.number)
            self._confirmed(response.number)

    def _take_early(self, feed: Feed, early: AnswerPreview) -> None:
        """Pass it on, unless the operation could not be acknowledged with its response."""
        pending = self._pending.get(early.number)
        if pending is None or pending.on_early is None or pending.answer or self.journal.beside:
            return
        if not self.provisional.takes(feed):
            return
        if pending.said_early is None or pending.said_early.state in FINAL:
            pending.said_early = feed
        if pending.said_early is feed:
            pending.early.append(early.payload)
            pending.told.notify()

    def _begin_long(self, feed: Feed, number: OperationNumber) -> LongAnswer | None:
        """The first replica whose long answer begins gives it, and another one when that ends."""
        pending = self._pending.get(number)
        if pending and pending.answer is None and self.provisional.takes(feed):
            self._long = {n: a for n, a in self._long.items() if not a.over}
            long = self._long[number] = LongAnswer(number, self._response_seconds)
            answer = Answer(number, b"", feed.name, 0.0, stable=False, feed=feed, long=long)
            self._believe(pending, feed, answer)
        return self._long.get(number)

    def _take_reads(self, event: ReadsEvent) -> None:
        feed = event.feed
        if feed.name == HOME:  # which may have the next read at once, and then wants nothing
            self.provisional.heard(time.monotonic())
        for read, response in zip(event.reads, event.responses, strict=True):
            if feed.state in FINAL:
                break
            if feed.name == HOME:
                self._confirmed(read)
            self._sampling.take(feed, read, response)

    def _confirmed(self, key: Hashable) -> None:
        """Home has answered that: there may be room for what is held."""
        self.provisional.confirm(key)
        for _, pending in sorted(self._pending.items()):
            held = pending.held
            if held and not pending.answer and self.provisional.takes(held[0]):
                self._believe(pending, *held)

    def _given_up(self, pending: PendingOperation) -> bool:
        if pending.answer is not None:
            return False
        stuck = pending.held is not None and self.provisional.stuck(self._feeds.values())
        return stuck or self._down() is not None

    def _down(self) -> SatchelError | None:
        """Return home's reason if a person must launch the service there and no other replica takes
        part."""
        home = self._feeds.get(HOME)
        others = any(feed is not home and feed.state not in FINAL for feed in self._feeds.values())
        if home is None or others or home.silent_seconds < DOWN_SECONDS:
            return None
        return home.error if home.error and LAUNCH in home.error.fix else None

    def _as_read(self, encode: Encode) -> Operation | None:
        """The operation, if it is none that is numbered and logged."""
        if not self.stateful:
            with self._changed:
                self._count += 1
                number = OperationNumber(self._count)
            return self.journal.draft(encode, number)
        if self.policy == "all":
            return None
        draft = self.journal.draft(encode)
        return draft if self._read_only(draft) else None

    def _read(self, operation: Operation, began: float) -> Answer:
        deadline = began + self._response_seconds
        with self._changed:
            read = self._sampling.begin(operation, self._feeds.get(HOME))
            try:
                while read.response is None and not self._refusal:
                    now = time.monotonic()
                    if self.provisional.stuck(self._feeds.values()):
                        raise self.provisional.refusal()
                    feeds = [f for f in self._feeds.values() if self.provisional.takes(f)]
                    ask, pause = next_to_ask(read, feeds, self.policy, now)
                    for feed in ask:
                        read.asked.append(feed)
                        read.asked_at = now
                        feed.called.set()
                    if ask:
                        self.journal.wake()
                    elif now >= deadline or self._down():
                        break
                    else:
                        self._changed.wait(min(pause, deadline - now))
            finally:
                self._sampling.forget(read)
            live = sum(feed.state not in FINAL for feed in self._feeds.values())
            self.tally.sent_bytes_if_all += live * operation.record_size
            if read.response is None:
                raise self._refusal or self._unread(operation)
            number = OperationNumber(operation.number - 1) if self.stateful else operation.number
            payload = read.response.payload
            read.release()
            return Answer(
                number=number,
                payload=payload,
                leader=read.leader.name if read.leader else "",
                seconds=time.monotonic() - began,
                stable=not self.stateful or self.journal.stable >= number,
                feed=read.leader,
                read=read,
            )

    def _answer(self, feed: Feed, response: Response) -> None:
        pending = self._pending.get(response.number)
        if pending is None or pending.answer is not None or response.long:
            return
        answer = Answer(
            number=response.number,
            payload=response.payload,
            leader=feed.name,
            seconds=time.monotonic() - pending.began,
            stable=False,
            feed=feed,
        )
        if self.provisional.takes(feed):
            self._believe(pending, feed, answer)
        else:
            pending.held = pending.held or (feed, answer)
            pending.told.notify()

    def _believe(self, pending: PendingOperation, feed: Feed, answer: Answer) -> None:
        self.tally.first_responses[feed.name] += 1
        seconds = time.monotonic() - pending.began
        pending.answer = dataclasses.replace(answer, seconds=seconds)
        self.lead.first(answer.number, feed.name)
        if not self.provisional.trusts(feed.name):
            self.provisional.believe(answer.number, compared=True)
        pending.told.notify()

    def _acknowledged(self, pending: PendingOperation, number: OperationNumber) -> bool:
        if pending.answer is None:
            return False
        return not self.journal.beside or self.journal.stable >= number

    def _unread(self, operation: Operation) -> UnavailableError:
        seconds = f"{self._response_seconds:.0f} s"
        return NoResponse(
            f"a read before operation {operation.number} got no response in {seconds}"
            if self.stateful
            else f"call {operation.number} got no response in {seconds}",
            why=self._why(),
            fix="it changes nothing: ask again",
        )

    def _why(self) -> str:
        """Why nobody answers."""
        replicas = [f"{f.name} {f.state.value}" for f in self._feeds.values()]
        faults = [f"{f.name}: {f.error}" for f in self._feeds.values() if f.error]
        return "; ".join([f"replicas: {', '.join(replicas) or 'none'}", *faults])

    def _unanswered(self, pending: PendingOperation) -> UnavailableError:
        assert pending.operation is not None
        why = self._why()
        number, seconds = pending.operation.number, f"{self._response_seconds:.0f} s"
        if pending.answer is None and pending.held:
            return self.provisional.refusal(number)
        if pending.answer is None and (down := self._down()):
            return NoResponse(
                f"operation {number} got no response",
                why=down.what,
                fix=f"{down.fix} at home; it is logged and executed then: do not send it again",
            )
        if pending.answer is None:
            return NoResponse(
                f"operation {number} got no response in {seconds}",
                why=why,
                fix="it is logged and is executed when a replica returns: do not send it again",
            )
        return NotStable(
            f"operation {number} was executed, but home did not get it in {seconds}",
            why=f"the medium has failed ({self.journal.failure}); {why}",
            fix="it is logged on this device and sent when home returns: do not send it again",
        )
