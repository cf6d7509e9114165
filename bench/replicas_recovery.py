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

from bench.harness import Figure, figure
from bench.replicas_load import burst
from bench.replicas_moves import Stage, stage
from testbed import namespaces

IN_FLIGHT = (1, 10, 50, 100, 200)
QUICK_IN_FLIGHT = (1, 100)
ROUNDS = 3
LOOK_SECONDS = 0.05
AT = "a"
GOAL_AT, GOAL_SECONDS = 100, 0.1


def recovery(quick: bool) -> Iterator[Figure]:
    """The part `recovery`."""
    counts = QUICK_IN_FLIGHT if quick else IN_FLIGHT
    rounds = 1 if quick else ROUNDS
    with stage() as made:
        with made.session(None) as port:
            burst(made.bed.client, port, max(counts))
            alone = {n: _median(_alone(made, port, n) for _ in range(rounds)) for n in counts}
        for count in counts:
            seconds = _median(_dying(made, count) for _ in range(rounds))
            label = f"surrogate lost with {count} operations in flight"
            yield figure(f"{label}: home alone", alone[count] * 1e3, "ms")
            yield figure(f"{label}: all answered after", seconds * 1e3, "ms")
            goal = GOAL_SECONDS * 1e3 if count == GOAL_AT else None
            beyond = max(0.0, seconds - alone[count]) * 1e3
            yield figure(f"{label}: beyond home's execution", beyond, "ms", at_most=goal)


def _alone(made: Stage, port: int, count: int) -> float:
    _settle(made)
    return burst(made.bed.client, port, count)


def _dying(made: Stage, count: int) -> float:
    """Seconds until all are answered."""
    role = made.roles.surrogates[AT]
    with made.session(AT) as port:
        burst(made.bed.client, port, count)
        _settle(made)
        processes = namespaces.processes([role.host.namespace])

        def die() -> None:
            time.sleep(LOOK_SECONDS)
            role.host.crash()

        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        seconds = burst(made.bed.client, port, count, die)
        role.crash()
    made.roles.restart_surrogate(AT, empty=False)
    return seconds


def _settle(made: Stage) -> None:
    """Until nobody lags: the first answer ends a burst, and home may not have executed it yet."""
    while any(row.get("lag") for row in made.status()["replicas"]):
        time.sleep(LOOK_SECONDS)


def _median(seconds: Iterator[float]) -> float:
    return statistics.median(list(seconds))
