# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session does by itself about a surrogate that is near, by what `auto` says."""

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from client import roaming
from tests.client.world import World
from tests.needs import requires
from tests.waiting import eventually
from wire import Peer

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

POLL_SECONDS = 0.1
LOOKS = 10


@pytest.fixture
def near(carried: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """`a` is a millisecond away, home 50, and `b` does not answer."""
    trips = {carried.settings.surrogates["a"].port: 0.001, carried.settings.home.port: 0.050}

    def trip(peer: Peer) -> float | None:
        return trips.get(peer.port)

    monkeypatch.setattr(roaming, "_round_trip", trip)
    monkeypatch.setattr(roaming, "SCAN_SECONDS", POLL_SECONDS)
    return carried


@contextmanager
def session(world: World, auto: str) -> Iterator[list[str]]:
    """What the person is told by one."""
    told: list[str] = []
    runner = world.runner(auto=auto)
    made = roaming.RoamingAgent(runner, told.append)
    made.start()
    try:
        yield told
    finally:
        runner.settle()
        made.close()


def test_known_goes_there_by_itself(near: World) -> None:
    with session(near, "known") as told:
        assert eventually(lambda: near.spots["a"].replicas() != [], 30.0), told
        assert eventually(lambda: any("a answers" in line for line in told), 30.0), told
    assert near.spots["b"].replicas() == []


def test_ask_says_once_what_to_type_and_stays(near: World) -> None:
    with session(near, "ask") as told:
        assert eventually(lambda: told != [], 30.0)
        time.sleep(LOOKS * POLL_SECONDS)
        assert near.spots["a"].replicas() == []
    (line,) = told
    assert "saves 49 ms of each operation" in line
    assert "`satchel move notes --to a`" in line


def test_off_does_neither(near: World) -> None:
    with session(near, "off") as told:
        time.sleep(LOOKS * POLL_SECONDS)
        assert near.spots["a"].replicas() == []
    assert told == []


def test_nothing_is_fetched_beyond_what_is_allowed(near: World) -> None:
    near.settings = dataclasses.replace(near.settings, auto_mib=0)
    with session(near, "known") as told:
        time.sleep(LOOKS * POLL_SECONDS)
        assert near.spots["a"].replicas() == []
    assert told == []
