# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A day of a mobile with 4G: rclone and davfs2 upload, Nextcloud's client polls, a person opens
files, and a share of home's is mounted.

What one use says is recorded of the real programs (`recorded`); when they are used is a schedule,
drawn by a seed. The day is played to the model of the radio three times: each use when its program
asks, with uplink's rules (`uplink.Batcher`, answers that are kept, a mount that parks), and as by
an offline optimum that knows the day. That is a dynamic programme over the moments at which
anything can change: the cheapest set of bursts in which no use waits longer than it may with
uplink, and each of a person goes at once. It has no mount that stays awake for a while.
"""

from __future__ import annotations

import bisect
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.harness import Figure, figure
from bench.uplink.recorded import UseTraffic, recorded
from client import ClientSettings
from uplink.policy import Batcher, Interface, RadioModel, RadioState, built_in_radios

DAY, HOUR, MINUTE = 86_400.0, 3600.0, 60.0

LONGEST = 20 * MINUTE
"""`deadline-minutes` of the day, and `fresh` of the service whose folder is polled."""

POLL_SECONDS = 30.0
"""Of Nextcloud's desktop client."""

BEAT_SECONDS, BEAT_BYTES = 3.0, 100
"""What a mount says that does not park; 100 bytes make no difference to the model."""

UPLOADS = {"rclone": (60, 8, 22), "davfs2": (40, 9, 18)}
"""How many in a day, between which hours."""

PERSON, MOUNT = (20, 8, 23), (8, 8, 23)
MOUNT_BYTES = 20_000

SEEDS, QUICK_SEEDS = 20, 2

SAVED, MEDIAN_MINUTES, ABOVE_OPTIMUM = 60.0, 10.0, 5.0


@dataclass(frozen=True)
class Use:
    """At a time of the day, in seconds. latest: until when it may go; earliest: from when on an
    answer that is kept will do. A person's has no choice of either."""

    at: float
    said: UseTraffic
    earliest: float
    latest: float


@dataclass(frozen=True)
class Day:
    """uploads: that nobody waits for; polls: that an earlier answer serves; person: all that goes
    at once; mounted: those of them which leave a mount awake"""

    uploads: list[Use]
    polls: list[Use]
    person: list[Use]
    mounted: list[float]


@dataclass(frozen=True)
class DayResult:
    """joules: of the model; delays: seconds of each use that was not a person's: until an upload
    went, or since a poll's answer was made"""

    joules: float
    delays: list[float]


Burst = tuple[float, UseTraffic]


def day(quick: bool) -> Iterator[Figure]:
    """Joules of the three, and how long things took; means over seeds."""
    said = recorded()
    model = built_in_radios()["4g"]
    awake = ClientSettings().park_seconds
    rows = [_row(model, said, seed, awake) for seed in range(QUICK_SEEDS if quick else SEEDS)]

    def mean(name: str) -> float:
        return statistics.fmean(row[name] for row in rows)

    yield figure("model: 4g, a day as programs ask, without a mount", mean("programs"), "J")
    yield figure("model: 4g, a day as programs ask, with an idle mount", mean("direct"), "J")
    yield figure("model: 4g, a day with uplink, without a mount", mean("uplink"), "J")
    yield figure("model: 4g, a day with uplink, with a mount that parks", mean("ours"), "J")
    saved = 100 * statistics.fmean(1 - row["ours"] / row["direct"] for row in rows)
    yield figure("model: 4g, a day: joules saved", saved, "%", at_least=SAVED)
    without = 100 * statistics.fmean(1 - row["uplink"] / row["programs"] for row in rows)
    yield figure("model: 4g, a day: joules saved without a mount", without, "%", at_least=SAVED)
    minutes = max(row["delay"] for row in rows) / MINUTE
    yield figure("a day: median delay, the most of the seeds", minutes, "min", at_most=10.0)
    yield figure("a day: the same of the optimum", mean("optimum delay") / MINUTE, "min")
    above = 100 * statistics.fmean(row["uplink"] / row["optimum"] - 1 for row in rows)
    yield figure("a day: joules above the optimum", above, "%", at_most=ABOVE_OPTIMUM)
    mounted = 100 * statistics.fmean(row["ours"] / row["optimum"] - 1 for row in rows)
    yield figure(f"a day: the same, a mount awake for {awake:g} s after its uses", mounted, "%")


def _row(
    model: RadioModel, said: Mapping[str, UseTraffic], seed: int, awake: float
) -> dict[str, float]:
    drawn = drawn_day(said, seed)
    direct = [(use.at, use.said) for use in (*drawn.uploads, *drawn.polls, *drawn.person)]
    uplink, best = with_uplink(model, drawn), optimum(model, drawn)
    played, bound = served(model, drawn, uplink), served(model, drawn, best)
    return {
        "programs": joules(model, direct),
        "direct": joules(model, [*direct, *_beats([0.0], DAY)]),
        "uplink": played.joules,
        "ours": served(model, drawn, uplink, _beats(drawn.mounted, awake)).joules,
        "optimum": bound.joules,
        "delay": statistics.median(played.delays),
        "optimum delay": statistics.median(bound.delays),
    }


