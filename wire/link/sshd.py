# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What sshd has to be told so that a key leads to a door and nowhere else, and whether it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from satchel.errors import UnavailableError, UnsupportedError

_SECONDS = 20.0

_CONFINED = {
    "DisableForwarding": "yes",
    "AllowAgentForwarding": "no",
    "PermitTTY": "no",
    "PermitUserRC": "no",
    "ExposeAuthInfo": "yes",
}

_LINE = re.compile(
    r'(?P<options>(?:[^\s"]|"(?:\\"|[^"])*")+[ \t]+)??(?:sk-)?(?:ssh|ecdsa)-\S+[ \t]+\S+'
)
_FORCED = re.compile(r'(?:^|,)command="((?:\\"|[^"])*)"', re.IGNORECASE)
_RESTRICTED = re.compile(r"(?:^|,)restrict(?:,|$)", re.IGNORECASE)
_ALLOWED_AGAIN = re.compile(
    r"(?:^|,)(?:pty|user-rc|(?:port|agent|x11)-forwarding)(?:,|$)", re.IGNORECASE
)
_QUOTED = re.compile(r'"(?:\\"|[^"])*"')


def door_settings(command: str, authority: Path | None = None) -> dict[str, str]:
    """Lines of sshd_config by their keyword: sessions are doors and have nothing else.

    command: what runs the door; authority: the public key that certifies guests, if there is one
    """
    trusted = {"TrustedUserCAKeys": str(authority)} if authority else {}
    return {"ForceCommand": command, **_CONFINED, **trusted}


def sshd_snippet(user: str, settings: dict[str, str]) -> str:
    """The same for the sessions of one account, to be a file of sshd_config.d."""
    lines = [f"    {keyword} {value}" for keyword, value in settings.items()]
    return "\n".join([f"Match User {user}", *lines, "Match all"])


def sshd_in_force(user: str, config: Path | None = None) -> dict[str, str]:
    """What this host's sshd does with sessions of that account, by keyword in lower case. config:
    its file, where it is not the usual one. Needs root. Raises UnsupportedError,
    UnavailableError."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise UnsupportedError("no sshd", fix="install openssh-server")
    where = ["-f", str(config)] if config else []
    argv = [program, "-T", *where, "-C", f"user={user},host=localhost,addr=127.0.0.1"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError("sshd does not say its configuration", why="no end") from error
    if done.returncode != 0:
        raise UnavailableError(
            "sshd does not say its configuration",
            why=done.stderr.strip()[-300:],
            fix="ask as root",
        )
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def not_in_force(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    """The lines of the first that sshd does not obey."""
    return [
        f"{keyword} {value}"
        for keyword, value in wanted.items()
        if found.get(keyword.lower(), "") != value
    ]


def shell_lines(lines: Iterable[str]) -> Sequence[int]:
    """Of an authorized_keys file, counted from 1, those whose key gets more than a door."""
    return [
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#") and not _leads_to_a_door(line.strip())
    ]


def _leads_to_a_door(line: str) -> bool:
    found = _LINE.match(line)
    options = (found["options"] or "").strip() if found else ""
    bare = _QUOTED.sub('""', options)
    forced = _FORCED.search(options)
    if forced is None or not _RESTRICTED.search(bare) or _ALLOWED_AGAIN.search(bare):
        return False
    words = forced[1].split()
    return "door" in words[1:] and Path(words[0]).name in ("satchel-home", "satchel-surrogate")
