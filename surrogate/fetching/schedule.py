# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which source is asked for what, and when. Pure: no thread, no clock, no IO; not thread-safe.

A want is one thing that somebody waits for: a chunk, or the blocks below a page. Wants wait in one
queue for each priority, not at sources: `take` gives each to the source that will deliver it first,
by what is known of every source and by what is under way there already; a want whose best source
has no room waits on, unless another one would still be sooner.

    open ----take---> under way ----answered, there---> gone
     ^                   |  |
     |                   |  +--overdue--> open as well, for every source but that one
     +--failed, lacking--+

Urgent wants go out at once. Others keep a link busy and not more: what they have under way is
bounded by the bandwidth-delay product, so that a miss that comes next waits for little. Background
wants go out where nothing else is under way.

A source that failed is left alone for a while, twice as long each time. Then it is tried with
wants that are under way elsewhere too, so that nobody waits for the trial. A source of which
nothing is known yet, or not any more, is tried where much is waiting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chunkstore import PageRange
from surrogate.fetching.source_state import (
    BATCH,
    LEAST_BATCH_BYTES,
    Dispatch,
    Key,
    SourceState,
    Want,
)
from wire import PLACES_LIMIT, Priority

BULK_SHARE = 0.25
"""A source that is slower than this part of the fastest one does not help it with what nobody waits
for: little would be gained, and its bytes hold up operations on the way."""

STRANGER_SECONDS = 0.5
"""What is only assumed of a source is trusted less: so much is added for each that is nearer."""

EXPLORE_SECONDS = 1.0
"""Where the queue would take longer than this, a source that is not known is tried."""

LOOK_AHEAD = 128
"""Wants in a row for which no source has room, before the rest is not looked at."""

RETRY_SECONDS = 1.0
RETRY_MOST_SECONDS = 4.0
"""How long a source that did not answer is left alone: the first time, and at most."""

SEARCH_SECONDS = 0.5
"""How often what no source had is asked for again."""


