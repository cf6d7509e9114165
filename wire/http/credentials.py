# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A person's password at a service of the internet, in a file that nobody else can read."""

from __future__ import annotations

import base64
import stat
from dataclasses import dataclass, field
from pathlib import Path

from satchel.errors import UsageError

LIMIT = 4096


class BadCredentials(UsageError):
    """The file of credentials is wrong."""


@dataclass(frozen=True)
class Credentials:
    """user: the account's name; authorization: the value of HTTP's header; it and the password are
    secret and not in the `repr`"""

    user: str
    authorization: str = field(repr=False)
    password: str = field(repr=False, default="")


def read_credentials(path: Path) -> Credentials:
    """Of a file with `USER:PASSWORD`. Raises BadCredentials."""
    path = path.expanduser()
    try:
        found = path.stat()
        regular = stat.S_ISREG(found.st_mode) and found.st_size <= LIMIT
        text = path.read_text("utf-8").strip() if regular else ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadCredentials(f"cannot read {path}", why=str(error)) from error
    if found.st_mode & 0o077:
        raise BadCredentials(f"others can read {path}", fix=f"chmod 600 {path}")
    if ":" not in text or "\n" in text:
        raise BadCredentials(f"{path} has no credentials", fix="write USER:PASSWORD into it")
    token = base64.b64encode(text.encode()).decode()
    user, _, password = text.partition(":")
    return Credentials(user, f"Basic {token}", password)
