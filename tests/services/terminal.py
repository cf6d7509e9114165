# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program at a terminal, and a person who types and reads there."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence

PATIENCE_SECONDS = 300.0


class Terminal:
    """Of one program. What it has shown is kept."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))  # without rows, all goes to a pager
        self._process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.shown = b""

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, word: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for that word in what was not looked at yet; what came before it."""
        return self._until(word.encode(), seconds)[: -len(word.encode())].decode(errors="replace")

    def _until(self, word: bytes, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while word not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"no {word!r} in {self.shown[-2000:]!r}"
            if not select.select([self._ours], [], [], min(left, 1.0))[0]:
                continue
            with contextlib.suppress(OSError):
                piece = os.read(self._ours, 1 << 16)
                self.shown += piece
                continue
            raise AssertionError(f"it ended: {self.shown[-2000:]!r}")
        end = self.shown.index(word) + len(word)
        seen, self.shown = self.shown[:end], self.shown[end:]
        return seen

    def skip(self) -> None:
        """Look at all that has been shown so far."""
        while select.select([self._ours], [], [], 0)[0]:
            os.read(self._ours, 1 << 16)
        self.shown = b""

    def ends(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit status, once it has ended."""
        return self._process.wait(seconds)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@contextlib.contextmanager
def terminal(argv: Sequence[str]) -> Iterator[Terminal]:
    with contextlib.closing(Terminal(argv)) as made:
        yield made
