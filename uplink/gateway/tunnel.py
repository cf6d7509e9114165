# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that uplink does not look at: from one socket to another, in the kernel, and counted."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

PIECE = 1 << 20

Counted = Callable[[int, int], None]
"""Told of bytes up and down."""


def tunnel(program: socket.socket, server: socket.socket, counted: Counted) -> None:
    """Until both ends have ended. Closes both."""
    with program, server:
        for each in (program, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(
            target=_pour, args=(server, program, lambda size: counted(0, size)), daemon=True
        )
        back.start()
        _pour(program, server, lambda size: counted(size, 0))
        back.join()


def _pour(source: socket.socket, sink: socket.socket, counted: Callable[[int], None]) -> None:
    """Until the source ends, which the sink is told; where the sink is gone, the source is cut."""
    ready, full = os.pipe()
    try:
        while size := os.splice(source.fileno(), full, PIECE):
            counted(size)
            while size:
                size -= os.splice(ready, sink.fileno(), size)
    except OSError:
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RD)
    finally:
        os.close(ready)
        os.close(full)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