def drawn_day(said: Mapping[str, UseTraffic], seed: int) -> Day:
    """When what is used; the same for the same seed."""
    draw = random.Random(seed)

    def times(count: int, first: int, last: int) -> list[float]:
        return sorted(draw.uniform(first * HOUR, last * HOUR) for _ in range(count))

    uploads = [
        Use(at, said[name], at, at + LONGEST)
        for name, when in UPLOADS.items()
        for at in times(*when)
    ]
    begun = draw.uniform(0, POLL_SECONDS)
    polls = [
        Use(at, said["nextcloud"], at - LONGEST, at)
        for at in (begun + number * POLL_SECONDS for number in range(int(DAY / POLL_SECONDS)))
    ]
    mounted = times(*MOUNT)
    person = [Use(at, said["person"], at, at) for at in times(*PERSON)]
    person += [Use(at, UseTraffic(MOUNT_BYTES // 4, MOUNT_BYTES), at, at) for at in mounted]
    return Day(sorted(uploads, key=_at), polls, sorted(person, key=_at), mounted)


def _at(use: Use) -> float:
    return use.at


def _beats(since: Sequence[float], seconds: float) -> list[Burst]:
    beat = UseTraffic(BEAT_BYTES // 2, BEAT_BYTES // 2)
    count = int(seconds / BEAT_SECONDS)
    return [(at + number * BEAT_SECONDS, beat) for at in since for number in range(count)]


def joules(model: RadioModel, bursts: Sequence[Burst]) -> float:
    """Of the model, the last tail included."""
    interface = Interface(model)
    for at, said in sorted(bursts, key=lambda burst: burst[0]):
        interface.transfer(at, up=said.up, down=said.down)
    return interface.finish().total


def served(
    model: RadioModel, drawn: Day, moments: Sequence[float], more: Sequence[Burst] = ()
) -> DayResult:
    """All of the day's uses go at these moments: each upload with the next one, and a poll's
    question where the answer that there is has become too old."""
    bursts = [(use.at, use.said) for use in drawn.person]
    delays = []
    for use in drawn.uploads:
        at = moments[bisect.bisect_left(moments, use.at)]
        assert at <= use.latest + 1e-6
        bursts.append((at, use.said))
        delays.append(at - use.at)
    asked = set()
    for use in drawn.polls:
        at = moments[bisect.bisect_right(moments, use.at) - 1]
        assert at >= use.earliest - 1e-6
        asked.add(at)
        delays.append(use.at - at)
    bursts += [(at, drawn.polls[0].said) for at in asked]
    return DayResult(joules(model, [*bursts, *more]), delays)


def with_uplink(model: RadioModel, drawn: Day) -> list[float]:
    """When uplink lets something go, of which nothing but the past is known."""
    batcher, interface = Batcher(model, model.rate, deadline=LONGEST), Interface(model)
    held: list[Use] = []
    moments: list[float] = []
    asked = float("-inf")

    def go(at: float) -> None:
        nonlocal asked
        moments.append(at)
        interface.transfer(at, up=sum(use.said.up for use in held), down=drawn.polls[0].said.down)
        held.clear()
        asked = at

    kinds = ((drawn.uploads, "upload"), (drawn.polls, "poll"), (drawn.person, "person"))
    coming = sorted(((use.at, kind, use) for uses, kind in kinds for use in uses), key=_first)
    for at, kind, use in coming:
        if held and batcher.waited(held[0].at, at):
            go(held[0].latest)
        if kind == "upload":
            awake = interface.state(at) is not RadioState.IDLE
            held.append(use)
            if batcher.accepted(sum(each.said.up for each in held), awake=awake):
                go(at)
        elif kind == "person" or asked < use.earliest:
            go(at)
    if held:
        go(held[0].latest)
    return moments


def _first(row: tuple[float, str, Use]) -> float:
    return row[0]


def optimum(model: RadioModel, drawn: Day) -> list[float]:
    """The moments that cost the least between them. A moment is worth a thought where an upload
    comes or may wait no longer, where a poll needs an answer, and where a person is served."""
    waits = [*drawn.uploads, *drawn.polls]
    person = [use.at for use in drawn.person]
    times = sorted({*person, *(use.at for use in waits), *(use.latest for use in waits)})
    by_end = sorted(waits, key=lambda use: use.latest)
    best: list[tuple[float, int]] = []
    since, ended, serves = float("-inf"), 0, -1
    for number, at in enumerate(times):
        while ended < len(by_end) and by_end[ended].latest < at:
            since = max(since, by_end[ended].earliest)
            ended += 1
        first = max(bisect.bisect_left(times, since - 1e-6), serves)
        found = [
            (best[before][0] + _gap(model, at - times[before]), before)
            for before in range(max(first, 0), number)
        ]
        if since == float("-inf") and serves < 0:
            found.append((0.0, -1))
        best.append(min(found))
        if person and _has(person, at):
            serves = number
    last = max(bisect.bisect_left(times, max(use.earliest for use in waits) - 1e-6), serves)
    chosen = min(range(last, len(times)), key=lambda number: best[number][0])
    moments = []
    while chosen >= 0:
        moments.append(times[chosen])
        chosen = best[chosen][1]
    return moments[::-1]


def _has(times: Sequence[float], at: float) -> bool:
    place = bisect.bisect_left(times, at)
    return place < len(times) and times[place] == at


def _gap(model: RadioModel, seconds: float) -> float:
    """Joules from one burst's end to the next one's begin."""
    if seconds < model.tail_seconds:
        return model.tail_joules(seconds)
    return model.overhead_joules
