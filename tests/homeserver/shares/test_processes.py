# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Three nodes in processes of their own, which are paused, killed and cut off, at a real home's
socket: what their programs saw of blocks is one memory.

SATCHEL_HISTORY says of how many operations a nightly run is made."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from shares.node import ROOT
from tests.homeserver.shares.conftest import LEASE, Home
from tests.homeserver.shares.history_node import BLOCK, BLOCKS, Task
from tests.shares.history import Operation, check, dump
from tests.waiting import eventually

NODES = 3
NIGHTLY = int(os.environ.get("SATCHEL_HISTORY", "100000"))
BRIEFLY, LONG = LEASE / 10, 1.6 * LEASE
"""Seconds: within a lease; and until home has gone on without the node."""


class Process:
    """One node, and those that come after it under its number."""

    def __init__(self, home: Home, folder: Path, number: int, operations: int) -> None:
        self._home, self._folder, self._number = home, folder, number
        self._left = operations
        self._life = 0
        self.logs: list[Path] = []
        self.begin()

    def begin(self) -> None:
        self._life += 1
        name = f"{self._number}-{self._life}"
        self._task = Task(
            name,
            str(self._home.shares.socket),
            str(self._folder / f"copies-{name}"),
            str(self._folder / f"said-{name}"),
            self._left,
            self._number * 1000 + self._life,
        )
        self.logs.append(Path(self._task.out))
        self._process = subprocess.Popen(self._task.argv(), stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.joined = self._process.stdout.readline() == b"joined\n"

    @property
    def over(self) -> bool:
        return self._process.poll() is not None

    def pause(self, seconds: float) -> None:
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def cut_off(self, seconds: float) -> None:
        Path(self._task.out + ".away").write_text(str(seconds))
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(seconds)

    def kill(self, seconds: float) -> None:
        self.end()
        time.sleep(seconds)
        self._left -= len(operations(self._number, Path(self._task.out)))
        self.begin()

    def end(self) -> None:
        """Nothing is left of it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(60)
        if self._process.stdout:
            self._process.stdout.close()

    def finish(self) -> int:
        return self._process.wait(120)


def operations(number: int, log: Path) -> list[Operation]:
    """What one process did; writes of which nobody knows whether they happened are among them."""
    begun: dict[int, tuple[int, str, float]] = {}
    found = []
    for line in log.read_text().splitlines():
        kind, which, block, value, at = json.loads(line)
        if kind == "b":
            begun[which] = block, value, at
        elif kind == "e":
            writes = bool(begun[which][1])
            found.append(Operation(number, str(block), writes, value, begun[which][2], at))
            del begun[which]
    found += [
        Operation(number, str(block), True, value, at, None)
        for block, value, at in begun.values()
        if value
    ]
    return found


def torment(processes: list[Process], seed: int, calm: float) -> Counter[str]:
    """One thing after the other happens to them until they are done. calm: seconds between, on
    average."""
    chance, done = random.Random(seed), Counter[str]()
    faults = [
        (name, seconds) for name in ("pause", "cut_off", "kill") for seconds in (BRIEFLY, LONG)
    ]
    while not all(process.over for process in processes):
        order = chance.sample(faults, len(faults))
        for name, seconds in order:
            time.sleep(chance.uniform(0.3, 1.7) * calm)
            alive = [process for process in processes if not process.over]
            if not alive:
                break
            getattr(chance.choice(alive), name)(seconds)
            done[name] += 1
    return done


def judged(home: Home, folder: Path, count: int, calm: float) -> dict[str, object]:
    home.add(log="sync")
    maker = home.join("maker").node
    created = maker.create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())[1]
    maker.write(created.number, 0, bytes(BLOCKS * BLOCK))
    maker.release(created.number, 0)
    began = time.monotonic()
    processes = [
        Process(home, folder, number, -(-count // NODES)) for number in range(1, NODES + 1)
    ]
    try:
        assert all(process.joined for process in processes)
        faults = torment(processes, count, calm)
        ends = [process.finish() for process in processes]
    finally:
        for process in processes:
            process.end()
    seconds = time.monotonic() - began
    assert ends == [0] * NODES
    history = [
        operation
        for number, process in enumerate(processes, 1)
        for log in process.logs
        for operation in operations(number, log)
    ]
    violations = check(history)
    assert not violations, dump(violations[0].operations)
    unknown = sum(operation.ended is None for operation in history)
    return {
        "operations": len(history),
        "unknown": unknown,
        "seconds": round(seconds),
        "taken over": len(home.share.lost_since(0.0)),
        **faults,
    }


def test_processes_that_are_paused_killed_and_cut_off_see_one_memory(
    home: Home, short_path: Path
) -> None:
    said = judged(home, short_path, 1500, 0.5)
    assert int(str(said["operations"])) >= 1500
    assert eventually(lambda: len(home.share.sessions) == 1)


@pytest.mark.nightly
def test_a_hundred_thousand_operations_of_processes_are_one_memory(
    home: Home, short_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = judged(home, short_path, NIGHTLY, 1.0)
    with capsys.disabled():
        print("\n", said)
    assert int(str(said["operations"])) >= NIGHTLY
    assert all(said[fault] for fault in ("pause", "cut_off", "kill"))
