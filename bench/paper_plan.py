# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `satchel plan` predicts against what moves take: back and forth by several routes.

A prediction is of the seconds from the request until the replica takes part: it has caught up then,
or, of a stateless service, is asked the next call. The first moves are predicted from nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench.harness import Figure, figure
from testbed import story

ROUTES = {
    "notes": ("replay", "handover", "fresh", "planned", "handover", "replay"),
    "speech": ("replay", "replay"),
}
"""One round of moves from one hotspot to the other and back."""

OPERATIONS = 10
"""Between two moves of `notes`."""

GOAL = 25.0


def plan_figures(play: story.Story, service: str, rounds: int) -> Iterator[Figure]:
    """Moves of a service that is on the stick; the client is at hotspot A before and after."""
    play.session(service, "a", media=True)
    spots = ("b", "a")
    count = OPERATIONS if service == "notes" else 1
    routes = [route for _ in range(rounds) for route in ROUTES[service]]
    for number, route in enumerate(routes):
        spot = spots[number % len(spots)]
        play.operate(service, count, play.bed.client.hotspot or "")
        play.walk(spot)
        options = [] if route == "planned" else ["--route", route]
        play.roles.satchel("move", service, "--to", spot, *options, "--json")
    moves = play.roles.satchel("plan", service, "--history", "--json")["moves"]
    play.stop(service)
    if play.bed.client.hotspot != "a":
        play.walk("a")
    label = f"plan of {service}, links of {play.bed.topology.profile.name}"
    errors = [abs(move["predicted"] - move["seconds"]) / move["seconds"] * 100 for move in moves]
    for route in sorted({move["route"] for move in moves}):
        of_route = [e for e, move in zip(errors, moves, strict=True) if move["route"] == route]
        took = statistics.median(move["seconds"] for move in moves if move["route"] == route)
        yield figure(f"{label}: {len(of_route)} moves by {route}, median", took, "s")
        what = f"{label}: error of these, the first one included, median"
        yield figure(f"{what}, {route}", statistics.median(of_route), "%")
    what = f"{label}: error of all {len(errors)} moves, the first ones included, median"
    yield figure(what, statistics.median(errors), "%", at_most=GOAL)