class Schedule:
    """See the module."""

    def __init__(self) -> None:
        self._wants: dict[Key, Want] = {}
        self._open: dict[Priority, dict[Key, Want]] = {priority: {} for priority in Priority}
        self._flying: dict[int, Dispatch] = {}
        self._adrift: dict[Key, Want] = {}  # under way, and nobody waits for it any more
        self._full: set[SourceState] = set()  # where something waits for the link
        self._number = itertools.count(1)

    def __contains__(self, key: Key) -> bool:
        return key in self._wants

    def want(
        self, key: Key, size: int, priority: Priority, standings: Iterable[SourceState]
    ) -> None:
        """Something is waited for, from these sources, the nearest first. Where it is wanted
        already, it may come from these as well, and is as urgent as the more urgent of both. Where
        it is under way from one of these, though nobody waited any more, it is not asked for again
        either."""
        standings = list(standings)
        want = self._wants.get(key)
        if want is None and self._revive(key, priority, standings):
            return
        if want is None:
            want = self._wants[key] = Want(key, size, priority, standings)
            self._open[priority][key] = want
            return
        want.standings += [s for s in standings if s not in want.standings]
        if priority.rank < want.priority.rank:
            was_open = self._open[want.priority].pop(key, None)
            want.priority = priority
            if was_open:
                self._open[priority][key] = want

    def forget(self, key: Key) -> None:
        """It has arrived, or nobody waits for it any more; a request under way goes on."""
        want = self._wants.pop(key, None)
        if want is not None:
            self._open[want.priority].pop(key, None)
            if want.flying:
                self._adrift[key] = want

    def part(self, standing: SourceState) -> None:
        """A source is not there any more; what was under way there is asked for elsewhere."""
        for dispatch in list(standing.flying.values()):
            self._end(dispatch)
        for want in self._wants.values():
            if standing in want.standings:
                want.standings.remove(standing)
            want.lacking.discard(standing)

    def take(self, now: float) -> list[Dispatch]:
        """The requests to send now; each is under way from here on."""
        for dispatch in self._flying.values():
            if not dispatch.overdue and now >= dispatch.overdue_at:
                dispatch.overdue = True
                self._open_again(dispatch.wants)
        taken: list[Dispatch] = []
        self._full.clear()
        for priority in Priority:
            while sent := self._serve(priority, now):
                taken += sent
        return taken + self._try(now)

    def answered(
        self,
        dispatch: Dispatch,
        size: int,
        got: set[Key],
        now: float,
        lacking: set[Key] | None = None,
    ) -> None:
        """An answer of `size` bytes. `got` is what came of it; for `lacking`, by default the rest,
        that source is not asked again."""
        standing, estimate = dispatch.standing, dispatch.standing.estimate
        lacking = set(dispatch.keys) - got if lacking is None else lacking
        for want in dispatch.wants:
            if want.key in lacking:
                want.lacking.add(standing)
        if self._end(dispatch):
            about = (dispatch.began, size, dispatch.predicted)
            full = standing in self._full
            estimate.answered(now, *about, alone=dispatch.alone, full=full)
            estimate.had(len(got) + len(lacking), len(got))
            standing.faults_in_row, standing.on_trial = 0, False
        for key in got:
            self.forget(key)

    def failed(self, dispatch: Dispatch, now: float) -> None:
        """No answer. The source is left alone for a while."""
        if self._end(dispatch):
            dispatch.standing.estimate.gone()
            self.leave_alone(dispatch.standing, now)

    def leave_alone(self, standing: SourceState, now: float, pause: float | None = None) -> None:
        """Ask a source for nothing for `pause` seconds, by default twice as long each time; then
        on trial. Requests that fail together count once."""
        if pause is None:
            if standing.usable_from > now:
                return
            doubled = RETRY_SECONDS * (1 << min(standing.faults_in_row, 8))
            pause = min(doubled, max(RETRY_SECONDS, RETRY_MOST_SECONDS))
        standing.faults_in_row += 1
        standing.on_trial = True
        standing.usable_from = max(standing.usable_from, now + pause)

    def renewed(self, standing: SourceState, now: float) -> None:
        """A source is reached by another way. What is under way there was asked for just now, and
        that it did not answer before says nothing any more."""
        standing.faults_in_row, standing.on_trial, standing.usable_from = 0, False, -math.inf
        for dispatch in standing.flying.values():
            dispatch.began, dispatch.overdue = now, False
            dispatch.overdue_at = now + standing.estimate.overdue(dispatch.predicted)
        standing.estimate.restarted(now)

    def wake_at(self, now: float) -> float:
        """When, after `now`, `take` may say something new although nothing has happened; infinite
        for never."""
        times = [d.overdue_at for d in self._flying.values() if not d.overdue]
        for queue in self._open.values():
            for want in itertools.islice(queue.values(), LOOK_AHEAD):
                times += [s.usable_from for s in want.standings if s not in want.flying]
                times.append(want.search_at)
        return min((at for at in times if at > now), default=math.inf)

    def _revive(self, key: Key, priority: Priority, standings: list[SourceState]) -> bool:
        """Whether it is under way from one of these sources, and waited for again now."""
        want = self._adrift.get(key)
        if want is None or want.flying.isdisjoint(standings):
            return False
        del self._adrift[key]
        want.priority, want.standings = priority, standings
        self._wants[key] = want
        dispatches = (d for standing in want.flying for d in standing.flying.values())
        if all(d.overdue for d in dispatches if want in d.wants):
            self._open_again([want])
        return True

    def _end(self, dispatch: Dispatch) -> bool:
        """Whether it was still under way. What has not come of it is open again."""
        if self._flying.pop(dispatch.number, None) is None:
            return False
        standing = dispatch.standing
        del standing.flying[dispatch.number]
        standing.flying_bytes -= dispatch.size
        for want in dispatch.wants:
            want.flying.discard(standing)
            if not want.flying and self._adrift.get(want.key) is want:
                del self._adrift[want.key]
        self._open_again([want for want in dispatch.wants if not want.flying])
        return True

    def _open_again(self, wants: Iterable[Want]) -> None:
        """In front of what has not been asked for yet."""
        again = {want.key: want for want in wants if self._wants.get(want.key) is want}
        for priority in Priority:
            mine = {key: want for key, want in again.items() if want.priority is priority}
            if mine:
                self._open[priority] = mine | self._open[priority]

    def _serve(self, priority: Priority, now: float) -> list[Dispatch]:
        """Hand out what is open at one priority, in the order in which it was wanted."""
        queue = self._open[priority]
        if not queue:
            return []
        plan = _Plan(priority, now)
        for want in list(queue.values()):
            if plan.skipped >= LOOK_AHEAD:
                break
            plan.place(want)
        sent = [self._send(r.standing, r.wants, priority, now) for r in plan.requests()]
        if priority is not Priority.DEMAND and plan.backlog_seconds > EXPLORE_SECONDS:
            sent += self._explore(queue, plan.strangers(), priority, now)
        if not sent:
            self._full |= plan.full
        return sent

    def _send(
        self, standing: SourceState, wants: list[Want], priority: Priority, now: float
    ) -> Dispatch:
        size = sum(want.size for want in wants)
        estimate = standing.estimate
        predicted = estimate.seconds(size, standing.flying_bytes)
        dispatch = Dispatch(
            next(self._number),
            standing,
            wants,
            priority,
            size,
            began=now,
            predicted=predicted,
            overdue_at=now + estimate.overdue(predicted),
            alone=not standing.flying,
        )
        self._flying[dispatch.number] = standing.flying[dispatch.number] = dispatch
        standing.flying_bytes += size
        estimate.sent(now)
        for want in wants:
            want.flying.add(standing)
            self._open[want.priority].pop(want.key, None)
        return dispatch

    def _explore(
        self, queue: dict[Key, Want], strangers: list[SourceState], priority: Priority, now: float
    ) -> list[Dispatch]:
        """Ask for the last of the queue at sources that are not known."""
        sent = []
        for standing in strangers:
            last = itertools.islice(reversed(queue.values()), BATCH)
            if few := _a_few(want for want in last if want.may(standing, now)):
                sent.append(self._send(standing, few, priority, now))
        return sent

    def _try(self, now: float) -> list[Dispatch]:
        """Ask sources that failed and may be asked again for what is under way elsewhere."""
        flying = [w for d in self._flying.values() for w in d.wants if self._wants.get(w.key) is w]
        trials = {s: None for w in flying for s in w.standings if s.on_trial and not s.flying}
        sent = []
        for standing in trials:
            if few := _a_few(want for want in flying if want.may(standing, now)):
                sent.append(self._send(standing, few, few[0].priority, now))
        return sent


