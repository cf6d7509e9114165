# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that maps a file: PATH LENGTH. It does what its input says, a line each.

A process of its own, because Python keeps its lock while it touches a page, and home is in the
process of the tests."""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

PAGE = 4096
VALUE = 16


class Killed(Exception):
    """The program was killed by a signal, SIGBUS most likely."""


class Mapper:
    """Such a program. Whatever it is told is done when the method returns; Killed."""

    def __init__(self, path: Path, length: int = 0, kind: str = "shared") -> None:
        """length: 0 for all of the file. kind: `shared`, `private`, or `append`, which is shared
        and opened with O_APPEND."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(path), str(length), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "mapped"

    def load(self, offset: int, size: int = 1) -> bytes:
        return bytes.fromhex(self._ask("load", offset, size))

    def store(self, offset: int, data: bytes) -> None:
        self._ask("store", offset, data.hex())

    def msync(self) -> None:
        self._ask("msync")

    def munmap(self) -> None:
        self._ask("munmap")

    def close(self) -> None:
        """The file's descriptor, which is not what keeps a mapping."""
        self._ask("close")

    def truncate(self, size: int) -> None:
        self._ask("truncate", size)

    def spin(self, offset: int, turns: int) -> list[int]:
        """The byte there, so often loaded in a row; each value once, in order."""
        return list(bytes.fromhex(self._ask("spin", offset, turns)))

    def begin(self, *words: object) -> None:
        """Tell it something, and do not wait; `end` does."""
        assert self._process.stdin
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def end(self) -> str:
        return self._answer()

    def _ask(self, *words: object) -> str:
        self.begin(*words)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Killed(signal.Signals(-self._process.wait()).name)
        return line.strip()

    def quit(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.quit()


def spin(mapped: mmap.mmap, offset: int, turns: int) -> bytes:
    seen = bytearray()
    for _ in range(turns):
        value = mapped[offset]
        if not seen or seen[-1] != value:
            seen.append(value)
    return bytes(seen)


def history(mapped: mmap.mmap, program: int, turns: int, pages: int) -> str:
    """Loads and stores of registers, one to a page, each store with its msync: what happened, as
    tests.shares.history.Operation has it."""
    chance = random.Random(program)
    found = []
    for turn in range(turns):
        page = chance.randrange(pages)
        writes = chance.random() < 0.4
        began = time.monotonic()
        if writes:
            value = f"{program}:{turn}".ljust(VALUE)
            mapped[page * PAGE : page * PAGE + VALUE] = value.encode()
            mapped.flush(page * PAGE, PAGE)
        else:
            value = mapped[page * PAGE : page * PAGE + VALUE].decode().strip("\0")
        ended = time.monotonic()
        found.append([program, str(page), writes, value, began, ended])
    return json.dumps(found)


def main(path: str, length: str, kind: str) -> None:
    file = os.open(path, os.O_RDWR | (os.O_APPEND if kind == "append" else 0))
    flags = mmap.MAP_PRIVATE if kind == "private" else mmap.MAP_SHARED
    mapped = mmap.mmap(file, int(length), flags)
    print("mapped", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        said = "done"
        if word == "load":
            offset, size = map(int, rest)
            said = mapped[offset : offset + size].hex()
        elif word == "store":
            data = bytes.fromhex(rest[1])
            mapped[int(rest[0]) : int(rest[0]) + len(data)] = data
        elif word == "msync":
            mapped.flush()
        elif word == "munmap":
            mapped.close()
        elif word == "close":
            os.close(file)
        elif word == "truncate":
            os.ftruncate(file, int(rest[0]))
        elif word == "history":
            said = history(mapped, *map(int, rest))
        elif word == "spin":
            said = spin(mapped, *map(int, rest)).hex()
        print(said, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
