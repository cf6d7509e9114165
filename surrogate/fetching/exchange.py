# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The one place of a host where chunks are asked for: a schedule with threads, sources and a store.

Everything that is wanted here by anybody is in one schedule, so that two readers of one chunk, of
two volumes or of two replicas, cost one request. A replica's wants go only to its own sources and
to those of the host; where two replicas want the same chunk, it may come through either.

An answer is admitted to the store, which verifies every record, before anything counts as arrived.
No thread keeps time: those who wait for something look after what is overdue.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from chunkstore import ChunkInvalid, PageRange, Store, split_refs
from satchel.errors import CapacityError, IntegrityError, SatchelError
from satchel.ids import ChunkRef
from surrogate.fetching.crew import Crew
from surrogate.fetching.schedule import Schedule
from surrogate.fetching.source import Source
from surrogate.fetching.source_state import Dispatch, Key, SourceState
from surrogate.fetching.tally import FetchTally
from wire import Priority

logger = logging.getLogger(__name__)

MISTRUST_SECONDS = 3600.0
"""How long a source that lies is left alone."""

INVALID_LIMIT = 64
"""Chunks that were not what their names say, before a source counts as lying."""

USUAL_NAMES = ("media", "home")
OTHER_NAME = "other"

LONGEST_PAUSE_SECONDS = 0.1
SHORTEST_PAUSE_SECONDS = 0.002


class Supplier:
    """A source that takes part in an exchange. shared: it serves every replica of the host."""

    def __init__(self, source: Source, *, shared: bool = False) -> None:
        self.source = source
        self.shared = shared
        self.standing = SourceState(source.name, source.prior)
        self.invalid = 0


class UnrequestedData(IntegrityError):
    """A source sent a reply that does not match the request."""


@dataclass(frozen=True)
class _Flight:
    """A request under way: who is asked, in whose name."""

    dispatch: Dispatch
    supplier: Supplier
    tally: FetchTally

    @property
    def label(self) -> str:
        """What the source is called where numbers of many replicas are put together."""
        name = self.supplier.source.name
        return name if self.supplier.shared or name in USUAL_NAMES else OTHER_NAME


class Ticket:
    """Somebody's wait for some wants. Made and changed by the exchange, under its lock.

    missing: what has not come; came: how many of them came, by source
    """

    def __init__(self, keys: Collection[Key], tally: FetchTally) -> None:
        self.missing = set(keys)
        self.tally = tally
        self.came: Counter[str] = Counter()
        self.error: Exception | None = None
        self.moved_at = time.monotonic()
        self.changed = threading.Event()

    @property
    def done(self) -> bool:
        return not self.missing or self.error is not None


