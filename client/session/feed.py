# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One replica's cursor into the journal: catching up and keeping up are the same loop.

    CATCHING UP --little is left--> JOINED
         ^                            |
         |        no answer           v
         +------- an answer ------ SILENT --patience is over, or an answer that ends it--> LOST
    any --an answer that differs from home's--> QUARANTINED
    any --end--> ENDED

A replica that does not answer is asked again for what it was asked before: it executes nothing
twice. One that says that the operations do not follow its last one is asked where it is.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from client.session.pace import BATCH, CatchUp, Pace, Portion
from replay import (
    Answered,
    AnswerPreview,
    LongAnswerStart,
    Operation,
    ReadDigest,
    Response,
    Samples,
)
from satchel.aligned_timers import TICK_SECONDS, next_tick
from satchel.errors import (
    CapacityError,
    IntegrityError,
    SatchelError,
    StateError,
    UnavailableError,
)
from satchel.ids import OperationNumber
from satchel.polling import POLL_SECONDS

if TYPE_CHECKING:
    from client.session.reads import PendingRead

logger = logging.getLogger(__name__)

FAR = 4 * BATCH
"""Operations by which a replica is so far behind that others answer before it."""

BACKOFF_SECONDS = (0.1, 0.3, 1.0, 2.0)
"""Between attempts to reach a replica that does not answer; the last one repeats."""

PASSING = (UnavailableError, StateError, CapacityError)
"""What a replica may get over: one whose disk is full, too, as soon as there is room."""

REST_SECONDS = 2.0
"""How long it is waited until a feed has noticed that it is to rest."""

HEARTBEAT_SECONDS = 15.0
"""After so long without an operation, or a tick less, a replica is asked where it is: it hears that
we are there, and we hear when it is not."""

SHORTEST_SECONDS = 0.01


class Endpoint(Protocol):
    """A replica as a feed sees it. Used by one thread."""

    name: str

    @property
    def patience(self) -> float:
        """Seconds without an answer after which the replica counts as lost."""

    def execute(
        self, operations: Sequence[Operation]
    ) -> Iterable[Response | AnswerPreview | LongAnswerStart]:
        """Execute in order, at most once by number; each response as soon as it is there, before
        it early answers where the service makes any, and that a long one has begun. Those
        that are no longer known are left out, all of them or the first. Where something is wrong
        they end, and whoever asks for the next is told. Raises UnavailableError, StateError when
        the operations do not follow its last."""

    def compare(self, samples: Samples, operations: Sequence[Operation]) -> Iterable[Answered]:
        """Home: as `execute`, and execute each sample at its state. A digest for each comes
        last."""

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        """Of a long answer; see long_answer. Other threads' calls may be under way."""

    def forget(self, number: OperationNumber) -> None:
        """Likewise: have the rest of it said to nobody."""

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute what changes nothing and does not count; a response for each, in order. Raises
        as `execute`."""

    def position(self) -> OperationNumber:
        """The last operation that the replica has. Tells it that the client is there."""


class Work(Protocol):
    """What replicas are to do; used from feeds' threads."""

    def operations(self, feed: Feed, limit: int) -> list[Operation]:
        """Return what to send next; wait a little and return nothing if there is nothing. Raise
        JournalGap if the replica needs operations that the journal does not have."""

    def reads(self, feed: Feed, limit: int) -> Sequence[PendingRead]:
        """Return what this replica is to read now. While an answer is wanted, a second call returns
        the same read."""

    def samples(self, feed: Feed, operations: Sequence[Operation]) -> Sequence[PendingRead]:
        """Return the reads that home compares, for home with the next operations. A second call
        returns those that home has not answered."""


class Serving(Protocol):
    """A long answer that feeds serve."""

    def serve(self, feed: Feed, source: Endpoint) -> None:
        """Return when the replica is not needed or has no more. Raise what `source` raises."""


@dataclass(frozen=True)
class SendEvent:
    """The feed sends so many bytes to its replica. apart: for reads."""

    feed: Feed
    size: int
    apart: bool


@dataclass(frozen=True)
class AnswerEvent:
    """The replica has answered an operation."""

    feed: Feed
    response: Response


@dataclass(frozen=True)
class EarlyAnswerEvent:
    """The replica says what it is going to answer."""

    feed: Feed
    early: AnswerPreview


