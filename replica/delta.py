# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A delta: what of a machine has changed since an earlier freeze, whole.

    delta := magic "SATD" (4)  version u8  volumes u8  zero u16  runs u32  device u64
             name*  run*  body
    name  := length u8  bytes
    run   := volume u8  first u32  count u16
    body  := a zlib stream: the device state (`device` bytes), then the blocks of the runs

All integers are little-endian; docs/formats/delta.md. Who has the tables of the earlier freeze and
a delta has the machine of the later one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chunkstore import Store, TableRoot, difference
from replica.states import MachineSnapshot
from replica.working_set import Run
from satchel.errors import IntegrityError
from satchel.ids import BLOCK_SIZE
from volumes import Volume, create_volume

MAGIC = b"SATD"
VERSION = 1

BLOCK_LIMIT = 1 << 18
"""Blocks of a delta: 1 GiB."""
DEVICE_LIMIT = 64 << 20
VOLUME_LIMIT = 9

LEVEL = 6
HASTY_LEVEL = 1
"""Of zlib, the second where a machine is held until the delta has come."""

FEED, PIECE = 1 << 16, 1 << 20
"""Bytes that are unpacked at a time, and that they become at most."""

_HEADER = struct.Struct("<4sBBHIQ")
_RUN = struct.Struct("<BIH")
_COUNT_LIMIT = 0xFFFF


class DeltaInvalid(IntegrityError):
    """The bytes are not a delta."""

    def __init__(self, why: str) -> None:
        super().__init__("not a delta of a machine", why=why)


@dataclass(frozen=True)
class Delta:
    """A delta as it was read. body: the zlib stream, whose size is the one that the header says."""

    device_state: bytes
    runs: tuple[Run, ...]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(run.count for run in self.runs) * BLOCK_SIZE

    def numbers(self) -> Iterator[tuple[str, int]]:
        """The volume and number of each block, none twice."""
        return ((name, number) for run in self.runs for name, number in run.blocks())

    def blocks(self) -> Iterator[tuple[str, int, bytes]]:
        """The volume, number and content of each block. The content is unpacked piece by piece."""
        pieces = _unpacked(self.body, len(self.device_state), len(self.device_state) + self.size)
        held, start = b"", 0
        for name, number in self.numbers():
            if start == len(held):
                held, start = b"", 0
            while len(held) - start < BLOCK_SIZE:
                held, start = held[start:] + next(pieces), 0
            yield name, number, held[start : start + BLOCK_SIZE]
            start += BLOCK_SIZE


def encode(
    device_state: bytes, runs: Iterable[Run], read: Callable[[Run], bytes], level: int = HASTY_LEVEL
) -> bytes:
    """The bytes of a delta. `read` gives the content of a run. level: of zlib"""
    found = list(_short(runs))
    names = sorted({run.volume for run in found})
    header = _HEADER.pack(MAGIC, VERSION, len(names), 0, len(found), len(device_state))
    parts = [header, *(bytes([len(name)]) + name.encode() for name in names)]
    parts += [_RUN.pack(names.index(run.volume), run.first, run.count) for run in found]
    packer = zlib.compressobj(level)
    parts.append(packer.compress(device_state))
    parts += [packer.compress(read(run)) for run in found]
    return b"".join([*parts, packer.flush()])


def decode(data: bytes, sizes: Mapping[str, int]) -> Delta:
    """Return the delta of these bytes, which a stranger may have written. sizes: blocks of each
    volume. Its memory is that of the device state, whatever the bytes unpack to. Raises
    DeltaInvalid."""
    try:
        magic, version, volumes, zero, count, device = _HEADER.unpack_from(data)
        if (magic, version, zero) != (MAGIC, VERSION, 0) or volumes > VOLUME_LIMIT:
            raise DeltaInvalid("its first bytes are others")
        if device > DEVICE_LIMIT or count > BLOCK_LIMIT:
            raise DeltaInvalid(f"a device state of {device} bytes, {count} runs")
        at, names = _HEADER.size, []
        for _ in range(volumes):
            end = at + 1 + data[at]
            names.append(data[at + 1 : end].decode("ascii"))
            at = end
        rows = _RUN.iter_unpack(data[at : at + count * _RUN.size])
        runs = tuple(Run(names[volume], first, blocks) for volume, first, blocks in rows)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DeltaInvalid(str(error)) from error
    _check(runs, count, sizes)
    size = device + sum(run.count for run in runs) * BLOCK_SIZE
    body = data[at + count * _RUN.size :]
    state = b"".join(_unpacked(body, 0, size, until=device))
    return Delta(state, runs, body)


