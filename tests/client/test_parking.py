# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session that nobody uses leaves home, and goes on with its next use."""

import dataclasses
import time

import pytest

from client.platform import settings
from client.service import ServiceSession
from satchel.errors import ConflictError
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.round_trips import RoundTrips, through
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

PARK = 3.0


@pytest.fixture(autouse=True)
def _parks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel remembers is a mount's affair."""
    monkeypatch.setattr(settings, "LEAST_PARK_SECONDS", PARK)


def parked(runner: ServiceSession) -> bool:
    return bool(runner.status()["parked"])


def test_a_session_parks_and_goes_on(carried: World) -> None:
    runner = carried.runner(park_seconds=PARK)
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    assert eventually(lambda: parked(runner))
    time.sleep(PARK)
    assert parked(runner)
    assert post(url).status_code == 200
    assert not runner.status()["parked"]
    assert operations(runner).wait_stable(30)
    assert carried.home.executed("notes") == operations(runner).last


def test_another_client_may_use_the_service_meanwhile(carried: World) -> None:
    runner = carried.runner(park_seconds=PARK)
    assert post(carried.proxy(runner)).status_code == 200
    assert eventually(lambda: parked(runner))
    other = carried.runner(name="other", media=False, run=carried.folder / "r")
    assert post(carried.proxy(other)).status_code == 200
    post(carried.proxy(runner))
    assert eventually(lambda: isinstance(operations(runner).refusal, ConflictError))


def test_the_first_operation_costs_three_round_trips_more_at_most(carried: World) -> None:
    """Than one of a session that is awake."""
    home = carried.settings.home
    with RoundTrips(("127.0.0.1", home.port)) as trips:
        trips.steps = False
        carried.settings = dataclasses.replace(carried.settings, home=through(trips, home))
        runner = carried.runner(park_seconds=PARK)
        url = carried.proxy(runner)
        assert post(url).status_code == 200
        connections = trips.connections
        hops: dict[bool, list[int]] = {True: [], False: []}
        for _ in range(3):
            for parks in (True, False):
                assert not parks or eventually(lambda: parked(runner))
                time.sleep(1.0)
                trips.steps, before = True, trips.hops
                assert post(url).status_code == 200
                hops[parks].append(trips.hops - before)
                trips.steps = False
        assert min(hops[True]) <= min(hops[False]) + 2 * 3, hops
        assert trips.connections == connections
