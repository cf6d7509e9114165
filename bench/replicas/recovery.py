# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate dies with operations in flight (MEFS, Figure 7): what the client waits for beyond
home's own execution of them.

Home executes every operation anyway, so nothing is fetched, restored or sent again. As many
commands as are to be in flight are sent at once by as many programs. The surrogate stands still
then, so that it answers none of them, and loses power. The same with home alone is what they take
themselves. Both begin when every replica has executed what there was before: what home has yet to
execute of that is no part of the recovery. One such pair says little: a burst differs from the next
by more than a death takes. So there are two bursts with home alone, which also say how much they
differ by, and several rounds of all numbers in flight, in turn. On the links of today. Needs root.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.harness import Figure, figure
from bench.replicas.load import burst
from bench.replicas.moves import Stage, stage
from testbed import namespaces

IN_FLIGHT = (1, 10, 50, 100, 200)
QUICK_IN_FLIGHT = (1, 100)
ROUNDS = 5
QUICK_ROUNDS = 1
LOOK_SECONDS = 0.05
AT = "a"
GOAL_AT, GOAL_SECONDS = 100, 0.1


def recovery(quick: bool) -> Iterator[Figure]:
    """The part `recovery`."""
    counts = QUICK_IN_FLIGHT if quick else IN_FLIGHT
    rounds: dict[int, list[_Round]] = {count: [] for count in counts}
    with stage() as made:
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            for count in counts:
                rounds[count].append(_round(made, count))
    for count in counts:
        yield from _figures(count, rounds[count])


@dataclass(frozen=True)
class _Round:
    """Seconds until all are answered: twice with home alone, and when the surrogate dies."""

    alone: tuple[float, float]
    dying: float

    @property
    def beyond(self) -> float:
        """What the death took; below zero where home alone was slower."""
        return self.dying - statistics.mean(self.alone)

    @property
    def apart(self) -> float:
        """How much the bursts with home alone differ by."""
        return max(self.alone) - min(self.alone)


def _figures(count: int, rounds: Sequence[_Round]) -> Iterator[Figure]:
    label = f"surrogate lost with {count} operations in flight"
    alone = statistics.median(seconds for each in rounds for seconds in each.alone)
    dying = statistics.median(each.dying for each in rounds)
    yield figure(f"{label}: home alone", alone * 1e3, "ms")
    yield figure(f"{label}: all answered after", dying * 1e3, "ms")
    goal = GOAL_SECONDS * 1e3 if count == GOAL_AT else None
    name = f"{label}: beyond home's execution just before"
    beyond = statistics.median(each.beyond for each in rounds)
    yield figure(f"{name}, median of {len(rounds)}", beyond * 1e3, "ms", at_most=goal)
    worst = max(each.beyond for each in rounds) * 1e3
    apart = ("two bursts with home alone at most", max(each.apart for each in rounds) * 1e3)
    yield figure(f"{name}, worst round", worst, "ms", against=apart)


def _round(made: Stage, count: int) -> _Round:
    """Both in one session, one soon after the other: other work on this machine slows down both."""
    role, client = made.roles.surrogates[AT], made.bed.client
    with made.session(None) as port:
        burst(client, port, count)
        alone = (_quiet_burst(made, port, count), _quiet_burst(made, port, count))
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


def _quiet_burst(made: Stage, port: int, count: int) -> float:
    """As `burst`, when everything before it was executed."""
    _settle(made)
    return burst(made.bed.client, port, count)


def _settle(made: Stage) -> None:
    """Until nobody lags: the first answer ends a burst, and home may not have executed it yet."""
    while any(row.get("lag") for row in made.status()["replicas"]):
        time.sleep(LOOK_SECONDS)
