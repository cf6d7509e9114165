# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Redis commands at a steady rate, whatever becomes of the answers: half of them read.

A command is due at its moment and counts from then on, also where all connections still wait for
an answer (no coordinated omission). Writes are INCR, so that the answers themselves say whether
each was executed exactly once; a read is a GET of the same key.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Self

from testbed import Host

CONNECTIONS = 64
PATIENCE_SECONDS = 60.0
KEY = b"bench"


@dataclass(frozen=True)
class Sample:
    """A command: when it was due, when its answer was there, and that answer."""

    due: float
    answered: float
    reply: bytes
    reads: bool

    @property
    def failed(self) -> bool:
        return self.reply.startswith(b"-") or not self.reply


class Load:
    """A rate of commands from a host until the block ends."""

    def __init__(self, host: Host, port: int, rate: float) -> None:
        """rate: commands a second; 0: none"""
        self.rate = rate
        self._began = time.monotonic()
        self._tickets = itertools.count()
        self._ending = threading.Event()
        self._samples: list[Sample] = []
        self._threads = [
            threading.Thread(target=self._work, args=(_connect(host, port),), daemon=True)
            for _ in range(CONNECTIONS if rate else 0)
        ]

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns when every command that was sent has its answer, or will have none."""
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def end(self) -> None:
        """Send nothing more. Returns at once."""
        self._ending.set()

    def samples(self, since: float = 0.0, until: float = float("inf")) -> list[Sample]:
        """Of the commands that were due between these moments, in the order of their answers."""
        chosen = [sample for sample in list(self._samples) if since <= sample.due <= until]
        return sorted(chosen, key=lambda sample: sample.answered)

    def _work(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while not self._ending.is_set():
                ticket = next(self._tickets)
                due = self._began + ticket / self.rate
                if self._ending.wait(max(0.0, due - time.monotonic())):
                    return
                reads = bool(ticket % 2)
                connection.sendall(b"%b %b\r\n" % (b"GET" if reads else b"INCR", KEY))
                reply = _reply(stream.readline(), stream)
                self._samples.append(Sample(due, time.monotonic(), reply, reads))
                if not reply:
                    return


def burst(host: Host, port: int, count: int, meanwhile: Callable[[], None] = lambda: None) -> float:
    """Seconds until so many writes, sent at once by as many programs, were all answered well.

    meanwhile: is done beside, from the same moment on
    """
    with ExitStack() as stack:
        connections = [stack.enter_context(_connect(host, port)) for _ in range(count)]
        beside = threading.Thread(target=meanwhile)
        began = time.monotonic()
        beside.start()
        for connection in connections:
            connection.sendall(b"INCR %b\r\n" % KEY)
        replies = {_answer(connection) for connection in connections}
        seconds = time.monotonic() - began
        beside.join()
    first = min(replies)
    assert replies == set(range(first, first + count)), "an operation was lost or done twice"
    return seconds


def _answer(connection: socket.socket) -> int:
    with connection.makefile("rb") as stream:
        return int(_reply(stream.readline(), stream)[1:])


def value(host: Host, port: int) -> int:
    """How many writes there were so far."""
    with _connect(host, port) as connection, connection.makefile("rb") as stream:
        connection.sendall(b"GET %b\r\n" % KEY)
        return int(_reply(stream.readline(), stream))


def waits(samples: Sequence[Sample]) -> list[float]:
    """Seconds from the moment when each was due to its answer, the shortest first."""
    return sorted(sample.answered - sample.due for sample in samples)


def gaps(samples: Sequence[Sample]) -> list[float]:
    """Seconds between one answer and the next one, the shortest first."""
    moments = sorted(sample.answered for sample in samples)
    return sorted(after - before for before, after in itertools.pairwise(moments))


def percentile(seconds: Sequence[float], part: float) -> float:
    """Of values in order: the one that `part` of them do not exceed."""
    return seconds[max(0, -(-len(seconds) * round(part * 1000) // 1000) - 1)]


def executed_once(samples: Sequence[Sample], before: int) -> bool:
    """Whether the writes are numbered without a gap, after `before` earlier ones, and no read shows
    less than was acknowledged before it was due."""
    writes = sorted(int(s.reply[1:]) for s in samples if not s.reads and not s.failed)
    if writes != list(range(before + 1, before + 1 + len(writes))):
        return False
    acknowledged, latest = sorted((s.answered, int(s.reply[1:])) for s in samples if not s.reads), 0
    place = 0
    for sample in sorted((s for s in samples if s.reads), key=lambda s: s.due):
        while place < len(acknowledged) and acknowledged[place][0] < sample.due:
            latest = max(latest, acknowledged[place][1])
            place += 1
        if int(sample.reply or 0) < latest:
            return False
    return True


def _reply(line: bytes, stream: BinaryIO) -> bytes:
    """An integer with its colon, a string as it is, an error with its dash; empty at the end."""
    if not line.startswith(b"$"):
        return line.strip()
    size = int(line[1:])
    if size < 0:
        return b"0"
    return stream.read(size + 2)[:size]


def _connect(host: Host, port: int) -> socket.socket:
    connection = host.socket(socket.SOCK_STREAM)
    connection.connect(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE_SECONDS)
    return connection
