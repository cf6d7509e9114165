# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Replicas that a client asked for and may not have ended: what a killed session left behind.

A surrogate ends them by itself after a while. Until then they take its memory, which is missed
first by the same client's next session, so that one ends them.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from satchel.errors import NotFoundError, SatchelError
from satchel.files import write_durably
from satchel.ids import ReplicaId
from wire import Link

logger = logging.getLogger(__name__)


class Leftovers:
    """Replicas by id, and the surrogate where each is, in a small file. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """A file that is missing or damaged is an empty one."""
        self._path = path
        self._replicas: dict[str, str] = {}
        try:
            loaded = json.loads(path.read_bytes())
            self._replicas = {str(replica): str(where) for replica, where in loaded.items()}
        except (OSError, ValueError, AttributeError):
            pass

    def note(self, surrogate: str, replica: ReplicaId) -> None:
        """A replica is about to be there."""
        self._replicas[replica] = surrogate
        self._write()

    def all(self) -> list[tuple[ReplicaId, str]]:
        """Each of them, and the surrogate where it is."""
        return [(ReplicaId(replica), where) for replica, where in self._replicas.items()]

    def forget(self, replica: ReplicaId) -> None:
        """It has ended."""
        if self._replicas.pop(replica, None):
            self._write()

    def remove_from(self, surrogate: str, link: Link) -> None:
        """End what is left on a surrogate. Never fails: it may be gone."""
        for replica in [r for r, where in self._replicas.items() if where == surrogate]:
            try:
                link.http.delete(f"/v1/replicas/{replica}")
                logger.info("replica %s at %s was left by an earlier session", replica, surrogate)
            except NotFoundError:
                pass
            except SatchelError as error:
                logger.warning("replica %s at %s: %s", replica, surrogate, error)
                continue
            self.forget(ReplicaId(replica))

    def _write(self) -> None:
        try:
            if self._replicas:
                write_durably(self._path, json.dumps(self._replicas).encode())
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("cannot note replicas in %s: %s", self._path, error)
