# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests to `notes` at a steady rate, whatever becomes of the answers: half of them read.

A request is due at its moment and counts from then on, even if all connections still wait for
an answer (no coordinated omission). A write adds a note. Notes are numbered without a gap, so the
answers say whether each write was executed exactly once. A read asks for the newest note that was
acknowledged.
"""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Self

from testbed import Host

CONNECTIONS = 64
PATIENCE_SECONDS = 60.0
NOTES = "/api/notes"
NOTE = json.dumps({"title": "bench", "text": "a note of the load"})


@dataclass(frozen=True)
class Sample:
    """A request: when it was due, when its answer was there, the number of the note in that answer
    (0: no note), and the newest acknowledged note when a read was sent."""

    due: float
    answered: float
    note: int
    reads: bool
    acknowledged: int = 0

    @property
    def failed(self) -> bool:
        return not self.note


class Load:
    """A rate of requests from a host until the block ends."""

    def __init__(self, host: Host, port: int, rate: float) -> None:
        """rate: requests a second; 0: none"""
        self.rate = rate
        self._began = time.monotonic()
        self._tickets = itertools.count()
        self._ending = threading.Event()
        self._newest = 0
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
        """Returns when every request that was sent has its answer, or will have none."""
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def end(self) -> None:
        """Send nothing more. Returns at once."""
        self._ending.set()

    def samples(self, since: float = 0.0, until: float = float("inf")) -> list[Sample]:
        """Of the requests that were due between these moments, in the order of their answers."""
        chosen = [sample for sample in list(self._samples) if since <= sample.due <= until]
        return sorted(chosen, key=lambda sample: sample.answered)

    def _work(self, connection: http.client.HTTPConnection) -> None:
        with closing(connection):
            answers = True
            while answers and not self._ending.is_set():
                ticket = next(self._tickets)
                due = self._began + ticket / self.rate
                if self._ending.wait(max(0.0, due - time.monotonic())):
                    return
                newest = self._newest
                reads = bool(ticket % 2 and newest)
                try:
                    note = _ask(connection, read=newest if reads else None)
                except (OSError, http.client.HTTPException):
                    note, answers = 0, False
                self._samples.append(Sample(due, time.monotonic(), note, reads, newest))
                self._newest = max(self._newest, note)


def add_note(host: Host, port: int) -> int:
    """Add a note and return its number."""
    with closing(_connect(host, port)) as connection:
        return _ask(connection)


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
    """Whether the writes are numbered without a gap, after `before` earlier ones, and each read
    shows the note that was acknowledged before it was sent."""
    writes = sorted(s.note for s in samples if not s.reads and not s.failed)
    reads = [s for s in samples if s.reads and not s.failed]
    in_order = all(s.note == s.acknowledged for s in reads)
    return in_order and writes == list(range(before + 1, before + 1 + len(writes)))


def _ask(connection: http.client.HTTPConnection, read: int | None = None) -> int:
    """Write a note, or read that one. Return the number of the note in the answer; 0: none."""
    if read is None:
        connection.request("POST", NOTES, NOTE)
    else:
        connection.request("GET", f"{NOTES}/{read}")
    return _answer(connection)


def _answer(connection: http.client.HTTPConnection) -> int:
    response = connection.getresponse()
    body = response.read()
    return int(json.loads(body)["id"]) if response.status in (200, 201) else 0


def _connect(host: Host, port: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.sock = host.socket(socket.SOCK_STREAM)
    connection.sock.connect(("127.0.0.1", port))
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sock.settimeout(PATIENCE_SECONDS)
    connection.auto_open = 0
    return connection
