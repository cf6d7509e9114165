# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node in a process of its own, with programs that read and write a file's blocks.

    python -m tests.homeserver.shares.history_node JSON

JSON: the fields of `Task`. What the programs are about to do, and what came of it, are lines of the
file `out`, so that of a process that is killed it is known what may have happened. SIGUSR1: home is
not reached for as long as the file `out` with .away says. Programs ask their node themselves: one
that waited for a mount of its own process could not be killed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shares.fuse import Window
from shares.node import Buffer, Member, Node, find
from wire import Caller

BLOCK = 4096
BLOCKS = 6
VALUE = 16
PROGRAMS = 2


@dataclass(frozen=True)
class Task:
    """operations: of all its programs together."""

    name: str
    socket: str
    folder: str
    out: str
    operations: int
    seed: int

    def argv(self) -> list[str]:
        return [sys.executable, "-m", __name__, json.dumps(asdict(self))]


class OpenHandles:
    """Programs' handles of a file, every access of which asks the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.read, self.write = node.read, node.write

    def open(self) -> int:
        return self._node.open(find(self._node, "f"), os.O_RDWR).number

    def open_again(self, handle: int) -> int:
        self.release(handle)
        return handle  # the next access opens it

    def release(self, handle: int) -> None:
        with suppress(OSError):
            self._node.release(handle, 0)


class Programs:
    """All of one node."""

    def __init__(self, task: Task, node: Node) -> None:
        self._task, self._files = task, OpenHandles(node)
        self._out = os.open(task.out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._numbers = itertools.count(1)

    def run(self) -> None:
        share, more = divmod(self._task.operations, PROGRAMS)
        with ThreadPoolExecutor(PROGRAMS) as programs:
            counts = [share + (which < more) for which in range(PROGRAMS)]
            for task in [programs.submit(self._program, *each) for each in enumerate(counts)]:
                task.result()

    def _program(self, which: int, count: int) -> None:
        chance = random.Random(self._task.seed * PROGRAMS + which)
        handle, block = self._files.open(), 0
        for _ in range(count):
            if chance.random() < 0.01:
                handle = self._files.open_again(handle)
            if chance.random() < 0.4:
                block = chance.randrange(BLOCKS)
            self._access(handle, block, chance)

    def _access(self, handle: int, block: int, chance: random.Random) -> None:
        number, value = next(self._numbers), ""
        if chance.random() < 0.4:
            value = f"{self._task.name}:{number}".ljust(VALUE, ".")
        whole = chance.random() < 0.5
        self._say("b", number, block, value)
        try:
            if value:
                content = value.encode().ljust(BLOCK if whole else VALUE, b".")
                self._files.write(handle, block * BLOCK, content)
            else:
                found = self._files.read(handle, block * BLOCK, VALUE)
                value = found.decode() if found.strip(b"\0") else ""
            self._say("e", number, block, value)
        except OSError as error:
            self._say("f", number, block, os.strerror(error.errno or 0))

    def _say(self, *what: object) -> None:
        os.write(self._out, json.dumps([*what, time.monotonic()]).encode() + b"\n")


def away(member: Member, task: Task) -> None:
    """Nothing comes from home, and nothing goes there."""
    caller: Any = member._membership._caller
    path = caller._path
    caller._path = path.with_name("nowhere")
    caller.duplex.cut()
    time.sleep(float(Path(task.out + ".away").read_text()))
    caller._path = path


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    folder = Path(task.folder)
    call: Any = partial(Caller, Path(task.socket))
    member = Member(call, "photos", task.name, Buffer(folder, 1 << 24), wait=60.0, make=Window)

    def signalled(*_: object) -> None:
        threading.Thread(target=away, args=(member, task), daemon=True).start()

    signal.signal(signal.SIGUSR1, signalled)
    print("joined", flush=True)
    Programs(task, member.node).run()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    member.close()


if __name__ == "__main__":
    main()