@dataclass(frozen=True)
class LongAnswerEvent:
    """A long answer has begun. answer: set by the handler: the answer that the feed serves,
    or None if no program waits for it."""

    feed: Feed
    number: OperationNumber
    answer: Future[Serving | None] = field(default_factory=Future)


@dataclass(frozen=True)
class ReadsEvent:
    """The replica has answered these reads, in this order."""

    feed: Feed
    reads: Sequence[PendingRead]
    responses: Sequence[Response]


@dataclass(frozen=True)
class SampleEvent:
    """Home has compared a read. digest: of its answer; empty if home does not know it."""

    feed: Feed
    read: PendingRead
    digest: bytes


@dataclass(frozen=True)
class LossEvent:
    """The replica is lost. The last event of its feed."""

    feed: Feed
    error: SatchelError


Event = (
    SendEvent
    | AnswerEvent
    | EarlyAnswerEvent
    | LongAnswerEvent
    | ReadsEvent
    | SampleEvent
    | LossEvent
)


class EventQueue:
    """The events of all feeds of one session, handled one at a time and in order. Thread-safe.

    The queue has no thread. `put` returns when the event has been handled, by this thread or by
    one that was handling others. So a feed whose replica is quarantined for its answer sends
    nothing more, and no answer waits for another thread to be scheduled.
    """

    def __init__(self, lock: threading.RLock, handle: Callable[[Event], None]) -> None:
        """lock: held while an event is handled. handle: if it fails, the event's feed is lost."""
        self._lock = lock
        self._handle = handle
        self._events: deque[Event] = deque()
        self._handling = False

    def put(self, event: Event) -> None:
        """Return when the event has been handled. An event put while one is handled, by the same
        thread, is handled next."""
        self._events.append(event)
        with self._lock:
            if self._handling:
                return
            self._handling = True
            try:
                while self._events:
                    self._handle_one(self._events.popleft())
            finally:
                self._handling = False

    def _handle_one(self, event: Event) -> None:
        try:
            self._handle(event)
        except Exception as error:
            logger.exception("%s", event.feed.name)
            what = f"{event.feed.name} failed here"
            event.feed.give_up(SatchelError(what, why=repr(error)))


class FeedState(enum.Enum):
    CATCHING_UP = "catching up"
    JOINED = "joined"
    SILENT = "silent"
    LOST = "lost"
    QUARANTINED = "quarantined"
    ENDED = "ended"


FINAL = (FeedState.LOST, FeedState.QUARANTINED, FeedState.ENDED)


