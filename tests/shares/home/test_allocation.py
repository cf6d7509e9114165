# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""fallocate(2) through nodes: zeros that every node reads, and room on home's disk."""

from __future__ import annotations

import errno
import os

import pytest

from shares.node import KEEP_SIZE, PUNCH_HOLE, ROOT, ZERO_RANGE, Changes
from shares.protocol import BLOCK
from tests.shares.home.homes import LocalHome
from tests.shares.home.test_shares import READ_WRITE, make
from tests.waiting import eventually

HOLE = PUNCH_HOLE | KEEP_SIZE
COLLAPSE_RANGE, INSERT_RANGE = 8, 32


@pytest.mark.parametrize("log", ["async", "sync", "off"])
@pytest.mark.parametrize("mode", [HOLE, ZERO_RANGE | KEEP_SIZE], ids=["hole", "zeros"])
def test_what_another_node_has_written_is_zeros_and_the_rest_of_its_blocks_stays(
    home: LocalHome, mode: int, log: str
) -> None:
    home.add(log=log)
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one, content=b"a" * 6 * BLOCK)
    second = two.open(file, READ_WRITE).number
    two.write(second, 0, b"b" * 6 * BLOCK)
    one.allocate(first, mode, BLOCK + 7, 3 * BLOCK)
    kept = b"b" * (BLOCK + 7)
    expected = kept + bytes(3 * BLOCK) + b"b" * (2 * BLOCK - 7)
    assert two.read(second, 0, 1 << 20) == one.read(first, 0, 1 << 20) == expected
    two.write(second, 2 * BLOCK, b"c")
    assert one.read(first, 2 * BLOCK, 2) == b"c\0"
    one.release(first, 0)
    two.release(second, 0)
    now = expected[: 2 * BLOCK] + b"c" + expected[2 * BLOCK + 1 :]
    assert eventually(lambda: (home.root / "file").read_bytes() == now)


def test_a_large_hole_in_a_native_file_is_one_at_home(home: LocalHome) -> None:
    home.add()
    one = home.join("one").node
    file, handle = make(one, content=b"x" * (4 << 20))
    one.sync(handle, data_only=False)
    full = (home.root / "file").stat().st_blocks
    one.write(handle, 5, b"not at home yet")
    one.allocate(handle, HOLE, BLOCK, 3 << 20)
    assert one.read(handle, 0, 40) == b"xxxxxnot at home yet".ljust(40, b"x")
    assert one.read(handle, BLOCK, 3 << 20) == bytes(3 << 20)
    assert one.attributes(file, None).size == 4 << 20
    assert (home.root / "file").stat().st_blocks <= full - (3 << 20) // 512


def test_room_is_reserved_on_homes_disk(home: LocalHome) -> None:
    home.add()
    one = home.join("one").node
    file, handle = make(one, content=b"content")
    one.allocate(handle, 0, 0, 2 << 20)
    assert one.attributes(file, None).size == 2 << 20
    assert (home.root / "file").stat().st_blocks >= (2 << 20) // 512
    one.allocate(handle, KEEP_SIZE, 2 << 20, 1 << 20)
    assert one.attributes(file, None).size == 2 << 20
    assert (home.root / "file").stat().st_blocks >= (3 << 20) // 512
    two = home.join("two").node
    content = two.read(two.open(file, os.O_RDONLY).number, 0, 2 << 20)
    assert content == b"content".ljust(2 << 20, b"\0")


def test_a_file_made_ahead_of_home_is_allocated_when_home_has_it(home: LocalHome) -> None:
    home.add()
    one = home.join("one").node
    folder = one.make_folder(ROOT, b"own", 0o755, 0, 0).attributes.file
    for turn in range(20):
        entry, handle = one.create(folder, b"%d" % turn, 0o644, os.O_RDWR, 0, 0)
        one.allocate(handle.number, ZERO_RANGE, 0, 100)
        assert one.attributes(entry.attributes.file, None).size == 100


@pytest.mark.parametrize(
    ("mode", "offset", "length", "code"),
    [
        (COLLAPSE_RANGE, 0, BLOCK, errno.EOPNOTSUPP),
        (INSERT_RANGE, 0, BLOCK, errno.EOPNOTSUPP),
        (PUNCH_HOLE, 0, BLOCK, errno.EOPNOTSUPP),
        (0, -1, BLOCK, errno.EINVAL),
        (HOLE, 0, 0, errno.EINVAL),
        (0, 1 << 62, 1 << 61, errno.EFBIG),
    ],
)
def test_what_cannot_be_is_refused(
    home: LocalHome, mode: int, offset: int, length: int, code: int
) -> None:
    home.add()
    one = home.join("one").node
    file, handle = make(one, content=b"content")
    with pytest.raises(OSError) as caught:
        one.allocate(handle, mode, offset, length)
    assert caught.value.errno == code
    with pytest.raises(OSError) as caught:
        one.hub.allocate(file, mode, offset, length)  # as by a node that does not look
    assert caught.value.errno in {code, errno.EOPNOTSUPP}
    assert one.read(handle, 0, 100) == b"content"
    one.change(file, Changes(size=3), handle)
    assert one.read(handle, 0, 100) == b"con"
