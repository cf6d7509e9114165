# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections to a copy of a carried service, so that it touches what any connection needs.

Without them the working set of a carried service ends where it listens. Its first answers at a
surrogate then wait for a few hundred blocks, one after the other. Nobody here knows what a service
speaks: many answer that this is not their protocol. What they do is thrown away with the copy.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from replay import StreamRelay
from satchel.readiness import readable

WORDS = b"HEAD / HTTP/1.0\r\n\r\n"
ANSWER_SECONDS = 8.0
"""How long a service may take to answer that, or to end the connection."""

_HANGUP_POLL_SECONDS = 0.1


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
    lost = threading.Event()
    relay = StreamRelay("visits", lambda why: lost.set())
    carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        carrier.connect(bytes(door))
        relay.attach(carrier)
        until = time.monotonic() + seconds
        while not lost.is_set() and time.monotonic() < until:
            for port in ports:
                ours, theirs = socket.socketpair()
                relay.adopt(theirs, port)
                with ours, phase():
                    ours.sendall(WORDS)
                    answers += _answered(ours, lost)
    finally:
        relay.close()
    return answers


def _answered(connection: socket.socket, lost: threading.Event) -> bool:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not lost.is_set() and time.monotonic() < deadline:
        if readable([connection], _HANGUP_POLL_SECONDS):
            return True
    return False
