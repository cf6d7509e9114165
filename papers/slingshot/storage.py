# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the checkpoints on a stick consist of: volatile and persistent state, and what is shared.

The working set and the profile do not count: they are copies of what the volumes have.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chunkstore import ChunkMissing, Store, TableRoot, split_refs
from images import Manifest
from media import Media, SealKeys
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef
from wire import BATCH_LIMIT

PIECE = 4 << 20
COMPRESSORS = 2


@dataclass(frozen=True)
class State:
    """Bytes of a part of a checkpoint. size: as the guest sees it. stored: its different chunks and
    the tables, as they are on the stick. compressed: of one stream of all of it (zlib), which
    is what an eager transfer sends."""

    size: int
    stored: int
    compressed: int

    def __add__(self, other: State) -> State:
        stored, compressed = self.stored + other.stored, self.compressed + other.compressed
        return State(self.size + other.size, stored, compressed)


class Checkpoints:
    """A copy of the newest checkpoint of each of these services, in a store of its own."""

    def __init__(self, stick: Path, keys: SealKeys, services: Iterable[str], folder: Path) -> None:
        self.store = Store.create(folder)
        self.manifests: dict[str, Manifest] = {}
        with Media.open(stick, keys) as media:
            for name in services:
                manifest = Manifest.from_bytes(media.signed(media.checkpoints(name)[0])[0])
                self.manifests[name] = manifest
                _copy(media, self.store, manifest.roots())
        self._states = {name: (self._memory(name), self._disk(name)) for name in self.manifests}

    def close(self) -> None:
        """The copy is of no use any more."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def give(self, service: str, folder: Path) -> None:
        """Have all of a service's checkpoint in the store in that folder, which may be none yet.
        Nobody else may have it open."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Store.open(folder) if folder.exists() else Store.create(folder) as store:
            _copy(self.store, store, self.manifests[service].roots())

    def volatile(self, service: str) -> State:
        """Memory and device state."""
        return self._states[service][0]

    def persistent(self, service: str) -> State:
        """The disks."""
        return self._states[service][1]

    def whole(self, service: str) -> State:
        """Both."""
        return self.volatile(service) + self.persistent(service)

    def overlap(self, *, disks: bool) -> tuple[int, int]:
        """Bytes of the services' different chunks, each service counted alone, and of all of them
        together. disks: of these alone."""
        sets = [set(self._refs(self._parts(name, disks=disks))) for name in self.manifests]
        alone = sum(len(each) for each in sets) * BLOCK_SIZE
        return alone, len(set().union(*sets)) * BLOCK_SIZE

    def _parts(self, service: str, *, disks: bool) -> list[TableRoot]:
        return self._disks(service) if disks else list(self.manifests[service].volumes.values())

    def _disks(self, service: str) -> list[TableRoot]:
        manifest = self.manifests[service]
        return [manifest.volumes[name] for name in manifest.machine["disks"]]

    def _memory(self, service: str) -> State:
        manifest = self.manifests[service]
        disks = self._disks(service)
        memory = [root for root in manifest.volumes.values() if root not in disks]
        return self._state([manifest.device_state, *memory])

    def _disk(self, service: str) -> State:
        return self._state(self._disks(service))

    def _state(self, roots: list[TableRoot]) -> State:
        refs = self.store.reachable(roots)
        stored = sum(len(self.store.records(batch)) for batch in _batches(refs))
        with ThreadPoolExecutor(COMPRESSORS) as pool:
            pieces = [(root, at) for root in roots for at in range(0, root.size, PIECE)]
            compressed = sum(pool.map(lambda piece: self._compressed(*piece), pieces))
        return State(sum(root.size for root in roots), stored, compressed)

    def _compressed(self, root: TableRoot, at: int) -> int:
        piece = self.store.read(root, at, min(PIECE, root.size - at))
        return len(zlib.compress(piece)) if piece.count(0) < len(piece) else 0

    def _refs(self, roots: list[TableRoot]) -> tuple[ChunkRef, ...]:
        return split_refs(self.store.reachable(roots))


def _copy(source: Media | Store, store: Store, roots: list[TableRoot]) -> None:
    """All that a store lacks of these. Pages come first: only they say what they name."""
    while missing := store.missing(*roots):
        for batch in _batches(missing):
            if not store.admit(source.records(batch)):
                ref = ChunkRef(batch[:CHUNK_REF_SIZE])
                raise ChunkMissing("the stick lacks a chunk of a checkpoint", ref=ref)
    store.sync()


def _batches(refs: bytes) -> Iterator[bytes]:
    size = BATCH_LIMIT * CHUNK_REF_SIZE
    return (refs[at : at + size] for at in range(0, len(refs), size))
