# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs: calls of the system that several processes make, one after the other.

A program follows from its seed alone. Its names are few, so calls meet: files that are open are
renamed over, linked, unlinked, cut by path and by descriptor.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Any

from tests.shares.differential.player import ISLANDS

WORKERS = 3
"""Processes of a program: 0 and 1 are at the first mount, 2 is at the second one."""

FIRST_MOUNT = (0, 1)
SLOTS = 3
BLOCK = 4096
LONGEST = 200_000

KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO = 1, 2, 8, 16
ALLOCATIONS = (0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE, ZERO, ZERO | KEEP_SIZE)
NO_REPLACE, EXCHANGE = 1, 2

FILES = ("a", "b", "c", "d/a", "d/b", "s", "t")
PLACES = (*FILES, "d", "e", "e/a")
PAST = 1_000_000_000 * 10**9
"""Times that programs set are in the year 2001, so those that nobody set can be told from them."""


@dataclass(frozen=True)
class Call:
    """One call. worker: which of the processes makes it; name, arguments: as Player has them."""

    worker: int
    name: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.worker}: {self.name}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True)
class Program:
    """seed: of which it was made. A call `remount` has the worker's mount end and begin again."""

    seed: int
    calls: tuple[Call, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))

    @property
    def mounts(self) -> int:
        """At how many mounts its processes are."""
        return len({call.worker in FIRST_MOUNT for call in self.calls})


OF_DESCRIPTORS = frozenset(
    {"close", "pwrite", "write", "pread", "seek", "read", "ftruncate", "fstat", "fsync"}
    | {"fallocate", "copy"}
)

WEIGHTS = {
    "open": 18,
    "close": 9,
    "pwrite": 16,
    "write": 8,
    "pread": 8,
    "seek": 2,
    "read": 4,
    "ftruncate": 7,
    "fstat": 6,
    "fsync": 3,
    "copy": 4,
    "fallocate": 8,
    "truncate": 10,
    "stat": 6,
    "lstat": 2,
    "content": 10,
    "update": 10,
    "replace": 3,
    "rename": 6,
    "exchange": 2,
    "link": 4,
    "symlink": 2,
    "readlink": 1,
    "unlink": 4,
    "mkdir": 2,
    "rmdir": 2,
    "list": 2,
    "chmod": 2,
    "utime": 3,
    "pause": 1,
}


CONTENT = frozenset(
    {
        "open",
        "close",
        "pwrite",
        "write",
        "pread",
        "read",
        "ftruncate",
        "truncate",
        "content",
        "update",
    }
    | {"fsync", "fstat", "fallocate", "copy", "pause"}
)
"""What programs are made of that do much to the content of few files."""


