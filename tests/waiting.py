# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether the condition holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
