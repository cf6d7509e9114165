# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names and attributes on mounts that a local folder has right."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shares.home.storage.system_calls import allocate
from shares.node.operations import KEEP_SIZE, PUNCH_HOLE
from tests.needs import requires
from tests.shares.node.test_mounts import Mounts, mounts, run, staying, world
from tests.waiting import eventually

__all__ = ["mounts", "staying", "world"]

pytestmark = requires("fuse")


@pytest.mark.parametrize("to", ["c", "a"], ids=["on", "back"])
def test_a_folder_that_another_mount_has_moved_is_renamed_at_once(
    mounts: list[Path], to: str
) -> None:
    """It gave ESTALE until a program had looked at the folder."""
    one, two = mounts
    for turn in range(6):
        for name in "abc":
            (one / f"{name}{turn}").mkdir()
        folder = Path(f"a{turn}", "d")
        (one / folder).mkdir()
        (one / folder / "file").write_text("x")
        assert (two / folder / "file").stat()
        (one / folder).rename(one / f"b{turn}" / "d")
        (two / f"b{turn}" / "d").rename(two / f"{to}{turn}" / "d")
        assert (one / f"{to}{turn}" / "d" / "file").read_text() == "x"


def test_a_sparse_file_is_shrunk_at_once_whatever_its_size(mounts: list[Path]) -> None:
    """It took 20 s for each tebibyte, and home took the mount for lost."""
    one, two = (place / "file" for place in mounts)
    with one.open("w+b", buffering=0) as file:
        began = time.monotonic()
        for size in (5, 0):
            file.truncate(1 << 40)
            os.pwrite(file.fileno(), b"far", 1 << 39)
            assert two.stat().st_size == 1 << 40
            file.truncate(size)
            os.pwrite(file.fileno(), b"12345678", 0)
        assert time.monotonic() - began < 30
        assert two.read_bytes() == b"12345678"


@pytest.mark.parametrize("size", [7 << 60, 17 << 40], ids=["7 EiB", "17 TiB"])
def test_a_size_that_no_file_can_have_changes_nothing(mounts: list[Path], size: int) -> None:
    """The handle gave EFBIG for every call from then on, and home's file was changed."""
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"before")
    with one.open("r+b", buffering=0) as file:
        if takes(one.parent.parent.parent, size):
            return  # nothing is refused on this file system
        for cut in (file.truncate, lambda to: os.posix_fallocate(file.fileno(), 0, to)):
            with pytest.raises(OSError, match=r"too large|No space"):
                cut(size)
            assert os.fstat(file.fileno()).st_size == two.stat().st_size == 6
            os.pwrite(file.fileno(), b"after!", 0)
            os.fsync(file.fileno())
            assert file.read(10) == two.read_bytes() == b"after!"
            file.seek(0)


def takes(folder: Path, size: int) -> bool:
    """Whether a file of that folder's file system can be so long."""
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            file.truncate(size)
        except OSError:
            return False
        return True


MOMENTS = {"1600": -11_676_096_000, "1938": -1_000_000_000, "2300": 10_413_792_000, "3000": 1 << 35}
"""Seconds since 1970 of files that are named so."""


def test_dates_are_those_that_the_file_system_has(world: Mounts, tmp_path: Path) -> None:
    """Dates before 1678 and after 2262 were others, and no name of their folder was shown."""
    here = tmp_path / "here"
    for folder in (here, world.root / "home", world.root / "mount"):
        folder.mkdir()
    mounts = [world.mount(), world.mount()]
    for folder in (here, world.root / "home", mounts[0] / "mount"):
        for name, moment in MOMENTS.items():
            (folder / name).write_bytes(b"x")
            os.utime(folder / name, ns=(moment * 10**9 + 7, moment * 10**9 + 123_456_789))
    places = [place / folder for place in mounts for folder in ("home", "mount")]
    for place in (*places, world.root / "mount"):
        for found in here.iterdir():
            assert eventually(partial(same_times, place / found.name, found)), place / found.name
            with (place / found.name).open("rb") as file:
                assert os.fstat(file.fileno()).st_mtime_ns == found.stat().st_mtime_ns
        assert len(list(place.iterdir())) == len(MOMENTS)


def same_times(one: Path, two: Path) -> bool:
    return one.stat().st_mtime_ns == two.stat().st_mtime_ns


