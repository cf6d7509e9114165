# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes by which a replica comes to be on a surrogate, and what each is going to take.

Pure: no IO and no clock. A move takes what has to be done before anything flows (a hand-over has to
freeze, home to make a checkpoint), the bytes of what the machine touches first over the rate at
which they came the last times, and the operations that are executed again, at the pace of the last
replays, else of those that were executed of late. A replay's pace is that of its second half: in
the first one a machine waits for blocks. So a rate covers everything that bytes stand for, the
start of the machine and these waits included.

A machine that has nothing to execute has caught up when it runs, and most of those bytes come
later. So moves with operations to execute, and without, are told apart. What this service's moves
do not say the moves of others from this client do, and what none of them says is assumed.

What is predicted is when the replica has caught up; of a stateless service, which has nothing to
catch up with, its first answer to whoever asks at once.

(Su, Flinn: Slingshot, section 4.5: after how many operations a new checkpoint is worth its bytes.)
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from client.platform.settings import HOME

LOOKED_AT = 5
"""Moves of one kind that count, the newest ones."""

ENOUGH_REPLAYED = 5
"""Operations that a replay must have for saying how long one takes."""

FIRST_RATE = 3e6
"""Bytes a second from a stick or a cache, while nothing is known: in the first moves of services it
was 1 to 5 MB/s."""

FIRST_HOME_RATE = 1.2e6
"""From home, behind an uplink of 20 Mb/s, it was 1.1 to 1.4 MB/s."""

FIRST_ASKED_SECONDS = {"replay": 0.0, "handover": 1.0, "fresh": 4.0}
"""Before anything flows, while nothing is known. Right after a walk it was 0.6 to 1 s of a
hand-over, and 3.5 to 6 s of home's checkpoint."""

FIRST_START_SECONDS = {"replay": 0.8, "handover": 1.5, "fresh": 1.3}
"""Then, until a machine runs that has nothing to execute, while nothing is known. It was 0.6 to 1.2
s from a stick; from home its device state takes longer. One that was handed over has to have all
that only its giver has."""

FIRST_PACE = 0.05
"""Seconds an operation takes, while nothing is known."""

LEAST_SECONDS = 0.1

CACHE = "cache"
"""The surrogate's own, as a source of a checkpoint's bytes."""


class Route(enum.Enum):
    """How a replica comes to be on a surrogate."""

    REPLAY = "replay"
    """From the checkpoint, with the operations since then executed again."""

    HANDOVER = "handover"
    """From the replica on another surrogate, as it is."""

    FRESH = "fresh"
    """From a checkpoint that home takes for this."""


@dataclass(frozen=True)
class MoveRecord:
    """A move that was made.

    checkpoint: its id; near: where its bytes were, see Situation; bytes: of what the machine was
    expected to touch first; asked_seconds: before anything flowed; replayed: operations executed
    again, in replay_seconds (1 and 0 of a stateless service: its first answer); predicted: of
    `seconds`, in all
    """

    at: str
    surrogate: str
    checkpoint: str
    route: Route
    near: str
    bytes: int
    asked_seconds: float
    replayed: int
    replay_seconds: float
    seconds: float
    predicted: float

    @property
    def flowing(self) -> float:
        """Seconds that were neither asking nor executing."""
        return max(self.seconds - self.asked_seconds - self.replay_seconds, LEAST_SECONDS)

    @property
    def rate(self) -> float:
        """Bytes a second, of that time."""
        return self.bytes / self.flowing

    @property
    def error(self) -> float:
        """By how much of what it took the prediction was wrong."""
        return abs(self.predicted - self.seconds) / self.seconds


@dataclass(frozen=True)
class Situation:
    """What is known before a move.

    replayed: operations since the checkpoint; pace: seconds for each, None where nothing is known;
    first: bytes that a machine touches first, as the checkpoint says; changed: bytes that a
    hand-over has to send, None where nobody can hand over; home: whether it can be asked;
    near, giver: the sources' names, of the checkpoint's bytes and of a hand-over's; near is CACHE
    where the surrogate has had a replica of that checkpoint; answers: its first answer counts, as
    that of a stateless service does
    """

    replayed: int
    pace: float | None
    first: int
    changed: int | None
    home: bool
    near: str
    giver: str = ""
    answers: bool = False


@dataclass(frozen=True)
class Prediction:
    """Of one route. bytes: by source; limit: what takes most of the time."""

    route: Route
    seconds: float
    bytes: dict[str, int]
    limit: str


