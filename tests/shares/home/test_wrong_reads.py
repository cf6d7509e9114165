# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file that is written and cut by its path is read as it was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
