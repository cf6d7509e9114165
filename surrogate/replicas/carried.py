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
from typing import TYPE_CHECKING

from chunkstore import ChunkMissing, Store, TableRoot
from replica import DeltaMaker, Frozen, Replica, decode_delta, was_stopped
from satchel.errors import StateError
from surrogate.replicas.handover import TRIES, prepare
from wire import CreateReplica

if TYPE_CHECKING:
    from surrogate.replicas.hosted import HostedReplica

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

    def take(self, data: bytes, *, go: bool) -> None:
        """Write a delta over the machine's blocks; with `go` it is the last one. Raises StateError
        where it does not stand by, DeltaInvalid."""
        with self._changed:
            if self._sizes is None or self._over or self._device_state is not None:
                raise StateError(f"replica {self._replica.id} does not stand by")
            delta = decode_delta(data, self._sizes)
            self._replica.write(delta.blocks())
            if go:
                self._device_state = delta.device_state
                self._changed.notify_all()

    def close(self) -> None:
        """Nobody comes any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def delta_maker(hosted: HostedReplica, store: Store, freezing: threading.Lock) -> DeltaMaker:
    """Of that replica. freezing: held by whoever freezes it"""
    replica = hosted.replica
    freeze = lambda hold: _freeze(hosted, freezing, hold)  # noqa: E731
    return DeltaMaker(store, freeze, replica.go_on, replica.run_dir)


def frozen_at(request: CreateReplica, frozen: Frozen) -> CreateReplica:
    """The request from which a surrogate that is started again takes over a machine that was frozen
    so."""
    volumes = {name: root.to_json() for name, root in frozen.volumes.items()}
    new = {"volumes": volumes, "device_state": frozen.device_state.to_json()}
    return dataclasses.replace(
        request, manifest=request.manifest | new, changed=None, pages=None, standby=False
    )


def _freeze(hosted: HostedReplica, freezing: threading.Lock, hold: bool) -> Frozen:
    """A freeze that has the pages that it needs. It is noted for who takes the machine over."""
    with freezing:
        for tries in range(TRIES, 0, -1):
            prepare(hosted.replica, hosted.fetcher, hosted.volumes)
            hosted.note_frozen(None)
            try:
                frozen = hosted.replica.checkpoint(hold=hold)
            except ChunkMissing:
                if tries == 1:
                    raise
            else:
                hosted.note_frozen(frozen)
                return frozen
    raise AssertionError
