# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The clock of leases: it goes on while the machine sleeps, as home's does meanwhile."""

from __future__ import annotations

import time


def now() -> float:
    """Seconds. To be compared with what this machine's `now` and `shares.fuse.Window.until` say
    and nothing else."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
