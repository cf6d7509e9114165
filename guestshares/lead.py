# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who has done what the replicas of a service ask of the content of their files: home, or the
surrogate that leads.

From an operation on, one surrogate has a node of the share do it and tells home what came of it;
home's replica waits for that. Names are changed by home alone, and locks are home's: those cannot
be done twice without harm. Content can be: a write at an offset is the same the second time. So
when the surrogate is lost, home does again what it was not told. docs/shares-edge.md.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from guestshares.counts import CallName
from guestshares.kernel import IN_HEADER, KernelRequest, Opcode

PATIENCE_SECONDS = 5.0
"""For which home's replica waits for what the surrogate has not told; then it is to yield."""

RECALL_SECONDS = 5.0
"""After that, until home goes on without it."""

_LEAD_POLL_SECONDS = 0.25

_CONTENT = frozenset(
    {
        Opcode.LOOKUP,
        Opcode.GETATTR,
        Opcode.READLINK,
        Opcode.OPEN,
        Opcode.READ,
        Opcode.STATFS,
        Opcode.FSYNC,
        Opcode.OPENDIR,
        Opcode.READDIR,
        Opcode.READDIRPLUS,
        Opcode.FSYNCDIR,
        Opcode.ACCESS,
    }
)

_TIMES_AND_SIZE = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 9, 10))
"""Of a SETATTR: size, times, the handle and the owner of its locks. Not mode, user and group."""

_WRITE_FLAGS = 32


def is_content(request: KernelRequest) -> bool:
    """Whether doing it twice is as good as once, so that a surrogate may. `refusal` is 0."""
    if request.opcode == Opcode.WRITE:
        (flags,) = struct.unpack_from("<I", request.message, IN_HEADER.size + _WRITE_FLAGS)
        return not flags & os.O_APPEND
    if request.opcode == Opcode.SETATTR:
        (valid,) = struct.unpack_from("<I", request.message, IN_HEADER.size)
        return not valid & ~_TIMES_AND_SIZE
    return request.opcode in _CONTENT


class Leader(Protocol):
    """A surrogate's line."""

    def recall(self, yielded: Callable[[], None]) -> None:
        """Have it hand over to home, and lead no more; never waits."""

    def fence(self, *, handed_over: bool = False) -> None:
        """Whatever its node says from now on comes too late. handed_over: home has all of it."""

    def session(self, told: Callable[[bytes], None]) -> None:
        """Ask for its session as it is now; never waits."""

    def expect(self, session: bytes) -> None:
        """Tell it that this session may be handed over to it; never waits."""


Granted = Callable[[int, bytes], None]
"""Is told from which operation a surrogate leads, 0: it does not; and the session that was handed
over to it."""


@dataclass
class LeaderLease:
    """One surrogate's. first: the operation from which it leads; waiting: calls of other replicas
    that it has not told, by name: since when (monotonic), and what has them asked again. Guarded by
    the keeper's lock."""

    leader: Leader
    first: int
    waiting: dict[CallName, tuple[float, list[Callable[[], None]]]] = field(default_factory=dict)
    over: bool = False

    def wait(self, name: CallName, again: Callable[[], None]) -> None:
        self.waiting.setdefault(name, (time.monotonic(), []))[1].append(again)

    def told(self, name: CallName) -> list[Callable[[], None]]:
        """What has that asked again, if it waits."""
        return self.waiting.pop(name, (0.0, []))[1]

    @property
    def silent(self) -> float:
        """For how many seconds the longest has waited."""
        since = [since for since, _ in list(self.waiting.values())]
        return time.monotonic() - min(since) if since else 0.0


class LeadWatch:
    """Has a surrogate yield that home's replica waits for too long, and goes on without one that
    does not. A thread, until the lead is over."""

    def __init__(self, lead: LeaderLease, end: Callable[[LeaderLease, str], None]) -> None:
        """end: the keeper's; harmless where it is over."""
        self._lead, self._end = lead, end
        self._over = threading.Event()
        threading.Thread(target=self._run, name="lead", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(_LEAD_POLL_SECONDS):
            if self._lead.over:
                return
            if self._lead.silent <= PATIENCE_SECONDS:
                continue
            yielded = threading.Event()
            self._lead.leader.recall(yielded.set)
            why = "it was waited for, and has yielded"
            if not yielded.wait(RECALL_SECONDS) and not self._lead.over:
                self._lead.leader.fence()
                why = "nothing was heard of it"
            self._end(self._lead, why)
            return
