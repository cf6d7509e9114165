# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a service's machines touch, when, and what after what: learnt at home over generations.

Pure: no IO and no clock; times are arguments, in seconds since the epoch. A profile is a value.
Its bytes are in replica/profile_format.py.

A volume is looked at in *runs* of 16 blocks. Each observation is what one machine touched, in
order, and in which phase of its life: each block is of the phase in which the last machine that was
resumed touched it first, so that what a resume needs does not wait for its neighbours in memory.
What the first operation of a life touches, whichever kind it is of, is of the *opening*; of its
blocks only those that are known to be of its own kind are not. So lives that begin with other
operations tell what all of them need from what one of them does.

An observation moves the trust in a block: up by two where the machine touched it, to at most three;
down by one where it should have and did not; at none the block is forgotten. So what two rehearsals
in three touch stays, and memory that a guest has put to another use goes within three generations.
The same holds for a run's successors. Only a machine that was resumed within the observation shows
what it did not touch: to one that has run for long, its memory is mapped already.

What a machine at a surrogate touched is told as a whole, without phases: it is of the phase *away*.
What has a phase already keeps it, and is trusted more. Of the others, those that the next machine
away does not touch are trusted less, and rehearsals take nothing from them.

(CAFIO's FileContext, with runs of chunks for files: reads, writes, hits, last access with a least
wait, successors; hot, warm and cold by thirds; decay by the week.)
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from replica.working_set import HASTY_PRESET, Run, encode

RUN_BLOCKS = 16

RUN_LIMIT = 8192
"""Runs in a profile; the coldest are left out."""

SUCCESSORS = 4
"""Of a run, at most."""

PHASE_LIMIT = 16

RESUME = "resume"
OPENING = "opening"
STEADY = "steady"
AWAY = "away"
IDLE = "idle"
_LATER = (STEADY, AWAY, IDLE)
_FIRST = "first "
KIND_LIMIT = 64
"""Characters of an operation's kind that count."""

LEAST_WAIT_SECONDS = 5.0
"""An access to a run sooner after the last one that counted does not count."""

WEEK_SECONDS = 7 * 24 * 3600.0
WEEKLY = 0.5
"""What is left of counts after a week."""
MOST_WEEKS = 4

MOST_TRUST = 3
LIKELY = 2
"""Trust in what was touched the last time, or most times."""

_MISSED = 1
"""Trust that only a life leaves which should have touched a block and did not."""

FICKLE = 0.25
"""Of a volume: blocks that were not touched again, by those that were, above which lives use it
differently. As much of what is used may come in vain."""

_GAIN = 2
_BITS = 2
_MASK = (1 << _BITS) - 1
_ALL = (1 << RUN_BLOCKS) - 1

RunKey = tuple[str, int]
"""A volume, and which run of it: block number by RUN_BLOCKS."""


def first_of(kind: str) -> str:
    """The phase of the first operation of a kind."""
    return _FIRST + kind.encode("ascii", "replace")[:KIND_LIMIT].decode("ascii")


def run_of(volume: str, block: int) -> RunKey:
    """The run that a block is in."""
    return volume, block // RUN_BLOCKS


