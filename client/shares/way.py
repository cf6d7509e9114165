# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How this client reaches home's shares."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.platform.settings import HOME, ClientSettings
from satchel.errors import IntegrityError, NotFoundError, SatchelError, UsageError
from shares.node import Caller, ConversationOwner, ParkingPolicy
from wire import Caller as WireCaller
from wire import Link, Links


@dataclass(frozen=True)
class ShareWay:
    """shares: names of those that home has; socket: where they are reached on this host, while a
    connection of the link stands"""

    shares: tuple[str, ...]
    socket: Path
    link: Link

    def call(self, ends: ConversationOwner) -> Caller:
        """Begin a conversation; what Membership is given. A link that rests is woken, or connected
        anew; tried again in the background where that fails."""
        with contextlib.suppress(SatchelError):
            self.link.connect()
        return WireCaller(self.socket, ends, HOME)

    def choose(self, share: str | None) -> str:
        """That share, or the only one. Raises NotFoundError, UsageError."""
        if not self.shares:
            raise NotFoundError("home shares nothing", fix="`satchel-home share add PATH` at home")
        known = ", ".join(self.shares)
        if share is None and len(self.shares) != 1:
            raise UsageError("say which share", why=f"home has: {known}")
        chosen = self.shares[0] if share is None else share
        if chosen not in self.shares:
            raise NotFoundError(f"home has no share {chosen}", why=f"it has: {known}")
        return chosen


def parking(settings: ClientSettings, way: ShareWay) -> ParkingPolicy | None:
    """When a mount that is reached that way leaves home, and its link rests."""
    seconds = settings.park_seconds
    return ParkingPolicy(seconds, way.link.rest) if seconds else None


@contextlib.contextmanager
def share_way(settings: ClientSettings) -> Iterator[ShareWay]:
    """Within the block home's shares are reached; the connection is made again when it breaks.
    Raises UnavailableError where home is not reached to begin with, NotFoundError where client.toml
    has none."""
    with Links(settings.run / "l" / f"mount-{os.getpid()}") as links:
        link = links.open(HOME, settings.require_home())
        listed: Any = link.http.get_json("/v1/shares")
        if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
            raise IntegrityError("home's list of shares is malformed", why=str(listed)[:200])
        names = tuple(str(row.get("name")) for row in listed)
        yield ShareWay(names, link.reach("shares"), link)
