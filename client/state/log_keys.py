# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys that seal the logs of services on media, as home gave them to this client.
docs/formats/client-state.md"""

from __future__ import annotations

import logging
from pathlib import Path

from client.state.kept import save
from replay import KEY_SIZE
from satchel.errors import IntegrityError

logger = logging.getLogger(__name__)


class LogKeys:
    """A folder with one file for each service, readable by the user alone. A lost one is had from
    home again. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def get(self, service: str) -> bytes | None:
        """The key of a service; None before home was met. Raises OSError."""
        try:
            key = (self._folder / service).read_bytes()
        except FileNotFoundError:
            return None
        if len(key) != KEY_SIZE:
            logger.warning("%s is not a key; home gives another", self._folder / service)
            return None
        return key

    def keep(self, service: str, key: bytes) -> None:
        """Durable on return. Raises OSError, IntegrityError for what is no key."""
        if len(key) != KEY_SIZE:
            raise IntegrityError("home's answer is not a lease", why=f"a key of {len(key)} bytes")
        if key != self.get(service):
            save(self._folder / service, key, mode=0o600)
