# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Paired clients: the keys that may open home's door, and the doors that are open.

A door is a process that sshd starts for a key. It names its key in a file of the run folder, which
it keeps locked until it ends. A key that was unpaired is in a list: sshd lets a connection that
was made before open more doors, and these refuse the key.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from homeserver.settings import HomeSettings
from satchel.errors import AccessError, NotFoundError, UsageError
from satchel.files import lines_of, write_lines
from satchel.process import Process
from satchel.timestamps import format_unix
from wire import authorized_keys_line, fingerprint, visitor

AUTHORIZED_KEYS = Path("~/.ssh/authorized_keys")

_PAIRED = re.compile(
    r'restrict,command="(.*satchel-home(?: --config \S+)?) door(?: --client \S+)?"'
    r" ((?:sk-)?(?:ssh|ecdsa)-\S+ \S+) ?(.*)"
)
"""A line that `satchel-home pair` has written. Earlier ones did not name the key."""

_SEALABLE = ("ssh-ed25519 ", "ssh-rsa ")
"""Types of keys that a medium can be sealed for."""

_END_SECONDS = 5.0


class ClientUnpaired(AccessError):
    """This home has unpaired the client's key."""


@dataclass(frozen=True)
class PairedClient:
    """A key that may use this home. key: its fingerprint; last_seen: when its newest door was
    opened, or None; doors: those that are open now."""

    name: str
    key: str
    public: str
    last_seen: str | None = None
    doors: int = 0


def door_line(program: str | Path, public: str, name: str) -> str:
    """Return the line of authorized_keys that lets a key open home's door."""
    return authorized_keys_line(
        public, f"{program} door --client {fingerprint(public)}", comment=name
    )


def paired_keys(path: Path = AUTHORIZED_KEYS) -> dict[str, str]:
    """Return the public keys of paired clients, each with the client's name, except types of keys
    that nothing can be sealed for."""
    return {
        public: name
        for _, public, name in _paired_lines(path).values()
        if public.startswith(_SEALABLE)
    }


def authorize(path: Path, line: str) -> None:
    """Add a line. Other lines of the same key go."""
    blob = line.split()[-2]
    kept = [each for each in lines_of(path) if blob not in each.split()]
    write_lines(path, [*kept, line], mode=0o600)


def withdraw(path: Path, key: str) -> None:
    """Remove the lines of a key, by its fingerprint. The lines of the other clients name their
    keys from now on."""
    paired, kept = _paired_lines(path), []
    for line in lines_of(path):
        if line not in paired:
            kept.append(line)
            continue
        program, public, name = paired[line]
        if fingerprint(public) != key:
            kept.append(door_line(program, public, name))
    write_lines(path.expanduser(), kept, mode=0o600)


