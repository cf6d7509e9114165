# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
"""An end for a test that hangs: no test shows that something happens within it."""


def eventually(
    condition: Callable[[], object], seconds: float = PATIENCE_SECONDS, pause: float = 0.005
) -> bool:
    """Whether the condition holds within so many seconds. pause: seconds from one look to the next,
    for looks that take a processor from what is waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
