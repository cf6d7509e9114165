# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes out at a socket, in order, and nobody waits for who takes it.

A message goes at once, on the thread that has it, where the socket takes it and nothing is before
it. So an answer needs one thread less to be woken; what is not taken a thread of its own sends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable


class Outbox:
    """Of a socket, which stays the caller's. Thread-safe."""

    def __init__(self, end: socket.socket, name: str) -> None:
        self._end = end
        self._changed = threading.Condition()
        self._waiting: deque[tuple[memoryview, Callable[[], None]]] = deque()
        self._sending = False  # the thread has a message that is in the queue no more
        self._over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def send(self, message: bytes, sent: Callable[[], None] = lambda: None) -> None:
        """sent: is called when the socket has it, on any thread; it does not send. What the other
        end takes no more is dropped."""
        with self._changed:
            if self._over:
                return
            rest = memoryview(message)
            if not self._sending and not self._waiting:
                rest = rest[self._taken(rest) :]
            if rest:
                self._waiting.append((rest, sent))
                self._changed.notify()
                return
        sent()

    def close(self) -> None:
        """After the socket was shut down, or all was sent: send nothing more."""
        with self._changed:
            self._over = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _taken(self, message: memoryview) -> int:
        """How much of it the socket takes at once; all of it, where it takes nothing more ever."""
        try:
            return self._end.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(message)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._over)
                if not self._waiting:
                    return
                message, sent = self._waiting.popleft()
                self._sending = True
            with contextlib.suppress(OSError):
                self._end.sendall(message)
            with self._changed:
                self._sending = False
            sent()
