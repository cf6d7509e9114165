# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate dies with operations in flight (MEFS, Figure 7): what the client waits for beyond
home's own execution of them.

Home executes every operation anyway, so nothing is fetched, restored or sent again. As many
commands as are to be in flight are sent at once by as many programs. The surrogate stands still
then, so that it answers none of them, and loses power. The same with home alone is what they take
themselves. Both begin when every replica has executed what there was before: what home has yet to
execute of that is no part of the recovery. On the links of today. Needs root.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.harness import Figure, figure
from bench.replicas_load import burst
from bench.replicas_moves import Stage, stage
from testbed import namespaces

IN_FLIGHT = (1, 10, 50, 100, 200)
QUICK_IN_FLIGHT = (1, 100)
ROUNDS = 5
LOOK_SECONDS = 0.05
AT = "a"
GOAL_AT, GOAL_SECONDS = 100, 0.1


def recovery(quick: bool) -> Iterator[Figure]:
    """The part `recovery`."""
    with stage() as made:
        for count in QUICK_IN_FLIGHT if quick else IN_FLIGHT:
            rounds = [_round(made, count) for _ in range(1 if quick else ROUNDS)]
            label = f"surrogate lost with {count} operations in flight"
            alone = statistics.median(each.alone for each in rounds)
            dying = statistics.median(each.dying for each in rounds)
            yield figure(f"{label}: home alone", alone * 1e3, "ms")
            yield figure(f"{label}: all answered after", dying * 1e3, "ms")
            goal = GOAL_SECONDS * 1e3 if count == GOAL_AT else None
            beyond = max(0.0, statistics.median(each.dying - each.alone for each in rounds))
            name = f"{label}: beyond home's execution just before"
            yield figure(name, beyond * 1e3, "ms", at_most=goal)


@dataclass(frozen=True)
class _Round:
    """Seconds until all are answered, with home alone, and when the surrogate dies."""

    alone: float
    dying: float


def _round(made: Stage, count: int) -> _Round:
    """Both in one session, one soon after the other: other work on this machine slows down both."""
    role, client = made.roles.surrogates[AT], made.bed.client
    with made.session(None) as port:
        burst(client, port, count)
        _settle(made)
        alone = burst(client, port, count)
        made.move(AT, "replay")
        burst(client, port, count)
        _settle(made)
        processes = namespaces.processes([role.host.namespace])

        def die() -> None:
            time.sleep(LOOK_SECONDS)
            role.host.crash()

        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        dying = burst(client, port, count, die)
        role.crash()
    made.roles.restart_surrogate(AT, empty=False)
    return _Round(alone, dying)


def _settle(made: Stage) -> None:
    """Until nobody lags: the first answer ends a burst, and home may not have executed it yet."""
    while any(row.get("lag") for row in made.status()["replicas"]):
        time.sleep(LOOK_SECONDS)