@dataclass
class _Request:
    standing: SourceState
    wants: list[Want]
    size: int


class _Plan:
    """One round of handing out."""

    def __init__(self, priority: Priority, now: float) -> None:
        self.skipped = 0
        self._priority = priority
        self._now = now
        self._requests: dict[SourceState, list[_Request]] = {}
        self._waiting: dict[SourceState, int] = {}
        self._strangers: dict[SourceState, None] = {}

    @property
    def backlog_seconds(self) -> float:
        """How long the slowest of the sources that are waited for would take for that."""
        return max((n / s.estimate.rate for s, n in self._waiting.items()), default=0.0)

    @property
    def full(self) -> set[SourceState]:
        """Sources that had no room for something, and whose links are busy."""
        return {s for s in self._waiting if s.flying_bytes >= s.estimate.bandwidth_delay}

    def strangers(self) -> list[SourceState]:
        """Sources that nothing is known of, nor will be by what is under way."""
        return [s for s in self._strangers if not s.flying and s not in self._requests]

    def requests(self) -> Iterator[_Request]:
        return itertools.chain.from_iterable(self._requests.values())

    def place(self, want: Want) -> None:
        """Give it to the source that will deliver it first, if that has room."""
        able = want.candidates(self._now)
        if not able:
            if not want.flying:
                self._search(want)
            return
        self._strangers |= {s: None for s in able if not s.known(self._now)}
        best = self._first_to_deliver(want, able)
        if want.flying and not self._worth_asking_twice(want, best):
            return
        if not self._add(best, want):
            self._waiting[best] = self._waiting.get(best, 0) + want.size
            self.skipped += 1

    def _first_to_deliver(self, want: Want, able: list[SourceState]) -> SourceState:
        if len(able) == 1:
            return able[0]
        if self._priority is not Priority.DEMAND:
            least = BULK_SHARE * max(standing.estimate.rate for standing in able)
            able = [standing for standing in able if standing.estimate.rate >= least]
        alone = {standing: self._seconds(want, standing) for standing in able}

        def arrival(standing: SourceState) -> float:
            """What a source may lack is asked of the next one afterwards."""
            rest = min((s for other, s in alone.items() if other is not standing), default=0.0)
            return alone[standing] + rest * (1.0 - standing.estimate.hits(self._now))

        return min(able, key=arrival)

    def _seconds(self, want: Want, standing: SourceState) -> float:
        """Until it comes from there, if it is there."""
        ahead = standing.flying_bytes + self._waiting.get(standing, 0)
        ahead += sum(request.size for request in self._requests.get(standing, []))
        seconds = standing.estimate.seconds(want.size, ahead) + 2 * standing.late(self._now)
        if not standing.known(self._now):
            seconds += STRANGER_SECONDS * want.standings.index(standing)
        return seconds

    def _worth_asking_twice(self, want: Want, other: SourceState) -> bool:
        """What nobody waits for is asked for once more when it is late by as much as that takes:
        a slow source and the links to it have better to do."""
        late = min(standing.late(self._now) for standing in want.flying)
        return self._priority is Priority.DEMAND or late >= self._seconds(want, other)

    def _add(self, standing: SourceState, want: Want) -> bool:
        """Whether there is room for it in the request that is being filled, or in another one."""
        requests = self._requests.get(standing, [])
        if requests:
            last = requests[-1]
            alike = type(last.wants[0].key) is type(want.key)
            fits = last.size + want.size <= standing.batch_bytes(self._priority)
            if alike and fits and len(last.wants) < _most_in_one(want):
                last.wants.append(want)
                last.size += want.size
                return True
        if len(requests) >= standing.room(self._priority):
            return False
        request = _Request(standing, [want], want.size)
        self._requests.setdefault(standing, []).append(request)
        return True

    def _search(self, want: Want) -> None:
        """No source that can be asked has it: after a while all are asked again."""
        if want.search_at > self._now:
            return
        if want.search_at > -math.inf and want.lacking:
            want.lacking.clear()
            self.place(want)
        want.search_at = self._now + SEARCH_SECONDS


def _most_in_one(want: Want) -> int:
    """So many of its kind may be in one request."""
    return PLACES_LIMIT if isinstance(want.key, PageRange) else BATCH


def _a_few(wants: Iterable[Want]) -> list[Want]:
    """Of these as many of one kind as show a rate."""
    few: list[Want] = []
    size = 0
    for want in wants:
        if size >= LEAST_BATCH_BYTES or (few and len(few) >= _most_in_one(few[0])):
            break
        if not few or type(few[0].key) is type(want.key):
            few.append(want)
            size += want.size
    return few
