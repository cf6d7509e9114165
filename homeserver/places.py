# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Places of this host that a command names to the daemon.

systemd gives a service its own view of the file systems (PrivateTmp, ProtectHome). There, the same
path may lead to another place, or to none. So a command sends the identity of the place with the
path, and the daemon compares it with its own.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from satchel.errors import NotFoundError


class PlaceHidden(NotFoundError):
    """The home server cannot see a place of this host."""


def identity(place: Path) -> str:
    """Return the device and inode of the file or folder at `place`; empty if it is missing."""
    try:
        found = place.stat()
    except OSError:
        return ""
    return f"{found.st_dev}-{found.st_ino}"


def with_identity(route: str, place: Path) -> str:
    """Return the route with the identity of `place` as a query; without it if nothing is there."""
    seen = identity(place)
    return f"{route}?seen={seen}" if seen else route


def require_seen(place: Path, seen: str) -> None:
    """Raise PlaceHidden unless `place` has the identity `seen`, which a command sent. An empty one
    is not compared."""
    if not seen or identity(place) == seen:
        return
    user = pwd.getpwuid(os.geteuid()).pw_name
    raise PlaceHidden(
        f"the home server cannot see {place}",
        why=f"it runs as {user} with its own view of the file systems (such as PrivateTmp and "
        "ProtectHome of systemd), in which that is missing, closed, or another place",
        fix="use a place that it sees, such as a folder in /srv; or stop it (`systemctl stop "
        "satchel-home`): then the command works by itself",
    )
