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
from testbed import PAPER, story

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
    yield figure(f"{what}: first response", move.first_response_seconds, "s")
    yield figure(f"{what}: the operation itself, warm", move.operation_seconds, "s")
    yield figure(f"{what}: without it", move.seconds, "s", at_most=story.MOVE_GOAL_SECONDS)
    yield figure(f"{what}: fetched before the first response", fetched / 1e6, "MB")
    yield figure(f"{what}: of that, the working set", ahead / 1e6, "MB")
    goal = LAZY_GOAL if move.service == "notes" else None
    yield figure(f"{what}: fetched of the stored state", move.share, "1", at_most=goal)
