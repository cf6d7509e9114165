# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The blocks that a resumed machine touches first, with their names and their content: found out by
a rehearsal at home, carried with the checkpoint, streamed by a surrogate ahead of the machine.

    blob      := directory  zero*  names  zero*  (frame  zero*)*     each part begins at a multiple
                                                                     of 4096
    directory := magic "SATW" (4)  version u8  volumes u8  zero u16  size u32  frames u32
                 name*  entry*
    name      := length u8  bytes
    entry     := length u32  runs u16  run*
    run       := volume u8  first u32  count u16
    names     := reference (52)*             of each frame's blocks, frame after frame; version 3

A frame is the blocks of its entry's runs, one after the other, compressed together. All integers
are little-endian; docs/formats/working-set.md. (REAP, ASPLOS 2021, section 4: record the pages of
the first invocation, keep them together, fetch them in one go.)
"""

from __future__ import annotations

import enum
import lzma
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chunkstore import TableRoot, name_blocks
from satchel.errors import IntegrityError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE

MAGIC = b"SATW"


class WorkingSetVersion(enum.IntEnum):
    """Of a blob."""

    NAMELESS = 2  # without names: what nobody else has, and blobs of before 2026-11-28
    NAMED = 3


BLOCK_LIMIT = 1 << 16
"""Blocks in a working set: 256 MiB."""

FRAME_BLOCKS = 256
"""Blocks in a frame at most. More in one compress better, and are waited for longer."""

LEAST_FRAME_BLOCKS = 64
"""A frame with fewer takes in its neighbours: each frame is padded by half a block on average."""

DIRECTORY_LIMIT = 1 << 20
"""Bytes of a directory."""

PRESET = 4
"""Of LZMA. 6 takes twice as long for 1.5 % less."""

HASTY_PRESET = 1
"""Where somebody waits for it: a third of the time for 3 % more."""

_HEADER = struct.Struct("<4sBBHII")
_ENTRY = struct.Struct("<IH")
_RUN = struct.Struct("<BIH")
_COUNT_LIMIT = 0xFFFF
_FIRST_LIMIT = 0xFFFFFFFF

Block = tuple[str, int]
"""A volume and the number of one of its blocks."""


class WorkingSetInvalid(IntegrityError):
    """The bytes are not a working set."""


@dataclass(frozen=True)
class Run:
    """`count` blocks of a volume from block `first` on."""

    volume: str
    first: int
    count: int

    def blocks(self) -> Iterator[Block]:
        return ((self.volume, self.first + n) for n in range(self.count))


@dataclass(frozen=True)
class Frame:
    """Blocks that are compressed together: `length` bytes from `offset` of the blob on.

    names: where in the blob the references of its blocks begin, 52 bytes each; None where there
    are none
    """

    offset: int
    length: int
    runs: tuple[Run, ...]
    names: int | None = None

    @property
    def count(self) -> int:
        """How many blocks it has."""
        return sum(run.count for run in self.runs)

    def expand(self, data: bytes) -> bytes:
        """Its blocks, of bytes from anybody. Raises WorkingSetInvalid."""
        size = self.count * BLOCK_SIZE
        decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(PRESET))
        try:
            blocks = decoder.decompress(data, max_length=size + 1)
        except lzma.LZMAError as error:
            raise WorkingSetInvalid("not a frame of a working set", why=str(error)) from error
        if len(blocks) != size or not decoder.eof or decoder.unused_data:
            raise WorkingSetInvalid("not a frame of a working set", why="it has another size")
        return blocks


def encode(
    parts: Iterable[Iterable[Run]],
    read: Callable[[Run], bytes],
    *,
    preset: int = PRESET,
    version: WorkingSetVersion = WorkingSetVersion.NAMED,
) -> bytes:
    """The blob of what was touched, part after part, in that order. `read` gives the content of a
    run. Each part has frames of its own: a machine in one phase does not wait for the next.

    A block counts when it is touched first. Blocks beyond BLOCK_LIMIT are left out, and those too
    far up in a volume for a u32.
    """
    touched: set[Block] = set()
    frames: list[tuple[Run, ...]] = []
    for part in parts:
        blocks = dict.fromkeys(block for run in part for block in run.blocks())
        new = [b for b in blocks if b not in touched and b[1] <= _FIRST_LIMIT]
        new = new[: BLOCK_LIMIT - len(touched)]
        touched.update(new)
        frames += [tuple(_runs(frame)) for frame in _frames(new)]

    def compress(frame: tuple[Run, ...]) -> tuple[bytes, bytes]:
        data = b"".join(read(run) for run in frame)
        names = name_blocks(data) if version is WorkingSetVersion.NAMED else b""
        return names, lzma.compress(data, lzma.FORMAT_RAW, filters=_filters(preset))

    with ThreadPoolExecutor(max_workers=2) as pool:
        made = list(pool.map(compress, frames))
    contents = [content for _, content in made]
    directory = _directory(version, frames, [len(content) for content in contents])
    return b"".join(map(_padded, (directory, b"".join(names for names, _ in made), *contents)))


def _directory(
    version: WorkingSetVersion, frames: Sequence[tuple[Run, ...]], lengths: Sequence[int]
) -> bytes:
    volumes = sorted({run.volume for frame in frames for run in frame})
    out = [b"".join(bytes([len(name)]) + name.encode("ascii") for name in volumes)]
    for frame, length in zip(frames, lengths, strict=True):
        out.append(_ENTRY.pack(length, len(frame)))
        out += [_RUN.pack(volumes.index(r.volume), r.first, r.count) for r in frame]
    rest = b"".join(out)
    size = _HEADER.size + len(rest)
    return _HEADER.pack(MAGIC, version, len(volumes), 0, size, len(frames)) + rest


def directory_size(head: bytes) -> int:
    """Bytes of the directory, of the beginning of a blob. Raises WorkingSetInvalid."""
    if len(head) < _HEADER.size:
        raise WorkingSetInvalid("not a working set", why="it is too short")
    magic, version, _, zero, size, _ = _HEADER.unpack_from(head)
    if magic != MAGIC or version not in set(WorkingSetVersion) or zero:
        raise WorkingSetInvalid("not a working set of this version")
    if not _HEADER.size <= size <= DIRECTORY_LIMIT:
        raise WorkingSetInvalid("not a working set", why="its directory is too long")
    return int(size)


def decode(directory: bytes, size: int, volumes: Mapping[str, TableRoot]) -> list[Frame]:
    """The frames of a blob of `size` bytes from anybody, within `volumes`, in the order of first
    touch. Raises WorkingSetInvalid."""
    if directory_size(directory) != len(directory):
        raise WorkingSetInvalid("not a working set", why="its directory is cut short")
    try:
        frames = list(_frames_of(directory))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WorkingSetInvalid("not a working set", why=str(error)) from error
    if sum(frame.count for frame in frames) > BLOCK_LIMIT:
        raise WorkingSetInvalid("not a working set", why="it has too many blocks")
    for frame in frames:
        if not 0 < frame.count <= FRAME_BLOCKS or frame.offset + frame.length > size:
            raise WorkingSetInvalid("not a working set", why="a frame is too long")
        for run in frame.runs:
            if run.volume not in volumes or run.first + run.count > volumes[run.volume].blocks:
                raise WorkingSetInvalid("not a working set", why="it names blocks that are not")
    return frames


def names_extent(frames: Sequence[Frame]) -> tuple[int, int]:
    """Where the names of a blob's frames are: offset and length. There are none if that is 0."""
    if not frames or frames[0].names is None:
        return 0, 0
    return frames[0].names, sum(frame.count for frame in frames) * CHUNK_REF_SIZE


