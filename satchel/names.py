# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that become file names, URLs and host names: one rule for all of them."""

from __future__ import annotations

import re
import socket

from satchel.errors import UsageError

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS label in lower case: safe on FAT32, in a path, in a URL and as a host name."""


class BadName(UsageError):
    """The name breaks the rule."""


def check_name(name: str, kind: str) -> str:
    """Give back `name`, or raise BadName saying that it cannot name a `kind`."""
    if not NAME.fullmatch(name):
        raise BadName(
            f"{name[:80]!r} cannot name {'an' if kind[0] in 'aeiou' else 'a'} {kind}",
            why="a name has 1 to 63 of a-z, 0-9 and -, and - is neither first nor last",
        )
    return name


def host_name() -> str:
    """The name of this host, made to fit the rule: `Anna's Laptop.lan` is `anna-s-laptop`."""
    words = re.findall(r"[a-z0-9]+", socket.gethostname().lower().split(".")[0])
    return "-".join(words)[:63].strip("-") or "host"