class Feed:
    """A thread that keeps one replica at the journal's end.

    cursor: the last operation whose response was heard, or that the replica said it has.
    error: the last fault, None while it answers.
    pace: how long single operations took of late; catch_up: those until it joined.
    first_read: the seconds that the first read here took, once there was one.
    called: set when there is something else to do than to wait for operations.
    aim: the journal's end when it was last asked what to send; None before that.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        cursor: OperationNumber | None,
        work: Work,
        events: EventQueue,
    ) -> None:
        """cursor: None if only the replica can say. events: get all that the feed sees."""
        self.endpoint = endpoint
        self.cursor = cursor or OperationNumber(0)
        self.joined = threading.Event()
        self.pace = Pace()
        self.catch_up = CatchUp()
        self.first_read: Future[float] = Future()
        self.aim: OperationNumber | None = None
        self._portion = Portion()
        self.error: SatchelError | None = None
        self._placed = cursor is not None
        self._sent = OperationNumber(0)
        self._heard = time.monotonic()
        self._reads_since: float | None = None
        self._silent_since: float | None = None
        self._attempts = 0
        self._work = work
        self._events = events
        self._changing = threading.Lock()
        self._state = FeedState.CATCHING_UP
        self._ending = threading.Event()
        self._wake: Callable[[], None] | None = None
        self._asleep = threading.Event()
        self.called = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{endpoint.name}", daemon=True)

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def state(self) -> FeedState:
        return self._state

    @property
    def heard_at(self) -> float:
        """When the replica last answered anything (monotonic); before that, when the feed began."""
        return self._heard

    @property
    def answers(self) -> bool:
        """Whether the replica is there, as far as is known."""
        return self._state in (FeedState.CATCHING_UP, FeedState.JOINED)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the first of the faults that followed the last answer; 0 without one."""
        since = self._silent_since
        return time.monotonic() - since if since is not None else 0.0

    @property
    def distance(self) -> float:
        """Seconds that an operation takes here: those of late, and no less than what a read that
        is under way has taken already. 0 while nothing is known."""
        began, usual = self._reads_since, self.pace.median() or 0.0
        return usual if began is None else max(usual, time.monotonic() - began)

    @property
    def certain(self) -> bool:
        """Whether the replica has executed nothing after the cursor."""
        return self._sent <= self.cursor

    @property
    def resting(self) -> bool:
        """Whether nothing is said to the replica until there is something to do."""
        return self._wake is not None

    def rest(self, wake: Callable[[], None]) -> bool:
        """Say nothing until there is something to do. Whether it says nothing any more; it does
        where it is not told so in REST_SECONDS, and then it goes on.

        wake: is called before it says something again, on its thread; may raise SatchelError
        """
        self._asleep.clear()
        self._wake = wake
        self.called.set()
        if self._asleep.wait(REST_SECONDS):
            return self.resting
        self._wake = None
        return False

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Send nothing more. Returns at once; the operation under way may still be answered."""
        self._ending.set()
        self.called.set()

    def give_up(self, error: SatchelError) -> None:
        """The replica is lost: send nothing more. Any thread, the feed's own as well."""
        self.error = error
        if self._change(FeedState.LOST):
            self.end()
            self._events.put(LossEvent(self, error))

    def quarantine(self, error: SatchelError) -> bool:
        """What the replica answers is not believed any more: send nothing more, hear nothing. Any
        thread; whether it had not ended before."""
        if not self._change(FeedState.QUARANTINED):
            return False
        self.error = error
        self.end()
        return True

    def join(self, timeout: float) -> bool:
        """Whether its thread has ended, waiting up to `timeout` seconds for that."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def reached_end(self) -> None:
        """The replica has executed almost everything that there is; it keeps up from here on."""
        if self._state is FeedState.CATCHING_UP and self._change(FeedState.JOINED):
            self.joined.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._step()
            except SatchelError as error:
                if self._ending.is_set():
                    break  # what it was asked before it was ended is wanted no more
                self._placed = self._placed and not isinstance(error, StateError)
                if not (isinstance(error, PASSING) and self._bear(error)):
                    return self.give_up(error)
            except Exception as error:
                logger.exception("%s", self.name)
                return self.give_up(SatchelError(f"{self.name} failed here", why=repr(error)))
        self._change(FeedState.ENDED)
        return None

    def _step(self) -> None:
        """Read or send what there is, or wait a little for something. Operations that were sent
        before and not answered are sent again: only so their responses are heard."""
        if self._wake is not None and self._nothing_to_do():
            return
        if not self._placed:
            self.cursor = self.endpoint.position()
            self._placed = True
        elif self._state is FeedState.SILENT or time.monotonic() >= self._heartbeat_due:
            self.endpoint.position()
            self._heard = time.monotonic()
        if not self._read():
            operations = self._work.operations(self, self._at_once())
            if self._ending.is_set():
                return
            samples = self._work.samples(self, operations)
            if not operations and not samples:
                self._answered()
                return
            self._send(operations, samples)
        self._heard = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds until there may be something to do of which nobody tells."""
        if self.resting:
            return POLL_SECONDS
        left = self._heartbeat_due - time.monotonic()
        return min(POLL_SECONDS, max(left, SHORTEST_SECONDS))

    @property
    def _heartbeat_due(self) -> float:
        """At the last tick before it is so long ago that anything was heard."""
        tick = min(TICK_SECONDS, HEARTBEAT_SECONDS)
        return next_tick(tick, self._heard + HEARTBEAT_SECONDS - tick)

    def _nothing_to_do(self) -> bool:
        """While it rests: whether that goes on. Else the replica is asked anew where it is."""
        self._asleep.set()
        work = self._work
        if not (work.operations(self, 1) or work.reads(self, 1) or work.samples(self, [])):
            return True
        wake, self._wake = self._wake, None
        self._placed = False
        if wake is not None:
            wake()
        return False

    def _send(self, operations: Sequence[Operation], samples: Sequence[PendingRead]) -> None:
        size = sum(operation.record_size for operation in operations)
        if size:
            self._events.put(SendEvent(self, size, apart=False))
        if samples:
            self._events.put(SendEvent(self, sum(read.room for read in samples), apart=True))
        began = time.monotonic()
        self._hear(operations, samples)
        seconds = time.monotonic() - began
        if samples:
            return
        self._portion.note(len(operations), seconds)
        if len(operations) == 1:
            self.pace.note(seconds)

    def _hear(self, operations: Sequence[Operation], samples: Sequence[PendingRead]) -> None:
        """Take each response as it comes. Whatever has none when they end is sent again, unless
        there was none at all: then they were executed long ago."""
        last, heard = operations[-1].number if operations else self.cursor, False
        self._sent = max(self._sent, last)
        for response in self._answers(operations, samples):
            if not self.cursor < response.number <= last:
                what = f"{self.name} answers operation {response.number}"
                raise IntegrityError(what, why=f"{self.cursor + 1} to {last} were asked for")
            self._answered()
            if isinstance(response, AnswerPreview):
                self._events.put(EarlyAnswerEvent(self, response))
                continue
            if isinstance(response, LongAnswerStart) or response.long:
                self._serve_long(response.number)
            if isinstance(response, LongAnswerStart):
                continue
            self.cursor, heard = response.number, True
            if not self.joined.is_set():
                self.catch_up.note(self.cursor)
            self._events.put(AnswerEvent(self, response))
        if not heard:
            self.cursor = last
            self._answered()

    def _answers(
        self, operations: Sequence[Operation], samples: Sequence[PendingRead]
    ) -> Iterator[Response | AnswerPreview | LongAnswerStart]:
        """Yield the answers to the operations, and tell of the digests of samples. A sample without
        one is unknown."""
        if not samples:
            yield from self.endpoint.execute(operations)
            return
        left = deque(samples)
        room = sum(read.room - read.operation.record_size for read in samples)
        batch = Samples(tuple(read.sample for read in samples), room)
        for answer in self.endpoint.compare(batch, operations):
            if not isinstance(answer, ReadDigest):
                yield answer
            elif left:
                self._events.put(SampleEvent(self, left.popleft(), answer.digest))
        for read in left:
            self._events.put(SampleEvent(self, read, b""))

    def _serve_long(self, number: OperationNumber) -> None:
        """A long answer has begun: return when it need not be had from this replica."""
        begun = LongAnswerEvent(self, number)
        self._events.put(begun)
        answer = begun.answer.result(timeout=0)  # it has been handled
        if answer is None:
            self.endpoint.forget(number)
        else:
            answer.serve(self, self.endpoint)

    def _at_once(self) -> int:
        """How many operations are sent at once: few, where a read may have to wait for them."""
        lags = self.aim is not None and self.aim - self.cursor > FAR
        few = self.first_read.done() and self._state is FeedState.JOINED and not lags
        return self._portion.size if few else BATCH

    def _read(self) -> bool:
        """Read what there is to read now; whether there was anything."""
        reads = self._work.reads(self, BATCH)
        if not reads or self._ending.is_set():
            return False
        operations = [read.operation for read in reads]
        size = sum(operation.record_size for operation in operations)
        self._events.put(SendEvent(self, size, apart=True))
        self._reads_since = began = time.monotonic()
        try:
            responses = self.endpoint.read(operations)
        finally:
            self._reads_since = None
        seconds = time.monotonic() - began
        if len(operations) == 1:
            self.pace.note(seconds)
        if len(responses) != len(operations):
            raise IntegrityError(f"{self.name} answers {len(responses)} of {len(operations)} reads")
        self._answered()
        self._events.put(ReadsEvent(self, reads, responses))
        if not self.first_read.done():
            self.first_read.set_result(seconds)
        return True

    def _answered(self) -> None:
        if self._state in FINAL:
            return  # its error is why
        self.error = None
        self._silent_since, self._attempts = None, 0
        if self._state is FeedState.SILENT:
            self._change(FeedState.CATCHING_UP)

    def _bear(self, error: SatchelError) -> bool:
        """Wait until the next attempt; False when patience is over."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since > self.endpoint.patience:
            return False
        if str(self.error) != str(error):
            logger.warning("%s: %s", self.name, error)
        self.error = error
        self._change(FeedState.SILENT)
        self._ending.wait(BACKOFF_SECONDS[min(self._attempts, len(BACKOFF_SECONDS) - 1)])
        self._attempts += 1
        return True

    def _change(self, state: FeedState) -> bool:
        """The one place where the state changes; False from a final one."""
        with self._changing:
            if self._state in FINAL:
                return False
            if state is not self._state:
                logger.info("%s: %s", self.name, state.value)
                self._state = state
            return True
