# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A move to another hotspot over the links of 2005, with media: the demo's, and no more of it.

Everything is real: namespaces, emulated links, sshd, home, two surrogates, the client, a stick.
Seconds count from the start of the move to the first response of the new replica, without the
operation itself, for which the median of those after the move stands. Needs root.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bench import processors
from bench.harness import Figure, figure
from testbed import PAPER, LinkProfile, story

LAZY_GOAL = 0.15


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="satchel-") as name, processors.apart(PAPER) as bed:
        work = Path(name)
        play = story.Story(bed, work, work, Console(quiet=True))
        try:
            play.build()
            play.roles.start()
            play.at_home(story.SERVICES)
            for service in story.SERVICES:
                play.session(service, "a", media=True)
                play.operate(service, story.RECORDINGS, "a")
            for service in story.SERVICES:
                play.move(service, "b", story.WITH)
                yield from _figures(play.moves[-1], play.working_set_bytes(service))
        finally:
            play.close()


def _figures(move: story.Move, ahead: int) -> Iterator[Figure]:
    what = f"move of {move.service}"
    fetched = sum(move.fetched.values())
    yield first_response(f"{what}: first response", move, PAPER)
    yield figure(f"{what}: the operation itself, warm", move.operation_seconds, "s")
    goal = story.MOVE_GOAL_SECONDS
    yield figure(f"{what}: without it", move.seconds, "s", at_most=goal, bound=bound(move, PAPER))
    yield figure(f"{what}: fetched before the first response", fetched / 1e6, "MB")
    yield figure(f"{what}: of that, the working set", ahead / 1e6, "MB")
    share = LAZY_GOAL if move.service == "notes" else None
    yield figure(f"{what}: fetched of the stored state", move.share, "1", at_most=share)


def first_response(
    name: str, move: story.Move, profile: LinkProfile, against: tuple[str, float] | None = None
) -> Figure:
    """A move's, its own operation included. against: what it is compared with, and its seconds"""
    by, least = bound(move, profile)
    least += move.operation_seconds
    return figure(name, move.first_response_seconds, "s", against=against, bound=(by, least))


def bound(move: story.Move, profile: LinkProfile) -> tuple[str, float]:
    """What bounds the first response, but for operations: the slowest of the links over which was
    fetched what was fetched until then, and the seconds that these bytes take on it."""
    rates = {"media": ("the Wi-Fi", profile.wifi), "home": ("home's uplink", profile.home_up)}
    taken: dict[str, float] = {"nothing fetched": 0.0}
    for source, size in move.fetched.items():
        link, rate = rates.get(source, ("the hotspots' links", profile.hotspot))
        taken[link] = taken.get(link, 0.0) + size * 8 / rate
    by = max(taken, key=lambda link: taken[link])
    return by, taken[by]
