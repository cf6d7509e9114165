# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `satchel plan` predicts against what moves take: back and forth by several routes.

What is predicted is in client.moves.routes. The first moves are predicted from nothing; they count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from bench import Figure, figure
from testbed import story

ROUTES = {
    "notes": ("replay", "handover", "fresh", "planned", "handover", "replay"),
    "speech": ("replay", "replay"),
    "desktop": ("replay", "replay", "planned", "handover"),
}
"""One round of moves from one hotspot to the other and back."""

OPERATIONS = 10
"""Between two moves of `notes`."""

NOTED_SECONDS = 30.0

GOAL = 25.0


def plan_figures(play: story.Story, rounds: Mapping[str, int]) -> Iterator[Figure]:
    """Of services that are on the stick, so many rounds of moves each."""
    errors: list[float] = []
    for service, count in rounds.items():
        errors += yield from _of_service(play, service, count)
    label = f"plan, links of {play.bed.topology.profile.name}"
    what = f"{label}: error of all {len(errors)} moves of all services, median"
    yield figure(what, statistics.median(errors), "%", at_most=GOAL)


def _of_service(
    play: story.Story, service: str, rounds: int
) -> Generator[Figure, None, list[float]]:
    """Its moves; the client is at hotspot A before and after. Gives their errors."""
    label = f"plan of {service}, links of {play.bed.topology.profile.name}"
    asked = 1 + rounds * len(ROUTES[service])
    moves: list[dict[str, Any]] = []
    for _ in _made(play, service, rounds):
        known = _moves(play, service, len(moves) + 1)
        for number, move in enumerate(known[len(moves) :], start=len(moves) + 1):
            yield _of_one(f"{label}: move {number}", move)
        moves = known
    play.stop(service)
    return (yield from _errors(label, moves, asked))


def _made(play: story.Story, service: str, rounds: int) -> Iterator[None]:
    """Make the moves, one after the other, with operations before and after each."""
    spots = ("b", "a")
    count = OPERATIONS if service == "notes" else 1
    play.session(service, "a", media=True)
    play.operate(service, count, "a")
    yield
    for number, route in enumerate(rounds * ROUTES[service]):
        spot = spots[number % len(spots)]
        play.walk(spot)
        options = [] if route == "planned" else ["--route", route]
        play.roles.satchel("move", service, "--to", spot, *options, "--json")
        play.operate(service, count, spot)
        yield


def _of_one(label: str, move: dict[str, Any]) -> Figure:
    """What a move took, beside its prediction, with its phases in the name."""
    asked, replaying = move["asked_seconds"], move["replay_seconds"]
    flowing = move["seconds"] - asked - replaying
    phases = f"asking {asked:.1f}, {move['bytes'] / 1e6:.1f} MB and the start {flowing:.1f}"
    phases += f", {move['replayed']} operations {replaying:.1f}"
    where = f"by {move['route']} from {move['near']} to {move['surrogate']}"
    predicted = ("its prediction", move["predicted"])
    return figure(f"{label}, {where} ({phases})", move["seconds"], "s", against=predicted)


def _errors(
    label: str, moves: list[dict[str, Any]], asked: int
) -> Generator[Figure, None, list[float]]:
    """By how much of what they took the predictions were wrong. asked: moves there were."""
    errors = [abs(move["predicted"] - move["seconds"]) / move["seconds"] * 100 for move in moves]
    for route in sorted({move["route"] for move in moves}):
        of_route = [e for e, move in zip(errors, moves, strict=True) if move["route"] == route]
        took = statistics.median(move["seconds"] for move in moves if move["route"] == route)
        yield figure(f"{label}: {len(of_route)} moves by {route}, median", took, "s")
        what = f"{label}: error of these, the first one included, median"
        yield figure(f"{what}, {route}", statistics.median(of_route), "%")
    missing = float(asked - len(moves))
    yield figure(f"{label}: moves that no prediction was kept of", missing, "1", at_most=0)
    what = f"{label}: error of all {len(errors)} moves, the first ones included, median"
    yield figure(what, statistics.median(errors), "%", at_most=GOAL)
    return errors


def _moves(play: story.Story, service: str, count: int) -> list[dict[str, Any]]:
    """The moves that are remembered, once there are so many or after a while: what one of a
    stateless service takes is known when the new replica has answered, and others are faster."""
    deadline = time.monotonic() + NOTED_SECONDS
    while True:
        moves: list[dict[str, Any]] = play.roles.satchel("plan", service, "--history", "--json")[
            "moves"
        ]
        if len(moves) >= count or time.monotonic() > deadline:
            return moves
        time.sleep(0.5)
