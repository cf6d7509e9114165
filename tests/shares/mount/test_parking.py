# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A mount that nobody uses leaves home, and nobody who uses it later can tell."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.round_trips import RoundTrips
from tests.shares.mount.served import Served, World, write
from tests.waiting import eventually
from uplink.policy import Interface, built_in_radios

pytestmark = requires("fuse")

PARK = 3.0
"""Longer than a lease of the tests."""

HOUR = 3600.0


@pytest.fixture
def world(tmp_path: Path, short_path: Path) -> Iterator[World]:
    found = World(tmp_path, short_path)
    try:
        yield found
    finally:
        found.close()


def parked(served: Served) -> bool:
    return bool(served.status()["parked"])


def test_an_idle_mount_leaves_and_says_nothing_more(world: World) -> None:
    laptop = world.mount(park=PARK)
    write(laptop.mountpoint / "file", b"before")
    assert eventually(lambda: parked(laptop))
    assert (world.root / "file").read_bytes() == b"before"
    assert eventually(lambda: not world.link.open)
    said = list(world.link.carried)
    time.sleep(2 * PARK)
    assert world.link.carried == said
    radio = Interface(built_in_radios()["4g"])
    for when, size in said:
        radio.transfer(when, up=size)
    assert radio.finish().awake_seconds <= 0.05 * HOUR  # nothing more of that hour costs anything
    assert (laptop.mountpoint / "file").read_bytes() == b"before"
    assert not parked(laptop)
    assert not laptop.status()["taken_over"]
    assert laptop.unmount() == 0


def test_what_others_wrote_meanwhile_is_seen(world: World) -> None:
    laptop, desk = world.mount(park=PARK), world.mount("desk", direct=True)
    for number in range(2):
        write(laptop.mountpoint / "file", b"l%d" % number)
        assert eventually(lambda: parked(laptop))
        assert (desk.mountpoint / "file").read_bytes() == b"l%d" % number
        write(desk.mountpoint / "file", b"d%d" % number)
        write(desk.mountpoint / f"new-{number}", b"new")
        assert (laptop.mountpoint / "file").read_bytes() == b"d%d" % number
        assert (laptop.mountpoint / f"new-{number}").read_bytes() == b"new"
    assert not desk.status()["taken_over"]  # home did not go on without it: it had left


@pytest.mark.parametrize("how", ["stop", "unmount"])
def test_it_ends_while_it_is_parked(world: World, how: str) -> None:
    laptop = world.mount(park=PARK)
    write(laptop.mountpoint / "file", b"content")
    assert eventually(lambda: parked(laptop))
    assert getattr(laptop, how)() == 0
    assert world.waits() is None


def test_an_open_file_keeps_it_awake(world: World) -> None:
    laptop = world.mount(park=PARK)
    write(laptop.mountpoint / "file", b"content")
    with (laptop.mountpoint / "file").open("rb"):
        time.sleep(2 * PARK)
        assert not parked(laptop)
    assert eventually(lambda: parked(laptop))


def test_the_first_access_costs_three_round_trips_more_at_most(
    world: World, short_path: Path
) -> None:
    """Than one of a mount that is awake. The mount leads through the relay that counts."""
    files = [f"file-{number}" for number in range(6)]
    for file in files:
        (world.root / file).write_bytes(file.encode())
    with RoundTrips(world.direct, short_path / "trips") as trips:
        trips.steps = False
        world.link.path = short_path / "trips"
        laptop = world.mount(park=PARK)
        hops: dict[bool, list[int]] = {True: [], False: []}
        for number, file in enumerate(files):
            parks = number % 2 == 1
            assert not parks or eventually(lambda: parked(laptop))
            time.sleep(1.0)
            trips.steps, before = True, trips.hops
            assert (laptop.mountpoint / file).read_bytes() == file.encode()
            hops[parks].append(trips.hops - before)
            trips.steps = False
        assert min(hops[True]) <= min(hops[False]) + 2 * 3, hops
        assert laptop.unmount() == 0


@pytest.mark.nightly
def test_a_home_that_is_away_is_waited_for_as_ever(world: World) -> None:
    laptop = world.mount(park=PARK, wait=1.0)
    write(laptop.mountpoint / "file", b"content")
    assert eventually(lambda: parked(laptop))
    world.link.cut()
    with pytest.raises(OSError, match="rror"):
        (laptop.mountpoint / "file").read_bytes()
    world.link.mend()

    def reads() -> bool:
        try:
            return (laptop.mountpoint / "file").read_bytes() == b"content"
        except OSError:
            return False

    assert eventually(reads)


@pytest.mark.nightly
def test_uses_at_random_moments_lose_nothing(world: World) -> None:
    """Some of them come while it is parking, or while it joins again."""
    draw = random.Random(8)
    laptop = world.mount(park=PARK)
    written: dict[str, bytes] = {}
    for number in range(5):
        time.sleep(draw.uniform(PARK - 0.4, PARK + 1.6))
        name = f"file-{draw.randrange(3)}"
        if name in written:
            assert (laptop.mountpoint / name).read_bytes() == written[name]
        written[name] = b"%d" % number
        write(laptop.mountpoint / name, written[name])
    assert laptop.unmount() == 0
    assert {path.name: path.read_bytes() for path in world.root.iterdir()} == written
