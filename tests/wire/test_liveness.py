# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Both ends of a link over a pipe that is slow, or that stands still."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from wire import PeerTimeout
from wire.link.liveness import Liveness
from wire.link.multiplex import Multiplexer

KEEP_ALIVE = 3.0

SLOW, PIECE = 0.5, 1 << 15
"""Seconds for each piece of so many bytes: what the pipe keeps takes longer than a beat's answer
is waited for."""

BODY = 3 << 18


class Pipe:
    """A caller's end, a door's end, and a way between them. flows: while it is set"""

    def __init__(self) -> None:
        self.flows = threading.Event()
        self.flows.set()
        self.closed = False
        self.taken = 0
        """Bytes of the stream, at the door."""
        (a, b), (c, d) = socket.socketpair(), socket.socketpair()
        caller, door = a.detach(), d.detach()
        self.caller = Multiplexer(
            caller,
            caller,
            opens=1,
            connect=self._refuse,
            asked=lambda kind, payload: None,
            liveness=Liveness(KEEP_ALIVE),
        )
        self.door = Multiplexer(
            door, door, opens=2, connect=self._connect, asked=lambda kind, payload: None
        )
        self._middle = b, c
        self._threads = [
            threading.Thread(target=run, args=given)
            for run, given in (
                (self._carry, (b, c, SLOW)),
                (self._carry, (c, b, 0.0)),
                (self.caller.run, ()),
                (self.door.run, ()),
            )
        ]
        for thread in self._threads:
            thread.start()
        assert self.caller.agreed.wait(30)

    def stream(self) -> socket.socket:
        """A connection to the door's sink."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("")  # a name that the kernel chooses
        listener.listen(1)
        name = listener.getsockname()
        self.caller.listen(listener, "sink")
        end = socket.socket(socket.AF_UNIX)
        end.connect(name)
        return end

    def close(self) -> None:
        self.closed = True
        self.flows.set()
        self.caller.end()
        self.door.end()
        for end in self._middle:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for end in self._middle:
            end.close()

    def _carry(self, source: socket.socket, sink: socket.socket, pause: float) -> None:
        with contextlib.suppress(OSError):
            while not self.closed and (piece := source.recv(PIECE)):
                time.sleep(pause * len(piece) / PIECE)
                self.flows.wait()
                sink.sendall(piece)

    def _refuse(self, name: str) -> socket.socket:
        raise OSError(name)

    def _connect(self, name: str) -> socket.socket:
        mine, its = socket.socketpair()
        threading.Thread(target=self._take, args=(mine,), daemon=True).start()
        return its

    def _take(self, end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while piece := end.recv(1 << 16):
                self.taken += len(piece)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_a_slow_link_with_much_to_carry_is_not_given_up(pipe: Pipe) -> None:
    """A beat stands behind what was sent before, for longer than silence is borne."""
    with pipe.stream() as end:
        end.sendall(bytes(BODY))
        assert eventually(lambda: pipe.taken == BODY)
    assert pipe.caller.failure is None


def test_a_link_that_stands_still_is_given_up_with_much_to_carry(pipe: Pipe) -> None:
    with pipe.stream() as end:
        end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                end.send(bytes(PIECE))
        pipe.flows.clear()
        assert eventually(lambda: isinstance(pipe.caller.failure, PeerTimeout))


def test_a_link_that_stands_still_is_given_up_without_a_word(pipe: Pipe) -> None:
    pipe.flows.clear()
    assert eventually(lambda: isinstance(pipe.caller.failure, PeerTimeout))


def test_a_silent_link_may_stand_still_until_it_is_woken(pipe: Pipe) -> None:
    pipe.caller.fall_silent()
    time.sleep(0.1)
    pipe.flows.clear()
    time.sleep(3 * KEEP_ALIVE)
    assert pipe.caller.failure is None
    pipe.caller.wake()
    assert eventually(lambda: isinstance(pipe.caller.failure, PeerTimeout))