class _Maker:
    """Makes the calls of one program. It has a rough idea of which names and descriptors there are,
    so that most calls meet something; it need not be right."""

    def __init__(self, seed: int, *, allocates: bool) -> None:
        self._random = random.Random(f"program {seed}")
        self._seed = seed
        self._made = 0
        # Some programs are one process's, some one mount's, and some go over 4 GiB.
        self._workers = self._random.choice([(0,), (0,), (0, 1), (0, 2), (0, 1, 2), (2, 0)])
        self._large = self._random.random() < 0.08
        few = self._random.random() < 0.5
        self._weights = {n: w for n, w in WEIGHTS.items() if not few or n in CONTENT}
        if not allocates:
            del self._weights["fallocate"]
        count = self._random.choice([1, 2] if few else [2, 4, len(FILES)])
        self._files = self._random.sample(FILES, count)
        self._present: set[str] = set()
        self._opened: set[tuple[int, int]] = set()
        self._worker = 0

    def program(self) -> Program:
        calls = [Call(0, "mkdir", ("d", 0o755))] if self._random.random() < 0.7 else []
        for _ in range(self._random.choice([6, 12, 20, 40, 60])):
            self._worker = self._random.choice(self._workers)
            calls.append(self._call())
        if self._random.random() < 0.05:
            at = self._random.randrange(len(calls) + 1)
            calls.insert(at, Call(self._random.choice(self._workers), "remount", ()))
        return Program(self._seed, tuple(calls))

    def _call(self) -> Call:
        (name,) = self._random.choices(list(self._weights), list(self._weights.values()))
        opened = any(worker == self._worker for worker, _ in self._opened)
        if name in OF_DESCRIPTORS and not opened and self._random.random() < 0.97:
            name = "open"
        arguments = getattr(self, f"_{name}", self._only_path)()
        self._note(name, arguments)
        return Call(self._worker, name, arguments)

    def _note(self, name: str, arguments: tuple[Any, ...]) -> None:
        """What the call makes of names and descriptors, if it does what it is for."""
        if name == "open":
            self._opened.add((self._worker, arguments[0]))
            self._present |= {arguments[1]} if arguments[2] & os.O_CREAT else set()
        elif name == "close":
            self._opened.discard((self._worker, arguments[0]))
        elif name in {"replace", "update"}:
            self._present.add(arguments[0])
        elif name in {"rename", "link", "symlink"}:
            self._present.add(arguments[1])
        if name in {"rename", "unlink"}:
            self._present.discard(arguments[0])

    def _only_path(self) -> tuple[str]:
        return (self._path(),)

    def _path(self) -> str:
        """One that is there, mostly."""
        there = [path for path in self._files if path in self._present]
        if there and self._random.random() < 0.85:
            return self._random.choice(there)
        return self._new_path()

    def _new_path(self) -> str:
        if self._random.random() < 0.9:
            return self._random.choice(self._files)
        return self._random.choice(PLACES)

    def _slot(self) -> int:
        opened = sorted(slot for worker, slot in self._opened if worker == self._worker)
        if opened and self._random.random() < 0.98:
            return self._random.choice(opened)
        return self._random.randrange(SLOTS)

    def _size(self) -> int:
        """Mostly near the borders of blocks."""
        kind = self._random.random()
        if kind < 0.2:
            return self._random.choice([0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
        if kind < 0.5:
            around = self._random.randrange(40) * BLOCK
            return max(0, around + self._random.choice([-1, 0, 0, 1, 100]))
        return self._random.randrange(LONGEST)

    def _offset(self) -> int:
        base = self._random.choice(ISLANDS) if self._large else 0
        return base + self._size()

    def _content_seed(self) -> str:
        self._made += 1
        return f"{self._seed}:{self._made}"

    # Arguments, by the name of the call.

    def _open(self) -> tuple[Any, ...]:
        access = self._random.choice([os.O_RDONLY, os.O_WRONLY, *(os.O_RDWR,) * 4])
        flags = access
        for flag, chance in (
            (os.O_CREAT, 0.7),
            (os.O_TRUNC, 0.25),
            (os.O_APPEND, 0.2),
            (os.O_EXCL, 0.05),
            (os.O_NOFOLLOW, 0.05),
        ):
            if self._random.random() < chance:
                flags |= flag
        if flags & os.O_TRUNC and access == os.O_RDONLY:
            flags &= ~os.O_TRUNC
        slot, path = self._random.randrange(SLOTS), self._new_path() if flags & os.O_CREAT else ""
        return slot, path or self._path(), flags, self._random.choice([0o644, 0o600, 0o755])

    def _close(self) -> tuple[Any, ...]:
        return (self._slot(),)

    _fstat = _fsync = _close

    def _pwrite(self) -> tuple[Any, ...]:
        return self._slot(), self._offset(), self._size(), self._content_seed()

    def _write(self) -> tuple[Any, ...]:
        return self._slot(), self._size(), self._content_seed()

    def _pread(self) -> tuple[Any, ...]:
        return self._slot(), self._offset(), self._size()

    def _seek(self) -> tuple[Any, ...]:
        if self._random.random() < 0.3:
            return self._slot(), 0, os.SEEK_END
        return self._slot(), self._offset(), os.SEEK_SET

    def _read(self) -> tuple[Any, ...]:
        return self._slot(), self._size()

    def _ftruncate(self) -> tuple[Any, ...]:
        return self._slot(), self._offset()

    def _fallocate(self) -> tuple[Any, ...]:
        mode = self._random.choice(ALLOCATIONS)
        return self._slot(), mode, self._offset(), self._size()

    def _copy(self) -> tuple[Any, ...]:
        return self._slot(), self._offset(), self._slot(), self._offset(), self._size()

    def _truncate(self) -> tuple[Any, ...]:
        return self._path(), self._offset()

    def _update(self) -> tuple[Any, ...]:
        flags = os.O_CREAT | self._random.choice([0, 0, 0, os.O_TRUNC, os.O_APPEND])
        size, path = self._size(), self._new_path()
        return path, flags, self._offset(), size, self._content_seed()

    def _replace(self) -> tuple[Any, ...]:
        return self._path(), self._size(), self._content_seed()

    def _rename(self) -> tuple[Any, ...]:
        return self._path(), self._new_path()

    _link = _rename

    def _exchange(self) -> tuple[Any, ...]:
        return self._path(), self._path(), self._random.choice([NO_REPLACE, EXCHANGE])

    def _symlink(self) -> tuple[Any, ...]:
        return self._random.choice(["a", "b", "d", "d/../a", "nowhere"]), self._new_path()

    def _mkdir(self) -> tuple[Any, ...]:
        return self._random.choice(["d", "e", "d/e"]), self._random.choice([0o755, 0o700])

    def _rmdir(self) -> tuple[Any, ...]:
        return (self._random.choice(["d", "e", "d/e", "a"]),)

    def _list(self) -> tuple[Any, ...]:
        return (self._random.choice([".", "d", "e"]),)

    def _chmod(self) -> tuple[Any, ...]:
        return self._path(), self._random.choice([0o600, 0o644, 0o755, 0o444])

    def _utime(self) -> tuple[Any, ...]:
        when = PAST + self._random.randrange(10**9)
        return self._path(), when, when + self._random.randrange(1000)

    def _pause(self) -> tuple[Any, ...]:
        return (self._random.choice([0.001, 0.01, 0.05]),)


def program(seed: int, *, allocates: bool = True) -> Program:
    """The program of that seed. allocates: with fallocate, which the first programs had not."""
    return _Maker(seed, allocates=allocates).program()
