# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Answers of strangers that home has not confirmed, and how many of them are believed.

A stranger is a surrogate without `trusted = true`. Its answer is provisional from the moment that
it is believed until home has answered the same operation. Who runs a hotspot can cut home off, so
that no answer is ever confirmed: a limit says how long and how many are believed all the same.

A read that is not compared has nothing that could confirm it. It is provisional until home has
said anything at all: as long as home is in reach, samples catch a liar (see client.session.reads).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable

from client.platform.limit import Limit
from client.session.feed import FINAL, Feed
from satchel.errors import UnavailableError
from satchel.ids import OperationNumber


class NotConfirmed(UnavailableError):
    """Too many answers of surrogates are unconfirmed by home; no more are accepted."""


class ProvisionalAnswers:
    """What is provisional now, by a key each: an operation's number, or a read. Not thread-safe."""

    def __init__(self, limit: Limit, trusted: Collection[str] = ()) -> None:
        """trusted: the replicas to which the limit does not apply."""
        self.limit = limit
        self._trusted = trusted
        self._since: dict[Hashable, float] = {}
        self._uncompared: dict[Hashable, float] = {}

    def trusts(self, name: str) -> bool:
        """Whether that replica is no stranger."""
        return name in self._trusted

    def takes(self, feed: Feed) -> bool:
        """Whether an answer of that replica is believed now."""
        return feed.state not in FINAL and (self.trusts(feed.name) or self.room)

    def stuck(self, feeds: Iterable[Feed]) -> bool:
        """Whether no stranger may be believed any more, and these have no other replica."""
        there = any(self.trusts(feed.name) and feed.answers for feed in feeds)
        return not there and not self.room

    def believe(self, key: Hashable, *, compared: bool) -> None:
        """A stranger's answer was taken. compared: home is asked the same."""
        (self._since if compared else self._uncompared)[key] = time.monotonic()

    def confirm(self, key: Hashable) -> None:
        """Home has answered it."""
        self._since.pop(key, None)

    def has(self, key: Hashable) -> bool:
        """Whether it waits for home."""
        return key in self._since

    def executed(self, upto: OperationNumber) -> None:
        """Home has answered every operation up to that one."""
        for key in [k for k in self._since if isinstance(k, int) and k <= upto]:
            del self._since[key]

    def heard(self, moment: float) -> None:
        """Home has said something at that moment (monotonic)."""
        for key in [k for k, since in self._uncompared.items() if since <= moment]:
            del self._uncompared[key]

    @property
    def count(self) -> int:
        return len(self._since) + len(self._uncompared)

    @property
    def seconds(self) -> float:
        """Since when the oldest one is provisional; 0 without any."""
        times = [next(iter(d.values())) for d in (self._since, self._uncompared) if d]
        return time.monotonic() - min(times) if times else 0.0

    @property
    def room(self) -> bool:
        """Whether one more may be believed."""
        return self.count < self.limit.operations and self.seconds < self.limit.seconds

    @property
    def half_full(self) -> bool:
        """Whether it is time to ask home for something."""
        return 2 * self.count >= self.limit.operations or 2 * self.seconds >= self.limit.seconds

    def refusal(self, operation: int | None = None) -> NotConfirmed:
        """operation: that is logged and executed already, and whose answer is not believed."""
        wait = "wait until home is in reach, or start the session with `--provisional unlimited`"
        what = "nothing more is done" if operation is None else f"operation {operation} is logged"
        return NotConfirmed(
            f"{what}: {self.count} answers are not confirmed by home, for up to "
            f"{self.seconds:.0f} s",
            why=f"home does not answer, and the limit is {self.limit}",
            fix=wait if operation is None else f"do not send it again; {wait}",
        )
