# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections to a copy of a carried service, so that it touches the blocks that any needs.

Without them the working set of a carried service ends where it listens. Its first answers at a
surrogate then wait for a few hundred blocks, one after the other. Nobody here knows what a service
speaks: many answer that this is not their protocol. What they do is thrown away with the copy.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from images import ServedPort
from replay import StreamRelay
from satchel.readiness import readable

WORDS = b"HEAD / HTTP/1.0\r\n\r\n"
ANSWER_SECONDS = 8.0
"""How long a service may take to answer that, or to end the connection."""

_HANGUP_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class PortVisit:
    """One visit of a port. seconds: until the service answered, None if it did not; why: the reason
    for that, or empty."""

    port: int
    front: str
    seconds: float | None
    why: str = ""


def visit(
    door: Path,
    ports: Sequence[int],
    seconds: float,
    phase: Callable[[], AbstractContextManager[None]],
) -> int:
    """Connect to each port of a guest, one after the other, for so many seconds; how often it
    answered. door: of its streams; phase: in which one connection is. Ends early where the streams
    are not reached. Raises OSError without a door."""
    answers = 0
    with _streams(door) as (relay, lost):
        until = time.monotonic() + seconds
        while not lost.is_set() and time.monotonic() < until:
            for port in ports:
                with _connected(relay, port) as ours, phase():
                    answers += _answered(ours, lost)
    return answers


def examine_ports(door: Path, ports: Sequence[ServedPort]) -> list[PortVisit]:
    """Visit each port of a guest once. Raises OSError without a door."""
    visits = []
    with _streams(door) as (relay, lost):
        for each in ports:
            began = time.monotonic()
            with _connected(relay, each.port) as ours:
                ended = _answered(ours, lost)
                said = ended and ours.recv(1)
            seconds = time.monotonic() - began if said else None
            silent = "the guest's streams were lost" if lost.is_set() else "it was silent"
            why = "" if said else "it ended the connection" if ended else silent
            visits.append(PortVisit(each.port, each.front, seconds, why))
    return visits


@contextmanager
def _streams(door: Path) -> Iterator[tuple[StreamRelay, threading.Event]]:
    """A relay to a guest's streams, and an event that is set if they are lost."""
    lost = threading.Event()
    relay = StreamRelay("visits", lambda why: lost.set())
    carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        carrier.connect(bytes(door))
        relay.attach(carrier)
        yield relay, lost
    finally:
        relay.close()


def _connected(relay: StreamRelay, port: int) -> socket.socket:
    """Return a connection to a port of the guest, with WORDS under way."""
    ours, theirs = socket.socketpair()
    relay.adopt(theirs, port)
    ours.sendall(WORDS)
    return ours


def _answered(connection: socket.socket, lost: threading.Event) -> bool:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not lost.is_set() and time.monotonic() < deadline:
        if readable([connection], _HANGUP_POLL_SECONDS):
            return True
    return False
