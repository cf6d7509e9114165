# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a replica of a carried service does besides: deltas of it, and standing by for its turn.

A replica that stands by has its volumes, what is fetched ahead of it, and its QEMU, which waits for
a device state. Deltas of the machine that leads are written over its blocks as they come. The last
one has the device state with which it goes on.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from chunkstore import TableRoot
from replica import MachineSnapshot, Replica, decode_delta, was_stopped
from satchel.errors import StateError
from wire import CreateReplica

GO_SECONDS = 1800.0
"""How long a replica stands by."""


class Standby:
    """A replica's wait for its last delta. Thread-safe."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._changed = threading.Condition()
        self._sizes: dict[str, int] | None = None  # while it stands by
        self._device_state: bytes | None = None
        self._closed = False
        self._over = False

    @property
    def stands(self) -> bool:
        """Whether deltas are taken now."""
        return self._sizes is not None and not self._over

    def await_go(self, root: TableRoot) -> bytes:
        """The device state of the last delta. The replica is started by now. root: of a device
        state that is outdated. Raises ReplicaFailed when it is ended, StateError when nobody comes.
        """
        with self._changed:
            self._sizes = {name: one.blocks for name, one in self._replica.volumes().items()}
            came = self._changed.wait_for(
                lambda: self._closed or self._device_state is not None, GO_SECONDS
            )
            self._over = True
            if self._device_state is not None:
                return self._device_state
        if came:
            raise was_stopped(self._replica.id)
        raise StateError(f"replica {self._replica.id} stood by in vain", why="no delta came")

    def take(self, data: bytes, *, go: bool, require: Callable[[int], None]) -> None:
        """Write a delta over the machine's blocks; with `go` it is the last one. require: raises if
        there is no room for so many bytes more. Raises StateError if it does not stand by,
        DeltaInvalid."""
        with self._changed:
            if self._sizes is None or self._over or self._device_state is not None:
                raise StateError(f"replica {self._replica.id} does not stand by")
            delta = decode_delta(data, self._sizes)
            require(delta.size)
            self._replica.write(delta.blocks())
            if go:
                self._device_state = delta.device_state
                self._changed.notify_all()

    def close(self) -> None:
        """Nobody comes any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def frozen_at(request: CreateReplica, frozen: MachineSnapshot) -> CreateReplica:
    """The request from which a surrogate that is started again takes over a machine that was frozen
    so."""
    volumes = {name: root.to_json() for name, root in frozen.volumes.items()}
    new = {"volumes": volumes, "device_state": frozen.device_state.to_json()}
    return dataclasses.replace(
        request, manifest=request.manifest | new, changed=None, pages=None, standby=False
    )
