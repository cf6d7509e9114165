# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session that nobody uses leaves home, and goes on with its next use."""

import time

import pytest

from client import settings
from client.runner import Runner
from satchel.errors import ConflictError
from tests.client.world import World, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

PARK = 3.0


@pytest.fixture(autouse=True)
def _parks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel remembers is a mount's affair."""
    monkeypatch.setattr(settings, "LEAST_PARK_SECONDS", PARK)


def parked(runner: Runner) -> bool:
    return (
        bool(runner.status()["parked"])
        and not runner._links.get("home", runner.settings.home).alive
    )


def test_a_session_parks_and_goes_on(carried: World) -> None:
    runner = carried.runner(park_seconds=PARK)
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    assert eventually(lambda: parked(runner))
    time.sleep(PARK)
    assert parked(runner)
    assert post(url).status_code == 200
    assert not runner.status()["parked"]
    assert runner.session.wait_stable(30)
    assert carried.home.executed("notes") == runner.session.last


def test_another_client_may_use_the_service_meanwhile(carried: World) -> None:
    runner = carried.runner(park_seconds=PARK)
    assert post(carried.proxy(runner)).status_code == 200
    assert eventually(lambda: parked(runner))
    other = carried.runner(name="other", media=False, run=carried.folder / "r")
    assert post(carried.proxy(other)).status_code == 200
    post(carried.proxy(runner))
    assert eventually(lambda: isinstance(runner.session.refusal, ConflictError))
