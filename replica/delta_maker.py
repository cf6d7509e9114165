# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Deltas of one running replica, for whoever fetches them: the newest one is kept, to be asked for
piece by piece, and again after a link has broken."""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import Store, TableRoot
from replica.delta import between
from replica.states import MachineSnapshot
from satchel.errors import NotFoundError, SatchelError, UsageError

logger = logging.getLogger(__name__)

INLINE_LIMIT = 4 << 20
"""Bytes of a delta that come with its offer."""


class DeltaGone(NotFoundError):
    """The delta is no longer kept."""


@dataclass(frozen=True)
class MadeDelta:
    """A delta and the freeze that it leads to. digest: SHA-256 of its bytes, in hex"""

    frozen: MachineSnapshot
    data: bytes
    digest: str

    def offer(self, *, hold: bool) -> dict[str, Any]:
        """What a client is told of it, see wire.DeltaOffer. hold: with its bytes, if they are few:
        somebody waits for them"""
        frozen = self.frozen
        inline = hold and len(self.data) <= INLINE_LIMIT
        return {
            "volumes": {name: root.to_json() for name, root in frozen.volumes.items()},
            "device_state": frozen.device_state.to_json(),
            "size": len(self.data),
            "digest": self.digest,
            "paused_seconds": frozen.paused_seconds,
            "content": base64.b64encode(self.data).decode() if inline else None,
        }


def tables_of(value: object) -> dict[str, TableRoot]:
    """Tables by volume, of a peer's JSON. Raises UsageError."""
    if not isinstance(value, dict):
        raise UsageError("these are not tables", why="it is not a JSON object")
    try:
        return {str(name): TableRoot.from_json(root) for name, root in value.items()}
    except (SatchelError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError("these are not tables", why=str(error)[:200]) from error


class DeltaMaker:
    """See the module. Thread-safe."""

    def __init__(
        self,
        store: Store,
        freeze: Callable[[bool], MachineSnapshot],
        go_on: Callable[[], None],
        folder: Path,
    ) -> None:
        """freeze: freezes the replica, and holds it if that is asked; go_on: ends that; folder:
        where the newest delta is kept, which goes with the replica."""
        self._store = store
        self._freeze = freeze
        self._go_on = go_on
        self._path = folder / "delta"
        self._making = threading.Lock()
        self._digest = ""

    def make(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> MadeDelta:
        """Freeze the replica now: the delta from the freeze that had these tables. Raises
        UsageError for other volumes than the replica's, and as a freeze and the store do."""
        with self._making:
            frozen = self._freeze(hold)
            try:
                made = self._made(since, frozen, hasty=hold)
            except BaseException:
                if hold:
                    self._go_on()
                raise
        data = made.data
        logger.info("a delta of %d bytes, %.3f s", len(data), frozen.paused_seconds)
        return made

    def _made(
        self, since: Mapping[str, TableRoot], frozen: MachineSnapshot, *, hasty: bool = False
    ) -> MadeDelta:
        sizes = {name: root.size for name, root in frozen.volumes.items()}
        if {name: root.size for name, root in since.items()} != sizes:
            raise UsageError("a delta needs the tables of an earlier freeze of this machine")
        data = between(self._store, since, frozen, hasty=hasty)
        made = MadeDelta(frozen, data, hashlib.sha256(data).hexdigest())
        self._path.write_bytes(data)
        self._digest = made.digest
        return made

    def again(self, since: Mapping[str, TableRoot], frozen: MachineSnapshot) -> MadeDelta:
        """The delta to a freeze that was made before; nothing is frozen. Raises as `make`."""
        with self._making:
            return self._made(since, frozen)

    def piece(self, digest: str, offset: int, length: int) -> bytes:
        """Bytes of the newest delta, fewer where it ends. Raises DeltaGone."""
        with self._making:
            if digest != self._digest:
                raise DeltaGone(f"no delta {digest[:64]} here", why="there is a newer one, or none")
            with self._path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
