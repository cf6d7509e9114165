# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where each block of an attached volume is, shared with the nbdkit plugin."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from chunkstore._native import _core


class BlockState(IntEnum):
    """The states of core/format/block_map.h."""

    ABSENT = 0
    ZERO = 1
    PACKED = 2
    DIRTY = 3


_STATES = tuple(BlockState)


class BlockEntry(NamedTuple):
    """One entry. The rest means something only where state is PACKED.

    length: bytes of payload; more than a block: the chunk is in a frame
    pack, offset: of the record or the frame
    slot: of the chunk in its frame
    """

    state: BlockState
    length: int
    pack: int
    offset: int
    slot: int = 0


class Foresight(NamedTuple):
    """Blocks that a machine has touched, blocks that were brought before it did or are there in
    vain, and those that are both."""

    touched: int = 0
    foreseen: int = 0
    used: int = 0

    @classmethod
    def of(cls, maps: Iterable[BlockMap]) -> Foresight:
        """That of several maps together. Raises StateError for one that is closed."""
        found = [block_map.foresight() for block_map in maps]
        return cls(*map(sum, zip(*found, strict=True)))


class BlockMap:
    """A block map file, mapped into this process. Thread-safe; StoreState once it is closed."""

    def __init__(self, native: _core.BlockMap) -> None:
        self.native = native

    @classmethod
    def create(cls, path: str | os.PathLike[str], blocks: int) -> BlockMap:
        """Make a map in which every block is absent. Raises FileExists, StoreFull."""
        return cls(_core.BlockMap.create(path, blocks))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> BlockMap:
        """Map an existing one. Raises FileMissing, StoreDamaged."""
        return cls(_core.BlockMap.open(path))

    def close(self) -> None:
        """Let go of the mapping; the file stays."""
        self.native.close()

    def __enter__(self) -> BlockMap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def blocks(self) -> int:
        """How many blocks the volume has."""
        return self.native.blocks

    def count(self, state: BlockState) -> int:
        """How many blocks are in that state now."""
        return self.counts()[state]

    def counts(self, first: int = 0, count: int | None = None) -> dict[BlockState, int]:
        """How many blocks are in each state now, of `count` from `first` on, by default of all.
        Raises IndexError."""
        found = self.native.counts(first, self.blocks - first if count is None else count)
        return dict(zip(_STATES, found, strict=True))

    def foresight(self) -> Foresight:
        """What bringing blocks ahead of the machine is worth so far."""
        return Foresight(*self.native.foresight())

    def touched(self, but: int = 0) -> list[int]:
        """The blocks that the machine has read or written, in the order of the first time, but for
        the first `but` of them. Who asks for what is new is told of some again where two threads of
        the machine touched a block at once."""
        return self.native.touched(but)

    def foresee(self, first: int, count: int = 1) -> None:
        """Note that those of these blocks that are absent and untouched are about to be brought.
        Raises IndexError."""
        self.native.foresee(first, count)

    def touch(self, first: int, count: int = 1) -> None:
        """Note that the machine touches blocks, as the plugin does. Raises IndexError."""
        self.native.touch(first, count)

    def ask_for_space(self) -> None:
        """Have the plugin give back the overlay's space of what is not dirty, soon."""
        self.native.ask_for_space()

    def entry(self, block: int) -> BlockEntry:
        """The entry of one block. Raises IndexError."""
        state, *place = self.native.entry(block)
        return BlockEntry(BlockState(state), *place)

    def mark_dirty(self, first: int, count: int = 1) -> None:
        """Mark blocks whose bytes are in the overlay file already. Raises IndexError."""
        self.native.mark_dirty(first, count)
