# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are cut: what home asks for, what is kept, what is never seen again."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from shares.node import ROOT, Changes
from shares.protocol import BLOCK
from tests.shares.home.homes import LocalHome
from tests.shares.home.test_shares import READ_WRITE, make
from tests.waiting import eventually


def test_a_cut_takes_what_others_wrote_behind_it(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one, content=b"a" * 5 * BLOCK)
    second = two.open(file, READ_WRITE).number
    two.write(second, 3 * BLOCK, b"b" * BLOCK)
    one.change(file, Changes(size=BLOCK + 7), first)
    assert two.read(second, 0, 1 << 20) == b"a" * (BLOCK + 7)
    two.write(second, 2 * BLOCK, b"c")
    expected = b"a" * (BLOCK + 7) + bytes(BLOCK - 7) + b"c"
    assert one.read(first, 0, 1 << 20) == expected
    one.release(first, 0)
    two.release(second, 0)
    assert eventually(lambda: (home.root / "file").read_bytes() == expected)


@pytest.mark.parametrize("alone", [False, True], ids=["shared", "native"])
def test_a_cut_calls_home_the_partial_block_alone(
    home: LocalHome, alone: bool, record_property: Callable[[str, object], None]
) -> None:
    """All that was written before the cut went home as well: 2 MB for half of 1,000 blocks."""
    home.add(log="off")
    one, two = home.join("one").node, home.join("two").node
    file, handle = make(one, content=b"begun")
    if not alone:
        two.open(file, READ_WRITE)
    one.write(handle, 0, b"x" * 1000 * BLOCK)
    session = home.share.sessions[one.hub.node]

    def came() -> int:
        one.hub.attributes(ROOT)  # behind all that the node has said
        kinds = ("RecallReply", "Flush", "Push", "Release")
        return sum(session.traffic_bytes["in", kind] for kind in kinds)

    before = came()
    (one if alone else two).change(file, Changes(size=500 * BLOCK + 5), None)
    record_property("bytes", came() - before)
    assert came() - before < 1000
    assert one.read(handle, 0, 1000 * BLOCK) == b"x" * (500 * BLOCK + 5)


@pytest.mark.parametrize("handle", [True, False], ids=["of an open file", "with an open"])
def test_who_has_had_a_file_cut_writes_it_without_asking(home: LocalHome, handle: bool) -> None:
    """The first write asked for the ownership of what home had just taken from everybody."""
    home.add(log="off")
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one, content=b"a" * 3 * BLOCK)
    second = two.open(file, READ_WRITE).number
    two.write(second, 0, b"b" * 10)
    if handle:
        one.change(file, Changes(size=0), first)
    else:
        one = home.join("three").node
        first = one.open(file, os.O_RDWR | os.O_TRUNC).number
    one.write(first, 0, b"new")
    assert one.content.traffic["Acquire"] == one.content.traffic["Fetch"] == 0
    assert two.read(second, 0, BLOCK) == one.read(first, 0, BLOCK) == b"new"
    two.write(second, 0, b"old")
    assert one.read(first, 0, BLOCK) == b"old"


def test_what_is_cut_off_a_native_file_is_neither_named_nor_sent(home: LocalHome) -> None:
    """Home made a record of each block, and asked for each to be let go, with its lock held."""
    home.add(log="off")
    one = home.join("one").node
    file, handle = make(one, content=b"x" * 4000 * BLOCK)
    one.change(file, Changes(size=BLOCK), handle)
    numbers = [
        n for n in range(-1, 4000) if home.share.coherence.directory.record(file, n) is not None
    ]
    assert numbers == [-1, 0]
    # What is before the cut stays the node's.
    assert one.content.traffic["Flush"] == one.content.traffic["Invalidate"] == 0
    assert one.read(handle, 0, 3 * BLOCK) == b"x" * BLOCK
    one.write(handle, 2 * BLOCK, b"z")
    expected = b"x" * BLOCK + bytes(BLOCK) + b"z"
    two = home.join("two").node
    assert two.read(two.open(file, os.O_RDONLY).number, 0, 9 * BLOCK) == expected
