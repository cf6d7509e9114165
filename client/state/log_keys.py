# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys that seal the logs of services on media, as home gave them to this client.
docs/formats/client-state.md"""

from __future__ import annotations

import logging
from pathlib import Path

from client.state.kept import save
from replay import KeyRing
from satchel.errors import IntegrityError

logger = logging.getLogger(__name__)


class LogKeys:
    """A folder with one file for each service, readable by the user alone. A lost one is had from
    home again. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def get(self, service: str) -> KeyRing | None:
        """Return the keys of a service; None before home was met. Raises OSError."""
        try:
            return KeyRing.from_bytes((self._folder / service).read_bytes())
        except FileNotFoundError:
            return None
        except IntegrityError:
            logger.warning("%s has no keys; home gives others", self._folder / service)
            return None

    def keep(self, service: str, keys: KeyRing) -> None:
        """Durable on return. Raises OSError."""
        if keys != self.get(service):
            save(self._folder / service, keys.to_bytes(), mode=0o600)
