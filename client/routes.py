# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes by which a replica comes to be on a surrogate, and what each is going to take.

Pure: no IO and no clock. A move takes what has to be done before anything flows (a hand-over has to
freeze, home to make a checkpoint), the bytes of what the machine touches first over the rate at
which they came the last times, and the operations that are executed again, at the pace of the last
replays, else of those that were executed of late. A replay's pace is that of its second half: in
the first one a machine waits for blocks. So a rate covers everything that bytes stand for, the
start of the machine and these waits included.

What is predicted is when the replica has caught up; of a stateless service, which has nothing to
catch up with, its first answer to whoever asks at once.

(Su, Flinn: Slingshot, section 4.5: after how many operations a new checkpoint is worth its bytes.)
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.endpoints import HOME

LOOKED_AT = 5
"""Moves of one kind that count, the newest ones."""

ENOUGH_REPLAYED = 5
"""Operations that a replay must have for saying how long one takes."""

FIRST_RATE = 3e6
"""Bytes a second from a stick or a cache, while nothing is known: in the first moves of services it
was 1 to 5 MB/s."""

FIRST_HOME_RATE = 1e6

FIRST_ASKED_SECONDS = {"replay": 0.0, "handover": 3.0, "fresh": 5.0}
"""Before anything flows, while nothing is known. Right after a walk it was 2 to 4 s of a hand-over,
and 4 to 6.5 s of home's checkpoint."""

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
class Made:
    """A move that was made.

    near: where the checkpoint's bytes were, see Situation; bytes: of what the machine was expected
    to touch first; asked_seconds: before anything flowed; replayed: operations executed again, in
    replay_seconds; predicted: of `seconds`, in all
    """

    at: str
    surrogate: str
    route: Route
    near: str
    bytes: int
    asked_seconds: float
    replayed: int
    replay_seconds: float
    seconds: float
    predicted: float

    @property
    def rate(self) -> float:
        """Bytes a second, of what was neither asking nor executing."""
        flowing = self.seconds - self.asked_seconds - self.replay_seconds
        return self.bytes / max(flowing, LEAST_SECONDS)

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
    where the surrogate has had a replica of that checkpoint
    """

    replayed: int
    pace: float | None
    first: int
    changed: int | None
    home: bool
    near: str
    giver: str = ""


@dataclass(frozen=True)
class Prediction:
    """Of one route. bytes: by source; limit: what takes most of the time."""

    route: Route
    seconds: float
    bytes: dict[str, int]
    limit: str


def predict(now: Situation, surrogate: str, made: Sequence[Made]) -> list[Prediction]:
    """The routes there are, the fastest first."""
    pace = FIRST_PACE if now.pace is None else now.pace
    flows = {Route.REPLAY: {now.near: now.first}}
    if now.changed is not None:
        flows[Route.HANDOVER] = {now.giver: now.changed, now.near: now.first}
    if now.home:
        flows[Route.FRESH] = {HOME: now.first}
    predictions = []
    for route, flow in flows.items():
        source = HOME if route is Route.FRESH else now.near
        parts = {
            _ASKED[route]: asked_seconds(route, made),
            f"bytes from {source}": sum(flow.values()) / rate(route, source, surrogate, made),
            f"{now.replayed} operations": now.replayed * pace if route is Route.REPLAY else 0.0,
        }
        longest = max(parts, key=lambda name: parts[name])
        predictions.append(Prediction(route, sum(parts.values()), flow, longest))
    return sorted(predictions, key=lambda prediction: prediction.seconds)


def break_even(now: Situation, predictions: Iterable[Prediction]) -> int | None:
    """The operations after which a new checkpoint would be sooner there than replay; None without
    home."""
    seconds = {prediction.route: prediction.seconds for prediction in predictions}
    if Route.FRESH not in seconds:
        return None
    pace = FIRST_PACE if now.pace is None else now.pace
    alone = seconds[Route.REPLAY] - now.replayed * pace
    return max(0, math.ceil((seconds[Route.FRESH] - alone) / pace))


def was_there(surrogate: str, created: str, made: Iterable[Made]) -> bool:
    """Whether a replica came to that surrogate after the checkpoint was made. created: UTC, ISO
    8601 with microseconds, as in a manifest. Of moves that were noted without these, one in the
    same second counts as earlier."""
    return any(m.surrogate == surrogate and m.at > created for m in made)


def rate(route: Route, near: str, surrogate: str, made: Sequence[Made]) -> float:
    """Bytes a second from there: in the last moves by that route to that surrogate, else to any,
    else by any route. What another source gives says nothing: home may be much slower than a
    stick."""
    from_there = [move for move in made if move.near == near and move.bytes]
    alike = [move for move in from_there if move.route is route]
    there = [move for move in alike if move.surrogate == surrogate]
    for moves in (there, alike, from_there):
        if moves:
            return statistics.median(move.rate for move in moves[-LOOKED_AT:])
    return FIRST_HOME_RATE if near == HOME else FIRST_RATE


def replay_pace(made: Sequence[Made]) -> float | None:
    """Seconds for an operation of the last replays, None where nothing was replayed yet."""
    replays = [move for move in made if move.replayed >= ENOUGH_REPLAYED][-LOOKED_AT:]
    paces = [move.replay_seconds / move.replayed for move in replays]
    return statistics.median(paces) if paces else None


def asked_seconds(route: Route, made: Sequence[Made]) -> float:
    """Before anything flows."""
    seen = [move.asked_seconds for move in made if move.route is route][-LOOKED_AT:]
    return statistics.median(seen) if seen else FIRST_ASKED_SECONDS[route.value]


_ASKED = {
    Route.REPLAY: "the request",
    Route.HANDOVER: "freezing it",
    Route.FRESH: "home's checkpoint",
}