class Clients:
    """The paired clients of one home. It keeps nothing in memory."""

    def __init__(self, settings: HomeSettings, authorized_keys: Path = AUTHORIZED_KEYS) -> None:
        self._authorized = authorized_keys
        self._doors = settings.run / "clients"
        self._seen = settings.data / "clients"
        self._unpaired = settings.data / "unpaired"

    def all(self) -> list[PairedClient]:
        """Return the paired clients by name."""
        open_now = [*self._open_doors().values()]
        found = []
        for _, public, name in _paired_lines(self._authorized).values():
            key = fingerprint(public)
            found.append(PairedClient(name, key, public, self._last_seen(key), open_now.count(key)))
        return sorted(found, key=lambda client: (client.name, client.key))

    def find(self, wanted: str) -> PairedClient:
        """Return the client of that name or key. Raises NotFoundError, UsageError for a name that
        two clients have."""
        found = [client for client in self.all() if wanted in (client.name, client.key)]
        if not found:
            raise NotFoundError(f"no client {wanted} is paired", fix="`satchel-home clients`")
        if len(found) > 1:
            keys = ", ".join(client.key for client in found)
            raise UsageError(f"{len(found)} clients are called {wanted}", fix=f"use a key: {keys}")
        return found[0]

    def pair(self, line: str) -> None:
        """Let the key of this line in, also if it was unpaired before."""
        key = fingerprint(" ".join(line.split()[-3:]))
        authorize(self._authorized.expanduser(), line)
        before = lines_of(self._unpaired)
        kept = [each for each in before if each.split()[:1] != [key]]
        if kept != before:
            write_lines(self._unpaired, kept, mode=0o600)

    def unpair(self, client: PairedClient) -> list[int]:
        """Refuse the key from now on, and end its doors and their ssh sessions. Doors that name
        no key end as well. Return the process numbers of the ended doors: the daemon must end the
        work that they began."""
        write_lines(
            self._unpaired,
            [*lines_of(self._unpaired), f"{client.key} {client.name}"],
            mode=0o600,
        )
        withdraw(self._authorized, client.key)
        doors = [door for door, key in self._open_doors().items() if key in (client.key, "")]
        for door in doors:
            _end(door)
        return doors

    def enter(self, key: str | None, environment: Mapping[str, str]) -> str:
        """Count this process as a door, and return its client's key, or "" if no one names it.
        key: as the line of authorized_keys names it; None: ask sshd. Raises ClientUnpaired."""
        if key is None:
            with contextlib.suppress(AccessError):
                key = visitor(environment).identity
        self._register(key or "")  # before it reads the list: `unpair` ends each registered door
        unpaired = {line.split()[0] for line in lines_of(self._unpaired) if line.strip()}
        if key in unpaired:
            raise ClientUnpaired("this home has unpaired your key", fix="pair again")
        if not key and unpaired:
            raise ClientUnpaired(
                "this home cannot tell whose key this is",
                why="the line of authorized_keys does not name it, and a client was unpaired",
                fix="pair again",
            )
        if key:
            self._seen.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._seen / _file_name(key)).touch(mode=0o600)
        return key or ""

    def _register(self, key: str) -> None:
        self._doors.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._doors / str(os.getpid())
        path.unlink(missing_ok=True)
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)  # until this process ends
        os.write(held, key.encode())

    def _open_doors(self) -> dict[int, str]:
        """The process numbers of doors, each with its key. Files of doors that ended go."""
        found = {}
        for path in self._doors.glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found[int(path.name)] = file.read(200).decode("ascii", "replace")
                else:
                    path.unlink()
        return found

    def _last_seen(self, key: str) -> str | None:
        try:
            seconds = (self._seen / _file_name(key)).stat().st_mtime
        except FileNotFoundError:
            return None
        return format_unix(seconds)


def _paired_lines(path: Path) -> dict[str, tuple[str, str, str]]:
    """Lines that lead to home's door, each with its program, public key and client's name."""
    matches = {line: _PAIRED.fullmatch(line.strip()) for line in lines_of(path.expanduser())}
    return {line: (found[1], found[2], found[3]) for line, found in matches.items() if found}


def _file_name(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9=]", "_", key.replace("+", "-"))


def _end(door: int) -> None:
    """End a door and the session of sshd that it belongs to: the session could open more."""
    processes = [Process.find(number, Path("/dev/null")) for number in (door, _session_of(door))]
    for process in processes:
        if process:
            process.signal(signal.SIGTERM)
    for process in processes:
        if process and not process.ended(_END_SECONDS):
            process.signal(signal.SIGKILL)


def _session_of(door: int) -> int:
    """Return the process number of the nearest sshd above a door, or 0 if another user runs it."""
    number = door
    while number > 1:
        status = _status(number)
        if status.get("Name", "").startswith("sshd"):
            return number if status["Uid"].split()[0] == str(os.getuid()) else 0
        number = int(status.get("PPid", 0))
    return 0


def _status(number: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{number}/status").read_text(encoding="ascii")
    except OSError:
        return {}
    return {
        name: value.strip() for name, _, value in (row.partition(":") for row in text.splitlines())
    }