def content(path: Path) -> tuple[int, dict[int, bytes]]:
    """The size of a file, and its content without holes, by where it begins."""
    found = {}
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            found[start] = os.pread(file.fileno(), at - start, start)
        with pytest.raises(OSError, match="No such device or address"):
            os.lseek(file.fileno(), size, os.SEEK_DATA)
    return size, found


def test_holes_are_where_they_are_at_home(mounts: list[Path], tmp_path: Path) -> None:
    """All of a file was content: cp, tar and du went through 5 GiB."""
    (one, two), here = mounts, tmp_path / "here"
    for place in (one, here):
        with (place / "f" if place == one else here).open("w+b", buffering=0) as file:
            for at in (1 << 20, (1 << 30) + 100, 3 << 30):
                os.pwrite(file.fileno(), os.urandom(1) * 5000, at)
            file.truncate(5 << 30)
            os.fsync(file.fileno())
            if place == one:
                assert content(two / "f") == content(one / "f")  # of which one has written all
    assert [size for size, _ in map(content, (one / "f", here))] == [5 << 30, 5 << 30]
    assert content(one / "f")[1].keys() == content(here)[1].keys()
    for place in mounts:
        assert eventually(partial(same_room, place / "f", here))
        assert int(run(place, "du -k f").split()[0]) <= 100
    run(one, "cp --sparse=auto f g; tar -cSf t.tar f; mkdir out; tar -xSf t.tar -C out")
    assert eventually(
        lambda: content(two / "out" / "f") == content(two / "g") == content(one / "f")
    )


def same_room(one: Path, two: Path) -> bool:
    return one.stat().st_blocks == two.stat().st_blocks


def test_no_content_is_taken_for_a_hole(mounts: list[Path]) -> None:
    """Also if another mount has written it, and home has not got it."""
    one, two = (place / "f" for place in mounts)
    chance = random.Random(5)
    model = bytearray(1 << 22)
    with one.open("w+b", buffering=0) as first, two.open("r+b", buffering=0) as second:
        first.truncate(len(model))
        for turn in range(60):
            at, data = chance.randrange(len(model) - 9000), chance.randbytes(chance.randrange(9000))
            writer = chance.choice([first, second])
            os.pwrite(writer.fileno(), data, at)
            model[at : at + len(data)] = data
            if turn % 7 == 3:
                hole = chance.randrange(1 << 9) << 12
                allocate(str(chance.choice([one, two])), KEEP_SIZE | PUNCH_HOLE, hole, 1 << 14)
                model[hole : hole + (1 << 14)] = bytes(len(model[hole : hole + (1 << 14)]))
            if turn % 5 == 0:
                size, found = content(chance.choice([one, two]))
                seen = bytearray(size)
                for start, data in found.items():
                    seen[start : start + len(data)] = data
                assert seen == model


def test_a_change_of_the_status_has_its_time(mounts: list[Path]) -> None:
    """If the file had been written a moment before, its time stayed."""
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"x")
    link = one.with_name("link")
    changes: list[Callable[[], None]] = [
        lambda: one.chmod(0o600),
        lambda: os.link(one, link),
        link.unlink,
    ]
    for change in changes:
        before = one.stat().st_ctime_ns
        time.sleep(0.02)
        change()
        assert one.stat().st_ctime_ns > before
    assert eventually(partial(same_status, one, two))


def same_status(one: Path, two: Path) -> bool:
    return one.stat().st_ctime_ns == two.stat().st_ctime_ns


def test_set_id_bits_end_with_a_write_and_not_before(world: Mounts) -> None:
    """Mounts showed bits that home had cleared, and content that came after a chmod cleared them,
    as with tar."""
    places = [place / "file" for place in (world.mount(), world.mount(), world.root)]
    one, two, home = places
    content = bytearray(os.urandom(300_000))
    with one.open("w+b", buffering=0) as mine:
        for writer in (one, two, one):
            os.pwrite(mine.fileno(), content, 0)
            os.fchmod(mine.fileno(), 0o6755)
            os.fsync(mine.fileno())
            assert [mode(place) for place in places] == [0o6755] * 3
            with writer.open("r+b", buffering=0) as file:
                assert mode(home) == 0o6755
                content[5000:5010] = os.urandom(10)
                os.pwrite(file.fileno(), content[5000:5010], 5000)
                os.fsync(file.fileno())
            assert mode(home) == 0o755
            assert eventually(lambda: mode(one) == mode(two) == 0o755)
    assert home.read_bytes() == content


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777
