# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys that seal a service's log on media, as home keeps them."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from replay import KeyRing, kept_keys
from satchel.files import write_durably
from satchel.timestamps import format_timestamp


class ServiceLogKeys:
    """The keys of one service, in a file; none for a stateless service. Only home's clients get
    them. Thread-safe."""

    def __init__(self, path: Path | None, days: int) -> None:
        """days: the age at which a key changes; 0: never by its age. Raises OSError, and
        IntegrityError for a damaged file."""
        self._path = path
        self._days = days
        self._lock = threading.Lock()
        self.ring: KeyRing | None = kept_keys(path) if path else None

    def change(self, days: int = 0) -> bool:
        """Seal logs on media by another key from now on; return whether there is a log. Operations
        that only media have, under an earlier key, count for so many days still. Raises OSError."""
        with self._lock:
            if self._path and self.ring:
                changed = self.ring.changed(days)
                write_durably(self._path, changed.to_bytes(), mode=0o600)
                self.ring = changed
        return self.ring is not None

    def for_client(self) -> str:
        """Return the keys as a client gets them, after a change if the current one is too old;
        empty without keys. Raises OSError."""
        oldest = format_timestamp(datetime.now(UTC) - timedelta(days=self._days))
        if self._days and self.ring and self.ring.current.created < oldest:
            self.change(self._days)
        return self.ring.to_bytes().decode() if self.ring else ""
