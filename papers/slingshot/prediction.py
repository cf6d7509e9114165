# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What prediction is worth on runs that it has not seen: recorded workloads over emulated links.

Of each workload the last life of the held-out run is resumed. Its profile was learnt from all lives
of the training run, another boot of the guest with other requests, and then, as over generations of
checkpoints, from the lives before it in its own run, where there are any. Nothing of it was
rehearsed: home, which rehearses each checkpoint, knows more.

Until the first response touches come as fast as from an unloaded machine; after it faster, to know
what of all that was brought was of use in the end.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from bench import Figure, figure
from papers.slingshot.replay import Resume, ResumeResult
from papers.slingshot.world import SOCKETS, Origin, make_origin, world
from papers.workloads.recording import (
    HELD_OUT,
    IDLE,
    LEAF_BLOCKS,
    RESPONSE,
    RESUMED,
    STEADY,
    TRAINING,
    Recording,
    Trace,
    recordings,
)
from replica import RESUME, Access, Profile, Run, encode_working_set, observed
from satchel.ids import BLOCK_SIZE
from testbed import PAPER, TODAY
from testbed import LinkProfile as Links

STALLS_GOAL = 0.1
RESPONSE_GOAL = 1.3
OVER_FETCH_GOAL = 0.25

Block = tuple[str, int]
"""A volume and the number of one of its blocks."""

BETWEEN_LIVES = 3600.0
BEGAN = 1.8e9

TOUCH_SECONDS = 0.00055
"""The mean time between two touches of `notes`, resumed on an idle host. The recordings were made
beside other work, so their gaps are shortened to this mean."""

HURRIED_SECONDS = 0.0005
"""Between touches after the first response, at most."""

QUICK = ("notes",)

WORKLOADS = (
    "archive",
    "cafe",
    "compile",
    "desktop",
    "git",
    "notes",
    "python",
    "speech",
    "sqlite",
    "text",
)
"""Those whose last life is a resume."""


def prediction_figures(quick: bool, only: Collection[str] = WORKLOADS) -> Iterator[Figure]:
    """only: which workloads"""
    trained = {recording.workload: recording for recording in recordings(TRAINING)}
    for held in recordings(HELD_OUT):
        if held.workload not in only or (quick and held.workload not in QUICK):
            continue
        profile = learnt_before(trained[held.workload], held)
        for links in (TODAY,) if quick else (PAPER, TODAY):
            yield from _compare(held, profile, links)


def learnt_before(trained: Recording, held: Recording) -> Profile:
    """Of all lives of one run, and of those before the last one of the other."""
    lives = [(trained, n) for n in range(len(trained.lives))]
    lives += [(held, n) for n in range(len(held.lives) - 1)]
    return learnt(lives, held.lives[-1].service)


def learnt(lives: list[tuple[Recording, int]], service: str) -> Profile:
    """Of those lives that are of this service, one after the other."""
    profile, at = Profile(), BEGAN
    for recording, number in lives:
        if recording.lives[number].service == service:
            accesses = list(accesses_of(recording, number, at))
            at = accesses[-1].at + BETWEEN_LIVES
            profile = observed(profile, accesses, accesses[-1].at)
    return profile


def accesses_of(recording: Recording, number: int, began: float) -> Iterator[Access]:
    """The first touches of a life in the phases that its marks tell: a first operation's mark is
    its end."""
    marks = [mark for mark in recording.marks if mark.life == number]
    phase, at = RESUME, began
    for place, touch in recording.touches(number):
        done = {mark.what for mark in marks if mark.at <= place}
        coming = [mark.what for mark in marks if mark.at > place]
        if RESUMED in done:
            first = coming and coming[0].startswith(RESPONSE) and STEADY not in done
            phase = IDLE if IDLE in done else coming[0] if first else STEADY
        at += touch.gap
        yield Access(at, phase, touch.volume, touch.first, touch.count)


