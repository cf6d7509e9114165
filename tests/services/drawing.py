# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that draws random numbers in a tight loop: `drawing.py`. It keeps the last ones in
DRAWN: a page of MARK and their count, then a ring. It ends MORE draws after a jump of its clock."""

import hashlib
import mmap
import os
import time
from pathlib import Path

DRAWN = Path("/run/drawn")
MARK = hashlib.sha256(b"drawn").digest()
PAGE, SIZE, RING = 4096, 16, 1 << 17
JUMP_SECONDS = 5.0
MORE = 5000


def draw() -> None:
    DRAWN.write_bytes(bytes(PAGE + RING * SIZE))
    with DRAWN.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[: len(MARK)] = MARK
        number, until, last = 0, -1, time.time()
        while number != until:
            place = PAGE + number % RING * SIZE
            memory[place : place + SIZE] = os.urandom(SIZE)
            number += 1
            memory[len(MARK) : len(MARK) + 8] = number.to_bytes(8, "little")
            now = time.time()
            if abs(now - last) > JUMP_SECONDS:
                until = number + MORE
            last = now


def count(page: bytes) -> int:
    """Return how many were drawn. page: the first one of DRAWN."""
    return int.from_bytes(page[len(MARK) : len(MARK) + 8], "little")


def drawn_since(said: bytes, first: int) -> list[bytes]:
    """Return the draws from number `first`, of the content of DRAWN."""
    places = [PAGE + number % RING * SIZE for number in range(first, count(said))]
    return [said[place : place + SIZE] for place in places]


if __name__ == "__main__":
    draw()
    time.sleep(1e9)
