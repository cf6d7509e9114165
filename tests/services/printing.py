# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that prints lines for as long as a service answers it."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence

from tests.waiting import eventually

PATIENCE_SECONDS = 300.0


class Printing:
    """The program, and the lines that it has printed."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    def prints_more(self) -> bool:
        count = len(self.lines)
        return eventually(lambda: len(self.lines) > count + 3, PATIENCE_SECONDS)

    def end(self) -> list[str]:
        """Tell it to end, by a line; all lines."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.wait(PATIENCE_SECONDS) == 0
        self._reading.join()
        return self.lines

    def close(self) -> list[str]:
        """End it as it is; all lines, the last of which may be half a line."""
        self._process.kill()
        self._process.wait()
        self._reading.join()
        return self.lines


@contextlib.contextmanager
def printing(argv: Sequence[str]) -> Iterator[Printing]:
    made = Printing(argv)
    try:
        yield made
    finally:
        made.close()
