# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Before a program has begun, and when it has ended.

Imports take most of the 0.1 s of a short command, and a Ctrl-C that hits them must not print a
traceback. So this imports next to nothing, and comes first.
"""

from __future__ import annotations

import os
import select
import signal
import stat
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They end a program in order: Ctrl-C, `kill`, a terminal that was closed."""


def end_at_signals(name: str) -> None:
    """Have the signals end the process at once, with a line and 130: nothing has to be put away.
    Main thread only."""

    def end(signum: int, frame: object) -> NoReturn:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    on_signals(end)


def on_signals(handle: Callable[[int, object], object]) -> None:
    """Have `handle` called at each of the signals, but for those that are ignored. Main thread
    only."""

    def heard(signum: int, frame: object) -> None:
        if signum == signal.SIGHUP or _terminal_is_gone():
            leave_terminal()
        handle(signum, frame)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, heard)


def leave_terminal() -> None:
    """Lead input and output away from a terminal that was closed: a write there would fail, and end
    the work of putting things away."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        if _is_device(fd):
            os.dup2(nowhere, fd)
    os.close(nowhere)


def _terminal_is_gone() -> bool:
    """Whether a terminal of ours was closed while SIGHUP was ignored, as below nohup(1)."""
    waiting = select.poll()
    for fd in (0, 1, 2):
        waiting.register(fd, 0)
    return any(events & select.POLLHUP for fd, events in waiting.poll(0) if _is_device(fd))


def _is_device(fd: int) -> bool:
    try:
        return stat.S_ISCHR(os.fstat(fd).st_mode)
    except OSError:
        return False  # it is closed