def _compare(held: Recording, profile: Profile, links: Links) -> Iterator[Figure]:
    trace = _unloaded(_with_strange(held.trace(len(held.lives) - 1), profile))
    label = f"fetch {held.workload} held out, {links.name}"
    known = {block for run in profile.order(1) for block in run.blocks()}
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        origin = make_origin(folder, trace, profile)
        with world(folder, links, origin) as there:
            sockets = {"media": there.media, "home": there.home}
            hurried = [
                dataclasses.replace(touch, gap=min(touch.gap, HURRIED_SECONDS))
                for touch in trace.touches[trace.response :]
            ]
            touches = [*trace.touches[: trace.response], *hurried]
            resume = Resume(origin.roots, origin.working_set, touches, sockets)
            resume = dataclasses.replace(resume, response=trace.response)
            asked = dataclasses.replace(resume, touches=touches[: trace.response])
            demand = asked.replay(folder, stream=False)
            foreseen = dataclasses.replace(resume, profile=origin.profile, known=known)
            found = foreseen.replay(folder, stream=True)
        true = _true_bytes(trace, origin)
        origin.media.close()
        origin.store.close()
        for path in SOCKETS:
            (folder / path).unlink(missing_ok=True)
    carried = true / (links.wifi / 8)
    yield from _told(label, trace, found, demand, carried + 2 * links.wifi_rtt)
    for whose, seen in (
        ("who knows every touch", None),
        ("who knows what lives before touched, and nothing else", known),
    ):
        least = least_stalls(trace, carried, links.wifi_rtt, seen)
        without = ("on demand", demand.stalled)
        yield figure(f"{label}: stalls of {whose}", least, "s", against=without)


def _told(
    label: str, trace: Trace, found: ResumeResult, demand: ResumeResult, carried: float
) -> Iterator[Figure]:
    own = sum(touch.gap for touch in trace.touches[: trace.response])
    without = ("on demand", demand.stalled)
    yield figure(f"{label}: stalls", found.stalled, "s", against=without, at_most=STALLS_GOAL)
    for cause, seconds in found.causes.items():
        everything = ("all stalls", found.stalled)
        yield figure(f"{label}: stalls, {cause}", seconds, "s", against=everything)
    bound = ("machine's time, true working set over the rate, two round trips", own + carried)
    yield figure(
        f"{label}: first response", found.seconds, "s", against=bound, at_most=RESPONSE_GOAL
    )
    least = ("the longer of these, so that nobody could be faster", max(own, carried))
    yield figure(f"{label}: first response, overlapped", found.seconds, "s", against=least)
    touched, foreseen, used = found.foresight
    vain, recall = ("and used", used), ("touched", touched)
    wasted = float(foreseen - used)
    yield figure(f"{label}: in vain", wasted, "blocks", against=vain, at_most=OVER_FETCH_GOAL)
    yield figure(f"{label}: used", float(used), "blocks", against=recall)


def least_stalls(
    trace: Trace, carried: float, round_trip: float, known: Collection[Block] | None = None
) -> float:
    """Seconds for which a machine stands still until its first response although what it touches is
    streamed, and nothing else, in the order of its touches: the least that a link allows.

    carried: seconds that all of it takes on the link. known: what can be streamed, by default
    everything; what is not is missed, a round trip for each touch that has some of it
    """
    order: dict[Block, int] = {}
    for n, touch in enumerate(trace.touches[: trace.response]):
        for block in range(touch.first, touch.first + touch.count):
            if block in trace.data[touch.volume]:
                order.setdefault((touch.volume, block), n)
    each = carried / max(1, len(order))
    here = now = stalled = 0.0
    blocks = iter([*order.items(), (("", 0), trace.response)])
    coming, first_touch = next(blocks)
    for n, touch in enumerate(trace.touches[: trace.response]):
        now += touch.gap
        missed = False
        while first_touch == n:
            here += each
            missed = missed or (known is not None and coming not in known)
            coming, first_touch = next(blocks)
        waits = max(0.0, here + round_trip - now) if here else 0.0
        waits = max(waits, round_trip) if missed else waits
        stalled, now = stalled + waits, now + waits
    return stalled


def _true_bytes(trace: Trace, origin: Origin) -> int:
    """What a working set of exactly the blocks touched until the first response takes."""

    def content(run: Run) -> bytes:
        root = origin.roots[run.volume]
        return origin.store.read(root, run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

    runs = [Run(t.volume, t.first, t.count) for t in trace.touches[: trace.response]]
    return len(encode_working_set([runs], content))


def _unloaded(trace: Trace) -> Trace:
    own = sum(touch.gap for touch in trace.touches[: trace.response])
    part = min(1.0, TOUCH_SECONDS * trace.response / own)
    touches = (dataclasses.replace(touch, gap=touch.gap * part) for touch in trace.touches)
    return dataclasses.replace(trace, touches=tuple(touches))


def _with_strange(trace: Trace, profile: Profile) -> Trace:
    """What a recording knows nothing of, and the profile names, counts as content: nobody shall
    have it for nothing."""
    known = {(name, b // LEAF_BLOCKS) for name, blocks in trace.data.items() for b in blocks}
    data = {name: set(blocks) for name, blocks in trace.data.items()}
    for run in profile.order(1):
        for name, block in run.blocks():
            if (name, block // LEAF_BLOCKS) not in known:
                data[name].add(block)
    return dataclasses.replace(trace, data={name: frozenset(b) for name, b in data.items()})
