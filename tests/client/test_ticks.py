# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two sessions and a mount that nobody uses say their beats together: one wake of the radio, not
three. The mount's are the most frequent: its lease is short."""

import dataclasses
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from satchel.aligned_timers import TICK_SECONDS
from tests.client.world import World
from tests.needs import requires
from tests.round_trips import RoundTrips, through
from tests.shares.mount import served
from tests.waiting import eventually
from wire import SELDOM_SECONDS

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

LEASE = 10.0
"""Of a share, as homes have it."""

APART_SECONDS = 0.4
"""Between two things that are not said together: a fraction of a tick."""

OFFSET_SECONDS = 1.4
"""From the start of one to the start of the next. Who counts from there is apart from the rest."""


def wakes(heard: dict[str, RoundTrips], since: float) -> list[set[str]]:
    """Who spoke at each moment at which anybody did, but for the first and the last."""
    said = sorted((at, who) for who, trips in heard.items() for at, _ in trips.said if at > since)
    found = [{said[0][1]}] if said else []
    for (before, _), (at, who) in pairwise(said):
        if at - before > APART_SECONDS:
            found.append(set())
        found[-1].add(who)
    return found[1:-1]


def test_two_sessions_and_a_mount_speak_at_the_same_ticks(
    carried: World, tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "LEASE", LEASE)
    carried.home.launch("speech")
    carried.home.keep_alive = SELDOM_SECONDS  # sshd's own, which is not a session's
    carried.home.cut()
    carried.home.mend()
    home = carried.settings.home
    with ExitStack() as stack:
        heard = {who: RoundTrips(("127.0.0.1", home.port)) for who in ("notes", "speech")}
        (tmp_path / "share").mkdir()
        (short_path / "m").mkdir()
        world = served.World(tmp_path / "share", short_path / "m")
        heard["mount"] = RoundTrips(world.direct, short_path / "m" / "t")
        for trips in heard.values():
            stack.callback(trips.close)
            trips.steps = False
        stack.callback(world.close)
        for service in ("notes", "speech"):
            carried.settings = dataclasses.replace(
                carried.settings, home=through(heard[service], home)
            )
            carried.runner(service, media=False, park_seconds=0.0)
            time.sleep(OFFSET_SECONDS)
        world.link.path = short_path / "m" / "t"
        world.mount()

        seen: list[object] = []

        def together() -> bool:
            began = time.monotonic()
            time.sleep(18.0)
            found = wakes(heard, began)
            moments = {
                who: [(round(at % TICK_SECONDS, 2), size) for at, size in trips.said if at > began]
                for who, trips in heard.items()
            }
            seen.append((found, moments))
            all_three = sum(each == {*heard} for each in found)
            return all_three > len(found) / 2 and all("mount" in each for each in found)

        assert eventually(together, 100), seen
