# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file that is written and cut by its path is read as it was written."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from shares.node import Buffer
from tests.needs import requires
from tests.shares.home.homes import LocalHome

pytestmark = requires("fuse")


@pytest.mark.parametrize(
    ("first", "offset", "size", "last"),
    [(24604, 3715, 58545, 154967), (39753, 17436, 1299, 123595)],
)
def test_a_file_is_read_as_written_between_two_truncates_by_path(
    home: LocalHome, first: int, offset: int, size: int, last: int
) -> None:
    home.add()
    place = home.mount(home.join("one").node)
    path, data = place / "f", b"\xd6" * size
    path.touch()
    os.truncate(path, first)
    file = os.open(path, os.O_RDWR)
    os.pwrite(file, data, offset)
    os.close(file)
    os.truncate(path, last)
    expected = (bytes(offset) + data).ljust(last, b"\0")
    assert path.read_bytes() == expected
    assert Path(home.root / "f").read_bytes() == expected


def test_a_read_of_more_than_the_buffer_holds_ends(home: LocalHome, tmp_path: Path) -> None:
    """Its blocks pushed each other out for ever."""
    home.add()
    data = random.Random(1).randbytes(1 << 20)
    small = Buffer(tmp_path / "small", 1 << 17)
    one, two = home.mount(home.join("one").node), home.mount(home.join("two", buffer=small).node)
    (one / "f").write_bytes(data)
    with (one / "f").open("r+b"), (two / "f").open("rb", buffering=0) as file:
        for offset in range(0, len(data), 8192):  # every second block, so many requests follow
            assert os.pread(file.fileno(), 4096, offset) == data[offset : offset + 4096]
        for offset in (0, len(data) // 2 + 5000):
            assert os.pread(file.fileno(), len(data), offset) == data[offset:]


def test_another_name_makes_an_open_file_no_shorter(home: LocalHome) -> None:
    """The answer to link told the kernel the size at home, and the kernel copied nothing."""
    home.add()
    place = home.mount(home.join("one").node)
    data = random.Random(2).randbytes(166_332)
    with (place / "f").open("w+b", buffering=0) as file:
        os.pwrite(file.fileno(), data, 0)
        os.link(place / "f", place / "g")
        assert os.copy_file_range(file.fileno(), file.fileno(), 4096, 122_881, 38_436) == 4096
        assert os.pread(file.fileno(), 4096, 38_436) == data[122_881 : 122_881 + 4096]


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR], ids=["to read", "to write"])
def test_where_an_open_file_ends_is_asked_after_a_change_of_its_times(
    home: LocalHome, flags: int
) -> None:
    """The kernel was given its attributes to keep: seek(2) went to where the end had been."""
    home.add()
    one, two = home.mount(home.join("one").node), home.mount(home.join("two").node)
    (one / "f").write_bytes(b"content")
    file = os.open(one / "f", flags)
    os.utime(one / "f", (1, 2))
    os.truncate(two / "f", 100)
    assert os.lseek(file, 0, os.SEEK_END) == 100
    os.close(file)