def between(
    store: Store, earlier: Mapping[str, TableRoot], frozen: MachineSnapshot, *, hasty: bool
) -> bytes:
    """The delta from a freeze with these tables to a later one, both in the store. hasty: the
    machine is held until it has come. Raises what the store raises."""
    runs = []
    for name, root in sorted(frozen.volumes.items()):
        found = difference(store, earlier[name], root)
        runs += [Run(name, number, 1) for number in sorted(found.blocks)]

    def content(run: Run) -> bytes:
        root = frozen.volumes[run.volume]
        return store.read(root, run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

    level = HASTY_LEVEL if hasty else LEVEL
    return encode(store.read(frozen.device_state), runs, content, level)


def apply(store: Store, tables: Mapping[str, TableRoot], delta: Delta) -> dict[str, TableRoot]:
    """The tables of an earlier freeze with a delta's blocks in their places, whose content is
    durable in the store then. Raises ChunkMissing where a page above them is not here, and what the
    store raises.
    """
    folder = Path(tempfile.mkdtemp(prefix="delta-", dir=store.path))
    try:
        with contextlib.ExitStack() as stack:
            changed: dict[str, tuple[Volume, int]] = {}
            for name, number, content in delta.blocks():
                if name not in changed:
                    volume = create_volume(folder, name, tables[name])
                    stack.callback(volume.map.close)
                    file = stack.enter_context(volume.overlay.open("r+b", buffering=0))
                    changed[name] = (volume, file.fileno())
                volume, descriptor = changed[name]
                os.pwrite(descriptor, content, number * BLOCK_SIZE)
                volume.map.mark_dirty(number, 1)
            roots = dict(tables)
            for name, (volume, _) in changed.items():
                roots[name] = store.commit(volume.root, volume.map, volume.overlay)
            store.sync()
            return roots
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short(runs: Iterable[Run]) -> Iterator[Run]:
    """The same blocks, neighbours in one run."""
    now: Run | None = None
    for run in runs:
        if (
            now
            and now.volume == run.volume
            and run.first == now.first + now.count
            and now.count + run.count <= _COUNT_LIMIT
        ):
            now = Run(now.volume, now.first, now.count + run.count)
            continue
        if now:
            yield now
        now = run
    if now:
        yield now


def _check(runs: tuple[Run, ...], count: int, sizes: Mapping[str, int]) -> None:
    """Refuse runs beyond a volume, and runs that name a block again."""
    if len(runs) != count or sum(run.count for run in runs) > BLOCK_LIMIT:
        raise DeltaInvalid("its runs are cut off, or too many")
    ends: dict[str, int] = {}
    for run in runs:
        end = run.first + run.count
        if end > sizes.get(run.volume, 0):
            raise DeltaInvalid(f"volume {run.volume[:40]!r} has no block {end - 1}")
        if run.first < ends.get(run.volume, 0):
            raise DeltaInvalid(f"volume {run.volume[:40]!r}: block {run.first} is not in order")
        ends[run.volume] = end


def _unpacked(body: bytes, first: int, size: int, until: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a stream from `first` on, in pieces of PIECE bytes at most; with `until`
    only those before that byte, and check the rest. Raises DeltaInvalid for a stream of another
    size than `size`."""
    done = 0
    for piece in _pieces(body):
        start, done = done, done + len(piece)
        if done > size:
            break
        wanted = piece[max(0, first - start) : None if until is None else max(0, until - start)]
        if wanted:
            yield wanted
    if done != size:
        raise DeltaInvalid("its content has another size")


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield all bytes of a stream. Raises DeltaInvalid if it is damaged, cut off or goes on."""
    unpacker, view = zlib.decompressobj(), memoryview(body)
    try:
        for start in range(0, len(view), FEED):
            rest: bytes | memoryview = view[start : start + FEED]
            while rest and not unpacker.eof:
                yield unpacker.decompress(rest, PIECE)
                rest = unpacker.unconsumed_tail
            if unpacker.eof:
                if unpacker.unused_data or start + FEED < len(view):
                    raise DeltaInvalid("something follows its content")
                return
        while piece := unpacker.decompress(b"", PIECE):
            yield piece
    except zlib.error as error:
        raise DeltaInvalid(str(error)) from error
    if not unpacker.eof:
        raise DeltaInvalid("its content is cut off")
