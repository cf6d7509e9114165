# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The process `satchel-link` and its control socket (testbed/link/control.h is the protocol)."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from pathlib import Path

from satchel.errors import UnsupportedError
from testbed.namespaces import TestbedFailed

PROGRAM = Path(__file__).parent / "_native" / "satchel-link"

ANSWER_SIZE = 4096
ANSWER_TIMEOUT = 10.0
"""Seconds; an answer takes well under a millisecond unless the process is stopped."""


class Emulator:
    """One emulator process. It ends, and its devices with it, when this process does.

    Any thread may call any method.
    """

    def __init__(self) -> None:
        """Start it. Raises UnsupportedError if it has not been built."""
        if not PROGRAM.exists():
            raise UnsupportedError(
                "cannot emulate links",
                why=f"{PROGRAM} has not been built",
                fix="run ./scripts/bootstrap",
            )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_TIMEOUT)
        self._control = ours
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [PROGRAM, "--control", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, *words: str | float) -> list[int]:
        """Send one request; returns the numbers of the answer. Raises TestbedFailed."""
        text = " ".join(str(word) for word in words)
        with self._lock:
            try:
                self._control.send(text.encode())
                answer = self._control.recv(ANSWER_SIZE).decode()
            except OSError as error:
                raise self._failed(text, str(error)) from error
        status, _, rest = answer.partition(" ")
        if status != "ok":
            raise self._failed(text, rest or "it has ended")
        return [int(word) for word in rest.split()]

    def close(self) -> None:
        """Every device is gone on return. Closing twice is nothing."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ANSWER_TIMEOUT)
            return
        self._process.kill()
        self._process.wait()

    def _failed(self, request: str, why: str) -> TestbedFailed:
        status = self._process.poll()
        ended = "" if status is None else f" (it ended with status {status})"
        return TestbedFailed(f"satchel-link refused `{request}`", why=why + ended)