class Temperature(enum.Enum):
    """Of a run: by thirds of all runs of its profile."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


@dataclass(frozen=True)
class Access:
    """A machine touched blocks. phase: empty where that is not known; hit: they were there."""

    at: float
    phase: str
    volume: str
    first: int
    count: int = 1
    write: bool = False
    hit: bool = False

    def runs(self) -> Iterator[tuple[RunKey, int]]:
        """The runs that it touches, with a bit for each block of the run."""
        end = self.first + self.count
        for index in range(self.first // RUN_BLOCKS, -(-end // RUN_BLOCKS)):
            low = max(self.first - index * RUN_BLOCKS, 0)
            high = min(end - index * RUN_BLOCKS, RUN_BLOCKS)
            yield (self.volume, index), (1 << high) - (1 << low)


class RunContext(NamedTuple):
    """What is known of a run.

    trust: two bits for each block, the first block's lowest. reads, writes, hits: how often, at
    most every LEAST_WAIT_SECONDS; a hit found the blocks there. last: the last that counted.
    successors: the runs touched after it for the first time, with the trust in that, the most
    trusted first
    """

    trust: int = 0
    reads: float = 0.0
    writes: float = 0.0
    hits: float = 0.0
    last: float = -math.inf
    successors: tuple[tuple[RunKey, int], ...] = ()

    def blocks(self, least: int = 1) -> Iterator[int]:
        """Numbers in the run of those blocks that are trusted so much."""
        return (n for n in range(RUN_BLOCKS) if self.trust >> _BITS * n & _MASK >= least)

    @property
    def trusted(self) -> int:
        """A bit for each block that is trusted at all."""
        return sum(1 << n for n in self.blocks())

    @property
    def score(self) -> float:
        return self.reads + self.writes + self.hits


@dataclass(frozen=True)
class Profile:
    """See the module. week: of the counts, since the epoch; phases: each with its runs in the order
    of first touch, and a bit for each block of the run that is of this phase and of no other."""

    week: int = 0
    runs: Mapping[RunKey, RunContext] = field(default_factory=dict)
    phases: Mapping[str, Mapping[RunKey, int]] = field(default_factory=dict)

    def order(self, least: int = LIKELY, phases: Sequence[str] | None = None) -> list[Run]:
        """The blocks that are trusted so much, in the order of first touch, phase after phase; none
        twice. By default of all phases: the resume, first operations, steady, idle."""
        return list(itertools.chain.from_iterable(self.parts(least, phases)))

    def parts(self, least: int = LIKELY, phases: Sequence[str] | None = None) -> list[list[Run]]:
        """The same, each phase for itself."""
        names = sorted(self.phases, key=_rank) if phases is None else phases
        orders = [self.phases.get(name, {}) for name in names]
        return [
            [r for key, mask in o.items() for r in self.spans(key, least, mask)] for o in orders
        ]

    def foreseen(self) -> list[list[Run]]:
        """What is streamed ahead of a machine, each phase for itself: what is likely, but of a
        volume that lives use differently nothing beyond the first operations."""
        names = sorted(self.phases, key=_rank)
        fickle = self.fickle()
        return [
            [run for run in part if name not in _LATER or run.volume not in fickle]
            for name, part in zip(names, self.parts(phases=names), strict=True)
        ]

    def working_set(self, read: Callable[[Run], bytes]) -> bytes:
        """What is foreseen, as it is in a later state of the machine. Who has this profile and that
        state makes the same bytes. `read` gives the content of a run."""
        return encode(self.foreseen(), read, preset=HASTY_PRESET)

    def fickle(self) -> frozenset[str]:
        """The volumes that lives use differently: of what two lives tell of, the blocks that the
        later one did not touch again are more than FICKLE of those that it did. A trust between
        the two says either, or that only one life tells of the block: it does not count. Nor does
        what only machines away touch: of that, each may touch something else."""
        missed: Counter[str] = Counter()
        again: Counter[str] = Counter()
        away = self.phases.get(AWAY, {})
        for (volume, index), context in self.runs.items():
            mask = ~away.get((volume, index), 0)
            counted = (n for n in context.blocks() if mask >> n & 1)
            trusts = Counter(context.trust >> _BITS * n & _MASK for n in counted)
            missed[volume] += trusts[_MISSED]
            again[volume] += trusts[MOST_TRUST]
        return frozenset(name for name in missed if missed[name] > FICKLE * again[name])

    def spans(self, key: RunKey, least: int = LIKELY, mask: int = _ALL) -> Iterator[Run]:
        """Of one run the blocks that are trusted so much, of those in the mask."""
        volume, index = key
        context = self.runs.get(key, RunContext())
        numbers = [n for n in context.blocks(least) if mask >> n & 1]
        for _, group in itertools.groupby(enumerate(numbers), lambda item: item[1] - item[0]):
            block = [number for _, number in group]
            yield Run(volume, index * RUN_BLOCKS + block[0], len(block))

    def follow(self, keys: Iterable[RunKey]) -> Iterator[RunKey]:
        """The runs that come after these ones, the nearest and most trusted first, each once."""
        queue = deque(dict.fromkeys(keys))
        known = set(queue)
        while queue:
            for successor, _ in self.runs.get(queue.popleft(), RunContext()).successors:
                if successor not in known:
                    known.add(successor)
                    queue.append(successor)
                    yield successor

    def temperatures(self) -> dict[RunKey, Temperature]:
        """Of every run, by thirds: the most used, the others, the least used."""
        ranked = sorted(self.runs, key=self._heat, reverse=True)
        third = max(1, -(-len(ranked) // 3))
        kinds = list(Temperature)
        return {key: kinds[min(n // third, 2)] for n, key in enumerate(ranked)}

    def hottest(self, limit: int) -> Profile:
        """With so many runs at most."""
        if len(self.runs) <= limit:
            return self
        kept = set(sorted(self.runs, key=self._heat, reverse=True)[:limit])
        return _only(self, kept)

    def _heat(self, key: RunKey) -> tuple[float, int, float]:
        context = self.runs[key]
        return context.score, context.trust.bit_count(), context.last


def decayed(profile: Profile, now: float) -> Profile:
    """Return the profile with its counts halved for each week that has gone by, and for MOST_WEEKS
    at most: a clock may be ahead for a while. If it was, the week follows it back."""
    week = int(now // WEEK_SECONDS)
    if week <= profile.week:
        return replace(profile, week=week)
    left = WEEKLY ** min(week - profile.week, MOST_WEEKS)
    runs = {
        key: c._replace(reads=c.reads * left, writes=c.writes * left, hits=c.hits * left)
        for key, c in profile.runs.items()
    }
    return replace(profile, week=week, runs=runs)


def observed(profile: Profile, accesses: Iterable[Access], now: float) -> Profile:
    """What is known after one more machine: what it touched, in that order, up to `now`."""
    profile = decayed(profile, now)
    seen = _Observation(accesses)
    if not seen.masks:
        return profile
    seen.open(profile.phases)
    runs = {**profile.runs, **_counted(profile.runs, seen.accesses)}
    expected = _expected(profile, seen)
    for key in expected.keys() | seen.masks.keys():
        runs[key] = _moved(runs[key], seen.masks.get(key, 0), expected.get(key, 0))
    for key, after in seen.after().items():
        old = dict(runs[key].successors)
        runs[key] = runs[key]._replace(successors=_successors(old, after))
    phases = _phases(profile.phases, seen)
    kept = sorted(phases, key=_rank)[: PHASE_LIMIT - len(_LATER)]
    kept += [name for name in _LATER if name in phases and name not in kept]
    learnt = Profile(profile.week, runs, {name: phases[name] for name in kept})
    return _only(learnt, {key for key, c in runs.items() if c.trust}).hottest(RUN_LIMIT)


class _Observation:
    """One observation: the blocks of each run; of each phase the runs in order, with those of their
    blocks that were touched first in it."""

    def __init__(self, accesses: Iterable[Access]) -> None:
        self.accesses = list(accesses)
        self.masks: dict[RunKey, int] = {}
        self.orders: dict[str, dict[RunKey, int]] = {}
        self._sequence: dict[RunKey, int] = {}
        for access in self.accesses:
            for key, mask in access.runs():
                self.masks[key] = self.masks.get(key, 0) | mask
                if access.phase:
                    order = self.orders.setdefault(access.phase, {})
                    known = self._sequence.get(key, 0)
                    if new := mask & ~known:
                        order[key] = order.get(key, 0) | new
                    self._sequence[key] = known | mask

    @property
    def resumed(self) -> bool:
        """Whether it shows what its machine did not touch."""
        return RESUME in self.orders

    def open(self, known: Mapping[str, Mapping[RunKey, int]]) -> None:
        """Let the first operation of this life be the opening, but for what its kind alone needs as
        far as these phases tell."""
        first = next((name for name in self.orders if name.startswith(_FIRST)), None)
        if not self.resumed or first is None:
            return
        mine, own = self.orders[first], known.get(first, {})
        self.orders[OPENING] = {k: part for k, m in mine.items() if (part := m & ~own.get(k, 0))}
        self.orders[first] = {k: part for k, m in mine.items() if (part := m & own.get(k, 0))}

    def after(self) -> dict[RunKey, tuple[RunKey, ...]]:
        """The runs that were touched for the first time next after each."""
        sequence = list(self._sequence)
        return {
            key: tuple(sequence[n + 1 : n + 1 + SUCCESSORS // 2]) for n, key in enumerate(sequence)
        }


def _counted(
    known: Mapping[RunKey, RunContext], accesses: Iterable[Access]
) -> dict[RunKey, RunContext]:
    counted: dict[RunKey, RunContext] = {}
    for access in accesses:
        for key, _ in access.runs():
            context = counted.get(key) or known.get(key) or RunContext()
            if abs(access.at - context.last) >= LEAST_WAIT_SECONDS:  # a clock may be put back
                kind = "hits" if access.hit else "writes" if access.write else "reads"
                more = {kind: getattr(context, kind) + 1.0, "last": access.at}
                context = context._replace(**more)
            counted[key] = context
    return counted


def _expected(profile: Profile, seen: _Observation) -> dict[RunKey, int]:
    """What the machine should have touched: the blocks of the phases that it went through."""
    names = seen.orders if seen.resumed else [name for name in seen.orders if name == AWAY]
    return _together(profile.phases.get(name, {}) for name in names)


def _together(orders: Iterable[Mapping[RunKey, int]]) -> dict[RunKey, int]:
    """The blocks of several phases."""
    masks: dict[RunKey, int] = {}
    for order in orders:
        for key, mask in order.items():
            masks[key] = masks.get(key, 0) | mask
    return masks


def _phases(
    known: Mapping[str, Mapping[RunKey, int]], seen: _Observation
) -> dict[str, dict[RunKey, int]]:
    """The phases after an observation. Where it was not resumed, the blocks that have a phase keep
    it. What was touched in no known phase is of the last one that its run is in."""
    old, new = _together(known.values()), _together(seen.orders.values())
    phases: dict[str, dict[RunKey, int]] = {}
    for name in (*known, *(name for name in seen.orders if name not in known)):
        before, after = known.get(name, {}), seen.orders.get(name, {})
        phases[name] = masks = {}
        for key in _merged(tuple(before), tuple(after)) if after else before:
            mine, other = before.get(key, 0), after.get(key, 0)
            if seen.resumed:
                masks[key] = mine & ~new.get(key, 0) | other
            else:
                masks[key] = mine | other & ~old.get(key, 0)
    last = {key: name for name in sorted(phases, key=_rank) for key in phases[name]}
    for key, mask in seen.masks.items():
        if key in last:
            phases[last[key]][key] |= mask & ~(old.get(key, 0) | new.get(key, 0))
    return phases


def _moved(context: RunContext, mask: int, expected: int) -> RunContext:
    trust = 0
    for n in range(RUN_BLOCKS):
        old = context.trust >> _BITS * n & _MASK
        new = min(MOST_TRUST, old + _GAIN) if mask >> n & 1 else max(0, old - (expected >> n & 1))
        trust |= new << _BITS * n
    return context._replace(trust=trust)


def _successors(old: dict[RunKey, int], after: Sequence[RunKey]) -> tuple[tuple[RunKey, int], ...]:
    trusted = {key: trust - 1 for key, trust in old.items() if trust > 1}
    for key in after:
        trusted[key] = min(MOST_TRUST, old.get(key, 0) + _GAIN)
    place = {key: n for n, key in enumerate(dict.fromkeys((*after, *old)))}
    best = sorted(trusted.items(), key=lambda item: (-item[1], place[item[0]]))
    return tuple(best[:SUCCESSORS])


def _merged(old: tuple[RunKey, ...], new: tuple[RunKey, ...]) -> tuple[RunKey, ...]:
    """Both orders in one: by the mean of the places, as parts of the whole."""
    places: dict[RunKey, list[float]] = {}
    for order in (new, old):
        for n, key in enumerate(order):
            places.setdefault(key, []).append(n / len(order))
    return tuple(sorted(places, key=lambda key: math.fsum(places[key]) / len(places[key])))


def _only(profile: Profile, kept: set[RunKey]) -> Profile:
    runs = {
        key: context._replace(successors=tuple(s for s in context.successors if s[0] in kept))
        for key, context in profile.runs.items()
        if key in kept
    }
    phases = {
        name: {k: own for k, mask in order.items() if k in kept and (own := mask & runs[k].trusted)}
        for name, order in profile.phases.items()
    }
    known = {name: order for name, order in phases.items() if order}
    return replace(profile, runs=runs, phases=known)


def _rank(phase: str) -> tuple[int, str]:
    """The order of phases in a life: what a service's operations are called does not matter."""
    ranks = {RESUME: 0, OPENING: 1, STEADY: 3, AWAY: 4, IDLE: 5}
    return ranks.get(phase, 2), "" if phase in ranks else phase