def _frames_of(directory: bytes) -> Iterator[Frame]:
    _, version, _, _, size, _ = _HEADER.unpack_from(directory)
    entries = list(_entries(directory))
    counts = [sum(run.count for run in runs) for _, runs in entries]
    names: int | None = None
    offset = _align(size)
    if version == WorkingSetVersion.NAMED:
        names = offset
        offset += _align(sum(counts) * CHUNK_REF_SIZE)
    for (length, runs), count in zip(entries, counts, strict=True):
        yield Frame(offset, length, runs, names)
        offset += _align(length)
        if names is not None:
            names += count * CHUNK_REF_SIZE


def _entries(directory: bytes) -> Iterator[tuple[int, tuple[Run, ...]]]:
    """Of each frame its length and its runs."""
    _, _, volumes, _, size, frames = _HEADER.unpack_from(directory)
    names, at = [], _HEADER.size
    for _ in range(volumes):
        end = at + 1 + directory[at]
        names.append(directory[at + 1 : end].decode("ascii"))
        at = end
    for _ in range(frames):
        length, count = _ENTRY.unpack_from(directory, at)
        at += _ENTRY.size
        packed = directory[at : at + count * _RUN.size]
        runs = tuple(Run(names[v], first, n) for v, first, n in _RUN.iter_unpack(packed))
        at += count * _RUN.size
        yield length, runs
    if at != size:
        raise WorkingSetInvalid("not a working set", why="its directory is not whole")


def _filters(preset: int) -> list[dict[str, int]]:
    """To expand, any preset will do."""
    dictionary = FRAME_BLOCKS * BLOCK_SIZE
    return [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": dictionary}]


def _frames(touched: list[Block]) -> Iterable[list[Block]]:
    """The blocks of a part in frames. Neighbours in a volume stay together, so that the same blocks
    give the same frames even if they were touched in another order."""
    order = {block: n for n, block in enumerate(touched)}
    frames: list[list[Block]] = []
    for block in sorted(touched):
        if not frames or _ends(frames[-1], block):
            frames.append([])
        frames[-1].append(block)
    return sorted(frames, key=lambda frame: min(order[block] for block in frame))


def _ends(frame: list[Block], block: Block) -> bool:
    """Whether the next block begins another frame: where a region of FRAME_BLOCKS begins, once
    there are enough."""
    if len(frame) == FRAME_BLOCKS:
        return True
    apart = frame[-1][0] != block[0] or frame[-1][1] // FRAME_BLOCKS != block[1] // FRAME_BLOCKS
    return apart and len(frame) >= LEAST_FRAME_BLOCKS


def _runs(blocks: list[Block]) -> Iterator[Run]:
    """Sorted blocks as runs."""
    start = 0
    for end in range(1, len(blocks) + 1):
        volume, first = blocks[start]
        if end == len(blocks) or blocks[end] != (volume, first + end - start):
            yield Run(volume, first, end - start)
            start = end


def _align(size: int) -> int:
    return -(-size // BLOCK_SIZE) * BLOCK_SIZE


def _padded(part: bytes) -> bytes:
    return part + bytes(_align(len(part)) - len(part))
