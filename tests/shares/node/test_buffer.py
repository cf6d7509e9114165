# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The choice of what a node's buffer gives up, against a plain account of its content."""

import os
import random
from pathlib import Path

from shares.node import Buffer
from shares.node.extent import BLOCK
from shares.protocol import FileId

HOT, COLD, AHEAD = FileId(1), FileId(2), FileId(3)


def blocks(first: int, count: int = 1) -> range:
    return range(first, first + count)


def given_up(buffer: Buffer) -> list[tuple[FileId, int]]:
    found = [(file, n) for file, numbers in buffer.surplus().items() for n in numbers]
    for file, number in found:
        buffer.drop(file, number, 1)
    return found


def test_what_is_read_again_and_again_outlives_a_large_file_that_is_read_once(
    tmp_path: Path,
) -> None:
    """With the least recently used going first, each pass over the large file took all of it."""
    buffer = Buffer(tmp_path, 64 * BLOCK)
    gone: list[tuple[FileId, int]] = []
    for step in range(2000):
        buffer.used(HOT, blocks(step % 16))
        buffer.used(COLD, blocks(step))
        gone += given_up(buffer)
        assert buffer.blocks <= 64
    assert len([file for file, _ in gone if file == COLD]) > 1800
    assert len([file for file, _ in gone if file == HOT]) < 100


def test_what_was_fetched_ahead_goes_before_what_was_read(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, 16 * BLOCK)
    buffer.used(COLD, blocks(0, 14))
    buffer.brought(AHEAD, blocks(0, 3))
    assert given_up(buffer) == [(AHEAD, 0), (AHEAD, 1), (AHEAD, 2)]


def test_what_a_read_waits_for_is_not_given_up(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, 16 * BLOCK)
    buffer.brought(AHEAD, blocks(0, 20))
    gone = buffer.surplus(pinned={(AHEAD, number) for number in range(4)})
    assert gone[AHEAD][0] == 4


def test_a_block_that_is_read_in_small_pieces_is_read_once(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, 16 * BLOCK)
    for _ in range(40):
        buffer.used(COLD, blocks(0))
    for _ in range(2):
        for number in range(1, 17):
            buffer.used(HOT, blocks(number))
    assert (COLD, 0) in given_up(buffer)


def test_the_account_of_a_buffer_is_right_whatever_is_done_with_it(tmp_path: Path) -> None:
    dice, here = random.Random(7), set[tuple[FileId, int]]()
    buffer = Buffer(tmp_path, 40 * BLOCK)
    for _ in range(5000):
        file, first, count = FileId(dice.randrange(4)), dice.randrange(30), dice.randrange(1, 5)
        what = dice.choice(["use", "use", "bring", "keep", "drop", "cut", "forget", "give"])
        named = {(file, number) for number in blocks(first, count)}
        if what in {"use", "bring"}:
            (buffer.used if what == "use" else buffer.brought)(file, blocks(first, count))
            here |= named
        elif what == "keep":
            buffer.keep(file, blocks(first, count))
            here -= named
        elif what == "drop":
            buffer.drop(file, first, count)
            here -= named
        elif what == "cut":
            buffer.drop(file, first)
            here = {key for key in here if key[0] != file or key[1] < first}
        elif what == "forget" and dice.random() < 0.1:
            buffer.forget(file)
            here = {key for key in here if key[0] != file}
        elif what == "give":
            gone = given_up(buffer)
            assert len(gone) == len(set(gone))
            assert set(gone) <= here
            here -= set(gone)
            assert len(here) <= 40
        assert buffer.blocks == len(here)


def test_what_is_cut_off_is_given_back_in_parts_and_holes_at_once(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path)
    for place in (0, 1 << 20, 1 << 30, 1 << 38):
        buffer.write(HOT, place, b"x" * 4 * BLOCK)
    turns = 0
    while buffer.shrink(HOT, BLOCK, 5 * BLOCK):
        turns += 1
    assert turns == 2
    assert buffer.read(HOT, 0, 2 * BLOCK) == b"x" * BLOCK + bytes(BLOCK)
    assert os.fstat(buffer.descriptor(HOT)).st_size == BLOCK
