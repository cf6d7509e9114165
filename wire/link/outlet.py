# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What waits to be written to a pipe whose other end takes it when it likes."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import termios


class Outlet:
    """Of one pipe, which does not block and is its holder's. One thread's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._written = 0
        self._taken, self._waited = 0, False  # when it was asked last whether it drains

    def __len__(self) -> int:
        """Bytes that the pipe has not taken."""
        return len(self._waiting)

    def put(self, *parts: bytes) -> None:
        for part in parts:
            self._waiting += part

    def flush(self) -> bool:
        """Write what the pipe takes now. Whether it has an end to take it still. Raises OSError."""
        while self._waiting:
            try:
                written = os.write(self._descriptor, self._waiting)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                    raise
                return False
            self._written += written
            del self._waiting[:written]
        return True

    def drains(self) -> bool:
        """Whether, of what waited when this was asked last, the other end has taken some: it goes
        on, if slowly. Only of a socket."""
        kept = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, kept)
        before, self._taken = self._taken, self._written - kept[0]
        drains = self._waited and self._taken > before
        self._waited = bool(kept[0] or self._waiting)
        return drains
