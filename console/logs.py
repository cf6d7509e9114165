# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Logging is configured here, by programs, and nowhere else."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


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
    logging.basicConfig(level=level, format=FORMAT, handlers=[_CurrentStderr()])
    for chatty in ("httpcore2", "waitress.queue", "qemu.qmp", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
