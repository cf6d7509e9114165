# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Logging is configured here, by programs, and nowhere else."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _OneEvent(logging.Formatter):
    """A formatter whose lines after the first of an event are indented.

    So a text from a peer, in a message or in a traceback, cannot look like another event. Its
    control characters are replaced, and cannot change the terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).replace("\r", "\n").split("\n")
        return "\n    ".join(
            "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line) for line in lines
        )


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the moment: a live display stands in for it."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """The base class sets it; it stays as it is."""


def log_to_stderr(*, verbose: bool) -> None:
    """One line per event on standard error; `verbose` adds what is of use to a developer."""
    level = logging.DEBUG if verbose else logging.INFO
    handler = _CurrentStderr()
    handler.setFormatter(_OneEvent(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    for chatty in ("httpcore2", "waitress.queue", "qemu.qmp", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
