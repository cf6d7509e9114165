# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""MEFS's Figure 6: how long nobody answers while a file session moves, and how long a move takes.

The session is a guest's, used by what its kernel asks. The old surrogate hands over, and the next
operation is at the new one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bench import Figure, figure
from guestshares import EdgeKeeper, kernel
from papers.mefs.edge_world import EDGE_TRIP, ROOT, Guest, World, world

LOADS = (0, 50, 100, 200)
GAP_MS = 150.0
BLOCK = 4096
SECONDS = 1.0
"""Before a move, and after it."""

LEAD_SECONDS = 30.0


class MovableSession(Protocol):
    """A file session that can move once."""

    def operate(self, kind: str, number: int) -> None:
        """One read or write of a block. Raises OSError where it failed."""

    began: float
    """When the move did, monotonic."""

    def move(self) -> None: ...


def move_figures(folder: Path, loads: tuple[int, ...], moves: int) -> Iterator[Figure]:
    for kind, load in itertools.product(("reads", "writes"), loads):
        programs: list[Program] = []
        for number in range(moves):
            with guest_moves(folder / f"g{kind[0]}{load}-{number}") as moving:
                program = Program(moving, kind, load)
                program.run()
            programs.append(program)
        title = f"shares, edge: move of a guest's session, {kind}, {load} op/s"
        yield from of_programs(title, programs)


def of_programs(title: str, programs: Sequence[Program]) -> Iterator[Figure]:
    """Of moves of one kind, each with a program that has run."""
    gaps = [program.gap for program in programs]
    yield figure(f"{title}: longest gap", max(gaps) * 1e3, "ms", at_most=GAP_MS)
    yield figure(f"{title}: median gap", statistics.median(gaps) * 1e3, "ms")
    for about, values, unit in (
        ("the whole", [program.total * 1e3 for program in programs], "ms"),
        ("reached", [program.rate for program in programs], "op/s"),
    ):
        yield figure(f"{title}: {about}", statistics.median(values), unit)
    failed = sum(program.failed for program in programs)
    yield figure(f"{title}: failed", failed, "operations", at_most=0)


class Program:
    """Does so many operations a second while its session moves; without load it does the next one
    when the move begins, and the gap is how long that takes.

    gap: the longest beyond the pace in which none ended, seconds; total: of the move; rate: reached
    before it"""

    def __init__(
        self, moving: MovableSession, kind: str, load: int, seconds: float = SECONDS
    ) -> None:
        """seconds: before a move, and after it."""
        self._moving, self._kind, self._load, self._seconds = moving, kind, load, seconds
        self._over = threading.Event()
        self.ends: list[float] = []
        self.failed = 0
        self.gap = self.total = self.rate = 0.0

    def run(self) -> None:
        self._operate(1)
        if not self._load:
            mover = threading.Thread(target=self._move)
            mover.start()
            mover.join()
            self._operate(2)
            self.gap = time.monotonic() - self._moving.began
            return
        thread = threading.Thread(target=self._keep_on)
        thread.start()
        time.sleep(self._seconds)
        before = len(self.ends)
        self._move()
        began = self._moving.began
        time.sleep(self._seconds)
        self._over.set()
        thread.join()
        self.rate = before / self._seconds
        last = max(end for end in self.ends if end <= began)
        near = [end for end in self.ends if end >= last]
        gaps = [after - before for before, after in itertools.pairwise(near)]
        self.gap = max(0.0, max(gaps, default=0.0) - 1 / self._load)

    def _move(self) -> None:
        self._moving.move()
        self.total = time.monotonic() - self._moving.began

    def _keep_on(self) -> None:
        due = time.monotonic()
        for number in itertools.count(2):
            if self._over.is_set():
                return
            self._operate(number)
            self.ends.append(time.monotonic())
            due = max(due + 1 / self._load, time.monotonic() - 1 / self._load)
            self._over.wait(max(0.0, due - time.monotonic()))

    def _operate(self, number: int) -> None:
        try:
            self._moving.operate(self._kind, number)
        except OSError:
            self.failed += 1


class _GuestMoving:
    """The guest at the new surrogate has executed what the one at the old surrogate has."""

    def __init__(self, made: World, stack: contextlib.ExitStack) -> None:
        self._made, self._lock, self._data = made, threading.Lock(), os.urandom(BLOCK)
        (made.root / "x").write_bytes(self._data)
        self._old, self._new = made.at_edge("a"), made.at_edge("b")
        for guest in (self._new, self._old):
            stack.callback(guest.close)
        time.sleep(SECONDS)  # both have a node
        self._number = made.lead(self._old, 1)
        self._guest, self._took_part = self._old, 0

    def operate(self, kind: str, number: int) -> None:
        time.sleep(EDGE_TRIP)
        with self._lock:
            self._number += 1
            self._made.log(self._number)
            if kind == "reads":
                self._guest.get("x", BLOCK, self._number)
            else:
                self._guest.put("x", self._data, self._number)

    def _take_part(self) -> None:
        """The new guest is as far as the old one."""
        with self._lock:
            number = self._number
        if number != self._took_part:
            self._took_part = number
            self._new.ask(kernel.Opcode.LOOKUP, b"x\0", ROOT, number)
            self._new.calls.finished(number)

    def move(self) -> None:
        self._take_part()
        time.sleep(SECONDS)  # it wants to lead, and home has told it what may come
        edge_of(self._old).settle_most(SECONDS)  # the guest goes on
        self._take_part()
        self.began = time.monotonic()
        with self._lock:
            old = edge_of(self._old)
            handoff = old.prepare_handoff()
            assert handoff is not None and old.send_handoff(handoff)
            self._guest = self._new
        until = time.monotonic() + LEAD_SECONDS
        while edge_of(self._new).state.value != "leads" and time.monotonic() < until:
            time.sleep(0.002)


@contextlib.contextmanager
def guest_moves(folder: Path) -> Iterator[MovableSession]:
    with world(folder) as made, contextlib.ExitStack() as stack:
        yield _GuestMoving(made, stack)


def edge_of(guest: Guest) -> EdgeKeeper:
    assert isinstance(guest.keeper, EdgeKeeper)
    return guest.keeper
