# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The door: what sshd starts for a key that may use a daemon, and all that such a key can do.

It carries streams (`wire/link/multiplex.py`) between the link that called and the daemon of this
account. A link names what it wants, `api` for example, and never a path; a daemon's program says
what there is (`Names`). In the other direction a link offers a socket of its own: the door makes
one here, in the folder of the link's identity, and whoever connects there is carried to the link.

Few modules are imported: a door is started for each link, and the person waits for it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import re
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from satchel.errors import AccessError, NotFoundError, SatchelError, UnavailableError, UsageError
from wire.errors import printable
from wire.link.multiplex import Multiplexer, MuxKind
from wire.ports.listening import listen_unix

API = "api"
"""The stream to a daemon's API."""

TOKEN = re.compile(r"[0-9a-f]{16}")
"""What a link calls an offered socket: drawn by it, and the same over its next connection."""

NAME = re.compile(r"[a-z0-9-]{1,64}(/[A-Za-z0-9-]{1,80}){0,2}")

OFFERS_LIMIT = 32

LONGEST_TIMER_SECONDS = 10 * 365 * 86400.0
"""A certificate that is valid for longer ends no door."""

_ANSWER_LIMIT = 1 << 16
_SECONDS = 10.0

Names = Callable[[str], Path]
"""From the name of a stream to the socket of this account that it leads to. Raises SatchelError."""


class NoSuchStream(NotFoundError):
    """A link asked a door for a stream that does not exist."""


def open_door(
    names: Names, offers: Callable[[], Path] | None = None, until: float = math.inf
) -> None:
    """Be a door, on standard input and output, until the link at the other end is gone.

    offers: returns the folder for sockets that the link offers, created with mode 0700 if it is
    missing; None: the link may offer none. until: the time, in seconds since the epoch, at which
    the door closes because the certificate ends. Raises RemoteProtocolError for bytes that no
    link sends, UsageError where standard input is no pipe or socket.
    """
    kind = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        raise UsageError(
            "a door is of no use here",
            why="no link is at the other end of standard input",
            fix="sshd runs this command, once it has the lines that `sshd-config` prints",
        )
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _leave)
    if until - time.time() < LONGEST_TIMER_SECONDS:
        signal.setitimer(signal.ITIMER_REAL, max(until - time.time(), 0.001))
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what is printed by mistake is no frame
    door = _Door(reading, writing, names, offers)
    try:
        door.streams.run()
    finally:
        door.close()
    if door.streams.failure:
        raise door.streams.failure


class _Door:
    def __init__(
        self, reading: int, writing: int, names: Names, offers: Callable[[], Path] | None
    ) -> None:
        self._names = names
        self._offers = offers
        self._offered: dict[Path, tuple[int, int, int]] = {}  # sockets, and which file each is
        self.streams = Multiplexer(
            reading, writing, opens=2, connect=self._connect, asked=self._asked
        )

    def close(self) -> None:
        """Remove the sockets that were made, but none that a later door made in their place."""
        for path, made in self._offered.items():
            with contextlib.suppress(OSError):
                if _identity(path) == made:
                    path.unlink()

    def _connect(self, name: str) -> socket.socket:
        if not NAME.fullmatch(name):
            raise NoSuchStream(f"{printable(name, 80)!r} is not the name of a stream")
        return connected(self._names(name))

    def _asked(self, kind: MuxKind, payload: bytes) -> None:
        token = payload.decode("ascii", "replace")
        try:
            if kind is not MuxKind.OFFER or not TOKEN.fullmatch(token):
                raise AccessError("this is not an offer")
            path = self._offer(token)
        except (SatchelError, OSError) as error:
            self.streams.ask(MuxKind.REFUSED, payload[:16] + str(error).encode()[:200])
        else:
            self.streams.ask(MuxKind.OFFERED, token.encode() + bytes(path))

    def _offer(self, token: str) -> Path:
        if self._offers is None:
            raise AccessError("nothing is offered to this daemon")
        if len(self._offered) >= OFFERS_LIMIT:
            raise AccessError(f"a link offers {OFFERS_LIMIT} sockets at most")
        folder = self._offers()
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / token
        if path in self._offered:
            raise AccessError("that is offered already")
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of an earlier door for the same link, which may not know yet
        listener = listen_unix(path)
        self._offered[path] = _identity(path)
        self.streams.listen(listener, token)
        return path


def connected(path: Path) -> socket.socket:
    """A connection to the Unix socket there. Raises UnavailableError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SECONDS)
        connection.connect(bytes(path))
    except OSError as error:
        connection.close()
        raise UnavailableError("it does not answer", why=error.strerror or "") from error
    return connection


def ask_daemon(
    path: Path,
    method: str,
    target: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One request to a daemon of this account: the JSON object that it answers. Raises
    UnavailableError, with what the daemon says where it refuses.

    This is not HttpClient, whose import takes longer than a door's start may.
    """
    said = {"Content-Type": "application/json", **(headers or {})}
    sent = None if body is None else json.dumps(body)
    connection = _UnixConnection(path)
    try:
        connection.request(method, target, sent, said)
        answer = connection.getresponse()
        value = json.loads(answer.read(_ANSWER_LIMIT))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnavailableError("the daemon does not answer", why=str(error)) from error
    finally:
        connection.close()
    if answer.status != http.client.OK or not isinstance(value, dict):
        raise UnavailableError("the daemon refuses", why=printable(str(value), 200))
    return value


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("satchel", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = connected(self._path)


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _leave(*_: object) -> None:
    sys.exit(0)
