# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Homes and worlds as the tests of home and of the client have them."""

from pathlib import Path

from tests.client.conftest import carried, places, world
from tests.guestshares.conftest import home
from tests.homeserver.conftest import bench
from tests.homeserver.test_carry import media

__all__ = ["bench", "carried", "home", "media", "places", "world"]


def read_status(pid: int | str, field: str) -> int:
    """A number of a process: of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