class Exchange:
    """See the module. Thread-safe; one for a store.

    tally: the numbers of all who fetch here together
    """

    def __init__(self, store: Store, make_room: Callable[[], bool] = lambda: False) -> None:
        """make_room: has the store give something up when its disk is full; whether it could."""
        self._store = store
        self._make_room = make_room
        self._lock = threading.Lock()
        self._schedule = Schedule()
        self._tickets: dict[Key, list[Ticket]] = {}
        self._suppliers: dict[SourceState, Supplier] = {}
        self._crew = Crew("fetch")
        self.tally = FetchTally()

    def close(self) -> None:
        """Let its threads end. Whoever waits has been let go before."""
        self._crew.close()

    def join(self, supplier: Supplier) -> None:
        """Have a source take part."""
        with self._lock:
            self._suppliers[supplier.standing] = supplier

    def part(self, supplier: Supplier) -> None:
        """Ask a source no more; what is under way there is asked for elsewhere."""
        with self._lock:
            if self._suppliers.pop(supplier.standing, None):
                self._schedule.part(supplier.standing)
        self.look()

    def shared(self) -> list[Supplier]:
        """The sources that serve every replica, in the order in which they joined."""
        with self._lock:
            return [supplier for supplier in self._suppliers.values() if supplier.shared]

    def want(
        self,
        sizes: Mapping[Key, int],
        priority: Priority,
        suppliers: Sequence[Supplier],
        tally: FetchTally,
    ) -> Ticket:
        """Begin to fetch; sizes: what is wanted, with the bytes that an answer will have, about."""
        ticket = Ticket(sizes, tally)
        with self._lock:
            standings = [s.standing for s in suppliers if s.standing in self._suppliers]
            for key, size in sizes.items():
                self._schedule.want(key, size, priority, standings)
                self._tickets.setdefault(key, []).append(ticket)
            # What arrived after the caller had looked for it would be fetched once more.
            refs = [key for key in sizes if not isinstance(key, PageRange)]
            held = self._store.has(b"".join(refs))
            self._arrived([ref for ref, here in zip(refs, held, strict=True) if here])
        return ticket

    def drop(self, ticket: Ticket, error: Exception | None = None) -> None:
        """Nobody waits with that ticket any more; whoever does gets `error`."""
        with self._lock:
            self._fail(ticket, error)

    def wait(self, ticket: Ticket, timeout: float) -> bool:
        """Whether all of a ticket has come; False when nothing of it has for `timeout` seconds.
        Raises its error."""
        while not ticket.done:
            pause = self.look()
            if time.monotonic() > ticket.moved_at + timeout:
                break
            ticket.changed.wait(pause)
        if ticket.error:
            raise ticket.error
        return not ticket.missing

    def look(self) -> float:
        """Send what is to be sent now; seconds until it should be looked again."""
        renewed = self._renewed()
        now = time.monotonic()
        with self._lock:
            for standing in renewed:
                self._schedule.renewed(standing, now)
            flights = [
                _Flight(dispatch, self._suppliers[dispatch.standing], self._owner(dispatch))
                for dispatch in self._schedule.take(now)
            ]
            pause = self._schedule.wake_at(now) - now
        for flight in flights:
            self._crew.run(functools.partial(self._fly, flight))
        return min(max(pause, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)

    def _renewed(self) -> list[SourceState]:
        """The sources that are reached by another way now; what a liar did stays its fault."""
        with self._lock:
            suppliers = list(self._suppliers.values())
        return [
            each.standing
            for each in suppliers
            if each.source.renewed() and each.invalid <= INVALID_LIMIT
        ]

    def _fly(self, flight: _Flight) -> None:
        """One request, in a thread of its own."""
        try:
            records = self._ask(flight)
            if records is not None:
                self._take_in(flight, records, time.monotonic())
        except Exception as error:
            # Of the store, a full disk, or a defect of ours: no fault of the source.
            if not isinstance(error, SatchelError):
                logger.exception("source %s", flight.supplier.source.name)
            with self._lock:
                self._schedule.answered(flight.dispatch, 0, set(), time.monotonic(), set())
                self._fail_all(flight.dispatch, error)
        self.look()

    def _ask(self, flight: _Flight) -> bytes | None:
        """The answer; None where there was none, which is seen to."""
        dispatch, source = flight.dispatch, flight.supplier.source
        keys, silence = dispatch.keys, dispatch.standing.silence
        try:
            if isinstance(keys[0], PageRange):
                places = cast(list[PageRange], keys)  # a request has keys of one kind
                return source.below(places, dispatch.priority, silence)
            refs = b"".join(cast(list[ChunkRef], keys))
            return source.fetch(refs, dispatch.priority, silence)
        except SatchelError as error:
            self._note_fault(flight, error)
            with self._lock:
                self._schedule.failed(dispatch, time.monotonic())
            return None

    def _take_in(self, flight: _Flight, records: bytes, now: float) -> None:
        """Admit an answer; what is in it has arrived, the rest is asked for elsewhere."""
        dispatch, size = flight.dispatch, len(records)
        try:
            admitted = set(split_refs(self._admit(records)))
        except ChunkInvalid as error:
            self._take_in_invalid(flight, error, size, now)
            return
        got: set[Key] = {key for key in dispatch.keys if _chunk_of(key) in admitted}
        odd = len(admitted) > sum(map(_most_chunks, dispatch.keys)) or (admitted and not got)
        self._count(flight, size, len(admitted), now)
        with self._lock:
            self._schedule.answered(dispatch, size, got, now)
            self._arrived(got, flight.supplier.source.name)
            if odd:
                self._schedule.leave_alone(dispatch.standing, now)
        if odd:
            self._note_fault(
                flight, UnrequestedData("a source sent chunks that nobody asked it for")
            )

    def _admit(self, records: bytes) -> bytes:
        try:
            return self._store.admit(records)
        except CapacityError:
            if not self._make_room():
                raise
        return self._store.admit(records)

    def _take_in_invalid(self, flight: _Flight, error: ChunkInvalid, size: int, now: float) -> None:
        """An answer with a chunk that is not itself. What followed it is asked for again: a stick
        has bad sectors. Damage to what nobody asked for is of no use at all."""
        dispatch, supplier = flight.dispatch, flight.supplier
        held = self._store.has(b"".join(_chunk_of(key) for key in dispatch.keys))
        got: set[Key] = {key for key, here in zip(dispatch.keys, held, strict=True) if here}
        asked_for: set[Key] = {
            key for key in dispatch.keys if isinstance(key, PageRange) or key == error.ref
        }
        self._count(flight, size, len(got), now)
        self._note_fault(flight, error)
        with self._lock:
            supplier.invalid += 1
            self._schedule.answered(dispatch, size, got, now, asked_for - got)
            self._arrived(got, supplier.source.name)
            if supplier.invalid > INVALID_LIMIT:
                self._schedule.leave_alone(dispatch.standing, now, MISTRUST_SECONDS)
            elif not asked_for:
                self._schedule.leave_alone(dispatch.standing, now)

    def _note_fault(self, flight: _Flight, error: SatchelError) -> None:
        name = flight.supplier.source.name
        logger.warning("source %s: %s", name, error)
        flight.tally.fault(name, error)
        self.tally.fault(flight.label, error)

    def _count(self, flight: _Flight, size: int, chunks: int, now: float) -> None:
        dispatch = flight.dispatch
        took, late = now - dispatch.began, dispatch.overdue
        for tally, name in (
            (flight.tally, flight.supplier.source.name),
            (self.tally, flight.label),
        ):
            tally.answer(name, dispatch.priority, size, chunks, took, late=late)

    def _arrived(self, keys: Iterable[Key], source: str | None = None) -> None:
        for key in keys:
            self._schedule.forget(key)
            for ticket in self._tickets.pop(key, ()):
                ticket.missing.discard(key)
                if source:
                    ticket.came[source] += _most_chunks(key)
                ticket.moved_at = time.monotonic()
                if ticket.done:
                    ticket.changed.set()

    def _fail_all(self, dispatch: Dispatch, error: Exception) -> None:
        tickets = [t for key in dispatch.keys for t in self._tickets.get(key, ())]
        for ticket in dict.fromkeys(tickets):
            self._fail(ticket, error)

    def _fail(self, ticket: Ticket, error: Exception | None) -> None:
        ticket.error = ticket.error or error
        for key in ticket.missing:
            others = [other for other in self._tickets.get(key, ()) if other is not ticket]
            if others:
                self._tickets[key] = others
            elif self._tickets.pop(key, None):
                self._schedule.forget(key)
        ticket.changed.set()

    def _owner(self, dispatch: Dispatch) -> FetchTally:
        """Whose numbers a request counts in: those of who wanted its first key first."""
        return self._tickets[dispatch.keys[0]][0].tally


def _most_chunks(key: Key) -> int:
    """Chunks that may come for it: itself, or blocks and the pages above them."""
    return key.most_chunks if isinstance(key, PageRange) else 1


def _chunk_of(key: Key) -> ChunkRef:
    """The chunk that shows that a want has come."""
    return key.page if isinstance(key, PageRange) else key
