# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that are up some time after they were started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from satchel.errors import UnavailableError

START_SECONDS = 60.0

_START_POLL_SECONDS = 0.01
_TAIL = 2000


def await_up(
    what: str,
    process: subprocess.Popen[bytes],
    up: Callable[[], object],
    log: Path | None = None,
    seconds: float = START_SECONDS,
) -> None:
    """Returns once `up()`. Raises UnavailableError, with the end of its log, where the process has
    ended or so many seconds have gone by; whoever started it ends it."""
    deadline = time.monotonic() + seconds
    while not up():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            why = f"it ended with {process.returncode}" if ended else f"not up after {seconds:g} s"
            tail = log.read_text(errors="replace")[-_TAIL:].strip() if log else ""
            raise UnavailableError(f"{what} did not start", why=f"{why}: {tail}" if tail else why)
        time.sleep(_START_POLL_SECONDS)
