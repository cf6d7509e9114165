# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that outlives the daemon which started it: our child, or one found by its pid file."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from pathlib import Path
from typing import Self


class Process:
    """Held by a descriptor, so that its number cannot come to mean another process. Thread-safe."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        """Raises ProcessLookupError when there is no process of that number."""
        self.pid = pid
        self._child = child
        self._lock = threading.Lock()
        self._descriptor = os.pidfd_open(pid)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            os.close(self._descriptor)

    @classmethod
    def find(cls, pid_file: Path, marker: str) -> Self | None:
        """The process that `pid_file` names if `marker` is one of its arguments, else None."""
        try:
            process = cls(int(pid_file.read_text()))
            arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return process if os.fsencode(marker) in arguments and process.alive() else None

    def alive(self) -> bool:
        return not self._wait(0)

    def exit_status(self) -> int | None:
        """None while it runs; for a process that is not our child the status is not known: -1."""
        if self.alive():
            return None
        return self._reap()

    def end(self, patience: float) -> None:
        """Ask it to end, kill it after `patience` seconds; returns once it is gone."""
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)
            if self._wait(seconds):
                break
        self._reap()

    def _wait(self, seconds: float | None) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def _reap(self) -> int:
        with self._lock:
            return -1 if self._child is None else self._child.wait()
