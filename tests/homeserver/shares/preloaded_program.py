# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="func-returns-value"
"""SEED COUNT: a program of random calls about files in its working folder, which says what each of
them gave. It imports nothing of Satchel's, so it runs in a folder of ext4 as in a share."""

import ctypes
import fcntl
import os
import random
import stat
import sys

NAMES = ["a", "b", "c", "d", "e/a", "e/b", "e/f/a"]
FLAGS = [os.O_RDWR, os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_APPEND]
MOST = 20_000
LIBC = ctypes.CDLL(None, use_errno=True)


class Program:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.open: list[int] = []
        os.makedirs("e/f", exist_ok=True)

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def size(self) -> int:
        return self.chance.choice((0, 1, 100, 4095, 4096, 4097, self.chance.randrange(MOST)))

    def handle(self) -> int:
        if not self.open:
            self.opens()
        return self.chance.choice(self.open)

    def opens(self) -> object:
        made = self.chance.choice((0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL))
        cut = self.chance.choice((0, 0, 0, os.O_TRUNC))
        fd = os.open(self.name(), self.chance.choice(FLAGS) | made | cut, 0o640)
        self.open.append(fd)
        return "open"

    def closes(self) -> object:
        os.close(self.open.pop(self.chance.randrange(len(self.open))))
        return "closed"

    def reads(self) -> object:
        return os.read(self.handle(), self.size())

    def writes(self) -> object:
        return os.write(self.handle(), self.chance.randbytes(self.size()))

    def preads(self) -> object:
        return os.pread(self.handle(), self.size(), self.size())

    def pwrites(self) -> object:
        fd = self.handle()
        if os.O_APPEND & fcntl.fcntl(fd, fcntl.F_GETFL):
            return "to append"  # Linux appends then, whatever POSIX says
        return os.pwrite(fd, self.chance.randbytes(self.size()), self.size())

    def seeks(self) -> object:
        return os.lseek(self.handle(), self.size(), self.chance.choice((0, 1, 2)))

    def dups(self) -> object:
        self.open.append(os.dup(self.handle()))
        return "dup"

    def cuts(self) -> object:
        if self.chance.random() < 0.5:
            return os.ftruncate(self.handle(), self.size())
        return os.truncate(self.name(), self.size())

    def allocates(self) -> object:
        fd, mode = self.handle(), self.chance.choice((0, 1, 1 | 2, 16, 16 | 1))
        place = ctypes.c_int64(self.size()), ctypes.c_int64(self.size())
        if LIBC.fallocate(fd, mode, *place):
            raise OSError(ctypes.get_errno(), "fallocate")
        return mode

    def renames(self) -> object:
        return os.rename(self.name(), self.name())

    def links(self) -> object:
        return os.link(self.name(), self.name())

    def symlinks(self) -> object:
        return os.symlink(self.chance.choice(("a", "b", "e/a")), self.name())

    def unlinks(self) -> object:
        return os.unlink(self.name())

    def stats(self) -> object:
        found = os.stat(self.name(), follow_symlinks=self.chance.random() < 0.5)
        return stat.filemode(found.st_mode), found.st_nlink, self.size_of(found)

    def fstats(self) -> object:
        found = os.fstat(self.handle())
        return stat.filemode(found.st_mode), found.st_nlink, found.st_size

    def lists(self) -> object:
        return sorted(os.listdir(self.chance.choice((".", "e", "e/f"))))

    def modes(self) -> object:
        return os.chmod(self.name(), self.chance.choice((0o600, 0o644)))

    def times(self) -> object:
        name, when = self.name(), self.chance.randrange(1 << 30)
        os.utime(name, (when, when))
        return os.stat(name).st_mtime_ns

    def forks(self) -> object:
        """A child writes at the position that it shares with its parent."""
        fd = self.handle()
        if os.fork() == 0:
            try:
                os.write(fd, b"of the child")
            finally:
                os._exit(0)
        os.wait()
        return os.lseek(fd, 0, 1)

    @staticmethod
    def size_of(found: os.stat_result) -> int:
        return 0 if stat.S_ISDIR(found.st_mode) else found.st_size


CALLS = [
    *(["opens"] * 4),
    *(["writes", "reads", "pwrites", "preads"] * 3),
    *("closes", "seeks", "seeks", "dups", "cuts", "cuts", "renames", "links", "symlinks"),
    *("unlinks", "stats", "stats", "fstats", "lists", "modes", "times", "forks"),
    *("allocates", "allocates"),
]


def main(seed: int, count: int) -> None:
    program = Program(seed)
    for turn in range(count):
        call = program.chance.choice(CALLS)
        if call == "closes" and not program.open:
            continue
        try:
            said = getattr(program, call)()
        except OSError as error:
            said = f"errno {error.errno}"
        print(turn, call, said)
    for name in NAMES:
        try:
            with open(name, "rb") as file:
                print(name, file.read())
        except OSError as error:
            print(name, error.errno)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
