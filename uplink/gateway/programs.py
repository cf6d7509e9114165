# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which program asks, and whether a person waits for it (StoArranger, section V-A2).

The peer of a loopback connection is found in the kernel's table of sockets, and its process by the
socket among its descriptors. Then, the first that says something:

    a rule of the settings, by the program's name
    `satchel uplink run --background`, which its environment tells
    it has the foreground of its terminal         a person's
    its cgroup is a service's, a timer's, cron's  automatic

Who says nothing is a person: a wrong guess then costs joules and no patience.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wire import LoopbackPeer

MARK = "SATCHEL_UPLINK"
"""The environment variable that `satchel uplink run` gives: `background` or `foreground`."""

RECENT = 16
"""Processes that are looked at first."""

_SERVICE = re.compile(r"/[^/]*\.service(/|$)", re.MULTILINE)
_SESSION = re.compile(r"/(session-[^/]*|[^/]*vte-[^/]*|app-[^/]*)\.scope(/|$)", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """pid: 0 where it is not known; name: of its executable; automatic: whether nobody waits; why:
    what told so"""

    pid: int = 0
    name: str = ""
    automatic: bool = False
    why: str = "the program is not known"


@dataclass(frozen=True)
class Rules:
    """Names of programs."""

    background: frozenset[str] = frozenset()
    foreground: frozenset[str] = frozenset()


class Programs:
    """Finds the programs at the other end of connections through 127.0.0.1. Any thread.

    To look through all processes takes long, so those that have come lately are looked at first.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._recent: list[int] = []

    def at(self, connection: socket.socket) -> Program:
        """Never raises."""
        try:
            peer = LoopbackPeer.of(connection)
            pid = self._holder(peer.inode) if peer else 0
            return self.of(pid) if pid else Program()
        except (OSError, ValueError, IndexError):
            return Program()

    def of(self, pid: int) -> Program:
        """Of a process that is known. Never raises."""
        try:
            return judge(pid, self._rules)
        except (OSError, ValueError, IndexError):
            return Program()

    def _holder(self, inode: int) -> int:
        recent = self._recent
        pid = next(_holders(inode, recent), 0)
        if not pid:
            entries = (entry.name for entry in os.scandir("/proc"))
            everybody = [int(name) for name in entries if name.isdigit()]
            pid = next(_holders(inode, sorted(everybody, reverse=True)), 0)
        if pid:
            self._recent = [pid, *(each for each in recent if each != pid)][:RECENT]
        return pid


def judge(pid: int, rules: Rules) -> Program:
    """What is known of a process. Raises OSError where it has ended."""
    process = Path("/proc", str(pid))
    name = (process / "exe").readlink().name
    names = {name, (process / "comm").read_text().strip()}
    if names & rules.foreground:
        return Program(pid, name, False, "a rule of the settings")
    if names & rules.background:
        return Program(pid, name, True, "a rule of the settings")
    mark = _mark(process)
    if mark in ("background", "foreground"):
        return Program(pid, name, mark == "background", "satchel uplink run")
    if _has_foreground(process):
        return Program(pid, name, False, "it has the foreground of its terminal")
    cgroup = (process / "cgroup").read_text()
    found = _SERVICE.search(cgroup.replace("/user@", "/"))
    if found and not _SESSION.search(cgroup):
        unit = found[0].strip("/")
        return Program(pid, name, True, f"its cgroup is {unit}")
    return Program(pid, name, False, "nothing says that it is automatic")


def _mark(process: Path) -> str:
    prefix = MARK.encode() + b"="
    for variable in (process / "environ").read_bytes().split(b"\0"):
        if variable.startswith(prefix):
            return variable.removeprefix(prefix).decode("utf-8", "replace")
    return ""


def _has_foreground(process: Path) -> bool:
    """Its process group is that of its controlling terminal."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    group, terminal, foreground = fields[2], fields[4], fields[5]
    return terminal != "0" and group == foreground


def _holders(inode: int, processes: Iterable[int]) -> Iterator[int]:
    """Those, of this user unless we are root, that have the socket. Those that began last are the
    likeliest."""
    wanted = f"socket:[{inode}]"
    for pid in processes:
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                for descriptor in os.scandir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(descriptor.path) == wanted:  # noqa: PTH115
                            yield pid