def predict(
    now: Situation, surrogate: str, made: Sequence[MoveRecord], others: Sequence[MoveRecord] = ()
) -> list[Prediction]:
    """The routes there are, the fastest first. others: moves of other services."""
    flows = {Route.REPLAY: {now.near: now.first}}
    if now.changed is not None:
        flows[Route.HANDOVER] = {now.giver: now.changed, now.near: now.first}
    if now.home:
        flows[Route.FRESH] = {HOME: now.first}
    predictions = []
    for route, flow in flows.items():
        source = HOME if route is Route.FRESH else now.near
        count = now.replayed if route is Route.REPLAY else 0
        changed = now.changed or 0 if route is Route.HANDOVER else 0
        kind = _MoveKind(route, source, surrogate, executes=now.answers or count > 0)
        parts = {
            _ASKED[route]: asked_seconds(route, made, others),
            f"bytes from {source}": kind.seconds(now.first, changed, made, others),
            f"{now.replayed} operations": count * _pace(now),
        }
        longest = max(parts, key=lambda name: parts[name])
        predictions.append(Prediction(route, sum(parts.values()), flow, longest))
    return sorted(predictions, key=lambda prediction: prediction.seconds)


def break_even(
    now: Situation, surrogate: str, made: Sequence[MoveRecord], others: Sequence[MoveRecord] = ()
) -> int | None:
    """The operations after which a new checkpoint would be sooner there than replay; None without
    home."""
    some = replace(now, replayed=max(1, now.replayed))
    seconds = {each.route: each.seconds for each in predict(some, surrogate, made, others)}
    if Route.FRESH not in seconds:
        return None
    alone = seconds[Route.REPLAY] - some.replayed * _pace(now)
    return max(0, math.ceil((seconds[Route.FRESH] - alone) / _pace(now)))


def was_there(surrogate: str, checkpoint: str, made: Iterable[MoveRecord]) -> bool:
    """Return whether a replica of that checkpoint came to that surrogate."""
    return any((m.surrogate, m.checkpoint) == (surrogate, checkpoint) for m in made)


@dataclass(frozen=True)
class _MoveKind:
    """Of moves that are alike. near: see Situation; executes: operations, once it runs"""

    route: Route
    near: str
    surrogate: str
    executes: bool

    def seconds(
        self, first: int, changed: int, made: Sequence[MoveRecord], others: Sequence[MoveRecord]
    ) -> float:
        """What is neither asking nor executing, with so many bytes: at the rate of the last moves
        by that route to that surrogate, else to any. What another source gives says nothing: home
        may be much slower than a stick."""
        if rate := self._rate([m for m in made if m.near == self.near and m.bytes]):
            return (first + changed) / rate
        if self.executes:
            rate = _median(m.rate for m in others if m.near == self.near and m.replayed)
            assumed = FIRST_HOME_RATE if self.near == HOME else FIRST_RATE
            return (first + changed) / (rate or assumed)
        alike = [m for m in others if m.route is self.route and not m.replayed]
        start = _median(m.flowing for m in alike) or FIRST_START_SECONDS[self.route.value]
        return start + changed / FIRST_RATE

    def _rate(self, from_there: Iterable[MoveRecord]) -> float | None:
        """Of these moves of the service. Those by another route count where operations are
        executed; where none are, those by this one that did execute some, if there are no others.
        """
        alike = [m for m in from_there if m.route is self.route]
        same = [m for m in alike if bool(m.replayed) is self.executes]
        there = [m for m in same if m.surrogate == self.surrogate]
        last = [m for m in from_there if m.replayed] if self.executes else alike
        return next(
            (_median(m.rate for m in moves) for moves in (there, same, last) if moves), None
        )


def replay_pace(made: Sequence[MoveRecord]) -> float | None:
    """Seconds for an operation of the last replays, None where nothing was replayed yet."""
    replays = [move for move in made if move.replayed >= ENOUGH_REPLAYED][-LOOKED_AT:]
    paces = [move.replay_seconds / move.replayed for move in replays]
    return statistics.median(paces) if paces else None


def asked_seconds(
    route: Route, made: Sequence[MoveRecord], others: Sequence[MoveRecord] = ()
) -> float:
    """Before anything flows."""
    for moves in (made, others):
        if seen := [move.asked_seconds for move in moves if move.route is route]:
            return statistics.median(seen[-LOOKED_AT:])
    return FIRST_ASKED_SECONDS[route.value]


def _pace(now: Situation) -> float:
    return FIRST_PACE if now.pace is None else now.pace


def _median(values: Iterable[float]) -> float | None:
    """Of the newest ones; None of none."""
    last = list(values)[-LOOKED_AT:]
    return statistics.median(last) if last else None


_ASKED = {
    Route.REPLAY: "the request",
    Route.HANDOVER: "freezing it",
    Route.FRESH: "home's checkpoint",
}
