# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the other end of a link is there: what the caller of a door decides about its beats.

A link that is used says a beat at each tick (`satchel/aligned_timers.py`) before which it has heard
nothing for half a period, and is given up when nothing at all is heard for long enough afterwards.
With a whole period instead, two links would say theirs at every other tick, one when the other does
not. A beat stands behind what was sent before. As long as that leaves the pipe, if slowly, the
answer is waited for.

One that is silent says nothing, and is not given up; its TCP connection stays. Who wakes it says a
beat at once, along with what there is to say. If no answer comes soon, the link is given up.

No clock and no IO: times are those of time.monotonic(), and are handed in.
"""

from __future__ import annotations

import math

from satchel.aligned_timers import next_tick, period_within

WAKE_SECONDS = 1.0
"""On top of round trips, for the answer that a link wakes with: a radio is promoted, or a lost
packet is sent again."""

WAKE_ROUND_TRIPS = 2.0


class Liveness:
    """Of one link. Silent to begin with; one thread's."""

    def __init__(self, keep_alive: float) -> None:
        """keep_alive: seconds of silence after which it is given up, or a period more"""
        self._keep_alive = keep_alive
        self._period = period_within(keep_alive / 3)
        self._heard = -math.inf
        self._waits = False  # for anything, since a beat
        self._unanswered: list[float] = []  # when these beats were said
        self._deadline = math.inf
        self._tick = math.inf
        self._round_trip = 0.0

    @property
    def silent(self) -> bool:
        return self._tick == math.inf

    @property
    def due(self) -> float:
        """When `beat` and `over` are to be asked next; inf: when it is woken."""
        return min(self._tick, self._deadline)

    def begin(self, now: float) -> None:
        """The other side has just been heard for the first time. A beat is due at once: it tells
        how long a round trip takes."""
        self._heard = now
        self._tick = next_tick(self._period, now)
        self._say(now, self._keep_alive)

    def fall_silent(self) -> None:
        """Say no more beats."""
        self._tick = self._deadline = math.inf
        self._waits = False

    def wake(self, now: float) -> bool:
        """Say beats again. Whether one is due now: not where it was awake."""
        if not self.silent:
            return False
        self._tick = next_tick(self._period, now)
        patience = WAKE_SECONDS + WAKE_ROUND_TRIPS * self._round_trip
        self._say(now, min(patience, self._keep_alive))
        return True

    def beat(self, now: float) -> bool:
        """Whether one is to be said now."""
        if now < self._tick:
            return False
        self._tick = next_tick(self._period, now)
        if self._waits or now - self._heard < self._period / 2:
            return False
        self._say(now, self._keep_alive - self._period)
        return True

    def over(self, now: float) -> bool:
        """Whether it is given up. Look for what has come before you ask."""
        return now >= self._deadline

    def bear(self, now: float) -> None:
        """Wait once more for as long, though it is over: the beat is still on its way."""
        self._deadline = now + self._keep_alive - self._period

    def heard(self, now: float) -> None:
        """Anything came."""
        self._heard = now
        self._waits, self._deadline = False, math.inf

    def answered(self, now: float) -> bool:
        """A beat was. Whether there was one."""
        if not self._unanswered:
            return False
        self._round_trip = now - self._unanswered.pop(0)
        return True

    def _say(self, now: float, patience: float) -> None:
        self._waits, self._deadline = True, now + patience
        self._unanswered.append(now)
