# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant: the guest that was admitted here, by the identity that its key has, and what it may.

For example, the key id of a certificate is an identity. So is a key's fingerprint, `SHA256:...`.
What a tenant uses is added up of its replicas when somebody wants to know. Bytes are counted by the
day, which begins when the tenant is admitted.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.errors import CapacityError, UsageError
from surrogate.caps import TenantCaps

if TYPE_CHECKING:
    from surrogate.tenants.readable_chunks import ReadableChunks

ACCOUNT = "account"
"""The identity of whoever reaches the daemon's own socket and is not the operator."""

DAY_SECONDS = 24 * 3600.0

_IDENTITY = re.compile(r"[A-Za-z0-9:+/=._-]{1,128}")


class InvalidIdentity(UsageError):
    """The text is not a valid identity of a tenant."""


class CapReached(CapacityError):
    """A tenant has reached one of its caps."""


def checked_identity(value: object) -> str:
    """The same text. Raises InvalidIdentity."""
    if isinstance(value, str) and _IDENTITY.fullmatch(value):
        return value
    raise InvalidIdentity(
        f"{str(value)[:140]!r} is not the identity of a tenant",
        why="it has 1 to 128 letters, digits and characters of :+/=._-",
    )


@dataclass(frozen=True)
class Usage:
    """What a tenant has here now. Bytes, where nothing else is said; hours of its oldest replica;
    day_bytes: since its day began."""

    replicas: int = 0
    memory_mib: int = 0
    vcpus: int = 0
    volume_bytes: int = 0
    overlay_bytes: int = 0
    cache_bytes: int = 0
    day_bytes: int = 0
    hours: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        total = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Usage(**total | {"hours": max(self.hours, other.hours)})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Tenant:
    """One of a host's. Thread-safe.

    forwarded: the folder in which its forwarded sockets are, and nobody else's
    brought: which chunks are its own
    """

    def __init__(
        self,
        identity: str,
        caps: TenantCaps,
        forwarded: Path,
        brought: ReadableChunks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: seconds that do not go back"""
        self.identity = identity
        self.caps = caps
        self.forwarded = forwarded
        self.brought = brought
        self._clock = clock
        self._lock = threading.Lock()
        self._day_began = self._heard = clock()
        self._day_bytes = 0
        self._metered: dict[Hashable, int] = {}

    @property
    def idle_seconds(self) -> float:
        """Since it was admitted the last time or anything was counted for it."""
        return self._clock() - self._heard

    @property
    def day_bytes(self) -> int:
        with self._lock:
            self._turn_day()
            return self._day_bytes

    def left_socket(self, path: str) -> Path:
        """Where the socket of that path was forwarded to before. Its client may be away at the
        moment, and forward it there again."""
        return self.forwarded / Path(path).name

    def count(self, size: int) -> None:
        """Bytes went to it, or came from it."""
        with self._lock:
            self._turn_day()
            self._heard = self._clock()
            self._day_bytes += size

    def meter(self, what: Hashable, total: int, *, last: bool = False) -> None:
        """Count what was fetched for something of it, which has `total` bytes by now. last: it
        fetches nothing more."""
        with self._lock:
            self._turn_day()
            self._day_bytes += max(0, total - self._metered.get(what, 0))
            self._metered[what] = total
            if last:
                del self._metered[what]

    def touch(self) -> None:
        """It was admitted again."""
        self._heard = self._clock()

    def require_day(self) -> None:
        """Raises CapReached where its bytes of the day are used up."""
        self._require("day_mib", self.day_bytes / (1 << 20), "MiB", "come again tomorrow")

    def require_room(self, wanted: Usage, cache_limit: int) -> None:
        """Raises CapReached where it would have too much. wanted: all that it would have then;
        cache_limit: bytes of the host's cache."""
        end = "end one of your replicas"
        self.require_day()
        self._require("replicas", wanted.replicas, "replicas", end)
        self._require("memory_mib", wanted.memory_mib, "MiB of machines", end)
        self._require("vcpus", wanted.vcpus, "processors", end)
        self._require("volume_gib", wanted.volume_bytes / (1 << 30), "GiB of disks", end)
        self._require("overlay_mib", wanted.overlay_bytes / (1 << 20), "MiB written", end)
        if cache_limit:
            share = 100 * wanted.cache_bytes / cache_limit
            self._require("cache_percent", share, "% of the cache", end)

    def _require(self, cap: str, value: float, unit: str, fix: str) -> None:
        limit = getattr(self.caps, cap)
        if value > limit:
            shown = f"{value:.1f}".removesuffix(".0")
            raise CapReached(
                f"a tenant has no more than {limit} {unit} here",
                why=f"it would be {shown} (tenant.{cap.replace('_', '-')})",
                fix=f"{fix}, or ask this surrogate's operator for more",
            )

    def _turn_day(self) -> None:
        if self._clock() - self._day_began >= DAY_SECONDS:
            self._day_began, self._day_bytes = self._clock(), 0
