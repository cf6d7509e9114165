# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program was told is written is not lost: by a cut link, a killed mount, an unmount without
home, a reboot."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.errors import UnavailableError
from tests.needs import requires
from tests.shares.mount.served import LEASE, Served, World, write
from tests.waiting import eventually

pytestmark = requires("fuse")


@pytest.fixture
def world(tmp_path: Path, short_path: Path) -> Iterator[World]:
    world = World(tmp_path, short_path)
    yield world
    world.close()


def opened(world: World, name: str, data: bytes) -> tuple[Served, int]:
    """A mount, and a file there that is open to write; home has that content of it."""
    served = world.mount(wait=20.0)
    descriptor = os.open(served.mountpoint / name, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(descriptor, data, 0)
    os.fsync(descriptor)
    assert (world.root / name).read_bytes() == data
    return served, descriptor


def cut_and_write(world: World, descriptor: int, data: bytes, offset: int = 0) -> None:
    """And close, which succeeds."""
    world.link.cut()
    assert os.pwrite(descriptor, data, offset) == len(data)
    os.close(descriptor)


def content(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def test_what_was_written_and_closed_without_home_is_at_home_after_the_next_mount(
    world: World,
) -> None:
    """It was an empty file, and nobody was told."""
    served, descriptor = opened(world, "file", b"")
    cut_and_write(world, descriptor, content(1, 50_000))
    assert served.behind() >= 50_000
    assert served.unmount() == UnavailableError.exit_code
    assert "1 files, 50000 bytes" in served.log.read_text()
    waits = world.waits()
    assert waits is not None
    assert (waits["files"], waits["bytes"]) == (1, 50_000)
    assert (world.root / "file").read_bytes() == b""
    world.link.mend()
    again = world.mount()
    assert (world.root / "file").read_bytes() == content(1, 50_000)
    assert (again.mountpoint / "file").read_bytes() == content(1, 50_000)
    assert world.waits() is None
    assert again.stop() == 0


def test_what_was_written_just_before_the_cut_is_not_lost(world: World) -> None:
    served = world.mount()
    write(served.mountpoint / "file", content(1, 20_000))
    time.sleep(0.5)
    world.link.cut()
    served.unmount()
    world.link.mend()
    world.recover()
    assert (world.root / "file").read_bytes() == content(1, 20_000)


@pytest.mark.parametrize("later", [False, True], ids=["within the lease", "after the lease"])
def test_what_a_killed_mount_had_not_sent_is_sent_by_the_next(world: World, later: bool) -> None:
    served = world.mount()
    kept = os.open(served.mountpoint / "open", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(kept, content(1, 100_000), 0)
    assert eventually(lambda: served.behind() == 0)
    world.link.cut()
    for place in range(0, 300_000, 3_000):
        os.pwrite(kept, content(place, 3_000), place)
    served.kill()
    if later:
        time.sleep(2 * LEASE)
    world.link.mend()
    world.mount()
    wanted = b"".join(content(place, 3_000) for place in range(0, 300_000, 3_000))
    assert (world.root / "open").read_bytes() == wanted


def test_a_mount_that_was_killed_with_its_fusermount3_can_be_mounted_again(world: World) -> None:
    served = world.mount()
    write(served.mountpoint / "file", b"before")
    served.kill_all()
    with pytest.raises(OSError) as caught:
        served.mountpoint.lstat()
    assert caught.value.errno == errno.ENOTCONN
    again = world.mount()
    assert (again.mountpoint / "file").read_bytes() == b"before"


def test_files_that_were_made_without_home_are_made(world: World) -> None:
    served = world.mount()
    (served.mountpoint / "folder").mkdir()
    write(served.mountpoint / "folder" / "first", b"first")
    world.link.cut()
    for number in range(20):
        write(served.mountpoint / "folder" / f"n{number}", content(number, 1_000 * number))
    served.kill()
    world.link.mend()
    world.recover()
    for number in range(20):
        assert (world.root / "folder" / f"n{number}").read_bytes() == content(
            number, 1_000 * number
        )
    assert world.waits() is None


def test_a_home_that_has_begun_again_takes_what_waits(world: World) -> None:
    served, descriptor = opened(world, "file", content(1, 30_000))
    cut_and_write(world, descriptor, content(2, 10_000), 5_000)
    served.unmount()
    time.sleep(2 * LEASE)
    world.begin_again()
    world.link.mend()
    (recovered,) = world.recover()
    assert not recovered.conflicts
    wanted = bytearray(content(1, 30_000))
    wanted[5_000:15_000] = content(2, 10_000)
    assert (world.root / "file").read_bytes() == wanted


def test_what_others_have_written_over_becomes_a_conflict_copy(world: World) -> None:
    served, descriptor = opened(world, "report.txt", content(1, 10_000))
    cut_and_write(world, descriptor, content(2, 10_000))
    served.kill()
    other = world.mount("other", direct=True)
    assert eventually(lambda: (other.mountpoint / "report.txt").read_bytes() == content(1, 10_000))
    write(other.mountpoint / "report.txt", content(3, 10_000))
    world.link.mend()
    again = world.mount()
    (copy,) = (p for p in world.root.iterdir() if ".sync-conflict-" in p.name)
    assert copy.name.startswith("report.sync-conflict-") and copy.name.endswith("-laptop.txt")
    assert copy.read_bytes() == content(2, 10_000)
    assert (other.mountpoint / "report.txt").read_bytes() == content(3, 10_000)
    assert again.status()["conflicts"] == [copy.name]
    assert copy.name in again.log.read_text()


@requires("root")
def test_a_conflict_copy_is_read_by_who_may_read_the_file(world: World) -> None:
    """It had the file's mode, and was the file of who ran the mount."""
    served, descriptor = opened(world, "report.txt", content(1, 10_000))
    cut_and_write(world, descriptor, content(2, 10_000))
    served.kill()
    other = world.mount("other", direct=True)
    report = other.mountpoint / "report.txt"
    assert eventually(lambda: report.read_bytes() == content(1, 10_000))
    write(report, content(3, 10_000))
    os.chown(report, 4_321, 4_322)
    report.chmod(0o600)
    world.link.mend()
    world.mount()
    (copy,) = (p for p in world.root.iterdir() if ".sync-conflict-" in p.name)
    found = copy.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4_321, 4_322, 0o600)


def test_a_mount_that_goes_on_keeps_what_home_refuses_as_a_conflict_copy(world: World) -> None:
    served, descriptor = opened(world, "report.txt", content(1, 10_000))
    cut_and_write(world, descriptor, content(2, 10_000))
    other = world.mount("other", direct=True)
    assert eventually(lambda: (other.mountpoint / "report.txt").read_bytes() == content(1, 10_000))
    write(other.mountpoint / "report.txt", content(3, 10_000))
    world.link.mend()
    assert eventually(lambda: served.status()["conflicts"])
    (name,) = served.status()["conflicts"]
    assert (served.mountpoint / name).read_bytes() == content(2, 10_000)
    assert (served.mountpoint / "report.txt").read_bytes() == content(3, 10_000)
    assert served.stop() == 0


def test_others_that_only_read_make_no_conflict(world: World) -> None:
    served, descriptor = opened(world, "file", content(1, 10_000))
    cut_and_write(world, descriptor, content(2, 10_000))
    served.kill()
    other = world.mount("other", direct=True)
    assert (other.mountpoint / "file").read_bytes() == content(1, 10_000)
    (recovered,) = world.recover()
    assert not recovered.conflicts
    assert (other.mountpoint / "file").read_bytes() == content(2, 10_000)


def test_what_a_program_removed_does_not_come_back(world: World) -> None:
    served = world.mount()
    descriptor = os.open(served.mountpoint / "file", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(descriptor, content(1, 10_000), 0)
    (served.mountpoint / "file").unlink()
    os.pwrite(descriptor, content(2, 10_000), 0)
    served.kill()
    world.recover()
    assert list(world.root.iterdir()) == []
    assert world.waits() is None


def test_an_fsync_without_home_says_that_it_is_durable_here_alone(world: World) -> None:
    served = world.mount(wait=0.5)
    descriptor = os.open(served.mountpoint / "file", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(descriptor, content(1, 10_000), 0)
    os.fsync(descriptor)
    world.link.cut()
    os.pwrite(descriptor, content(2, 10_000), 0)
    with pytest.raises(OSError) as caught:
        os.fsync(descriptor)
    assert caught.value.errno == errno.ENOLINK
    served.kill()
    world.link.mend()
    world.recover()
    assert (world.root / "file").read_bytes() == content(2, 10_000)
