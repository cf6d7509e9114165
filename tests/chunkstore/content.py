# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Content that is the same on every run, and ways to harm files."""

import hashlib
import json
import random
import struct
from pathlib import Path

from chunkstore import Store, TableRoot
from chunkstore._native._core import checksum64
from media import Media, MediaCheckpoint
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, CheckpointId

COLLISIONS = tuple(
    (Path(__file__).parent.parent / "data" / f"sha1-collision-{n}.bin").read_bytes() for n in (1, 2)
)
"""Two different blocks with one SHA-1."""


def noise(seed: int, blocks: int = 1) -> bytes:
    """Blocks that do not compress."""
    return random.Random(seed).randbytes(blocks * BLOCK_SIZE)


def text(seed: int, blocks: int = 1) -> bytes:
    """Distinct blocks that compress well."""
    return b"".join(
        (f"{seed} {number} satchel\n".encode() * BLOCK_SIZE)[:BLOCK_SIZE]
        for number in range(blocks)
    )


def reference(block: bytes) -> bytes:
    """What the reference of a block must be, by another implementation."""
    return hashlib.sha1(block).digest() + hashlib.sha256(block).digest()


def sparse_file(path: Path, size: int, parts: dict[int, bytes]) -> Path:
    """A file with holes but for the parts, by offset."""
    with path.open("wb") as file:
        file.truncate(size)
        for offset, data in parts.items():
            file.seek(offset)
            file.write(data)
    return path


def packs(folder: Path) -> list[Path]:
    """The packs of a store or a medium's pack folder, oldest first."""
    return sorted(folder.glob("*.pack"))


def flip(path: Path, offset: int, mask: int = 1) -> None:
    """Change bits of one byte."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


def split_records(data: bytes) -> list[bytes]:
    """The records in a batch or behind a pack's header."""
    found = []
    while data:
        (length,) = struct.unpack_from("<H", data, 6)
        found.append(data[: 64 + length])
        data = data[64 + length :]
    return found


def raw_record(ref: bytes, block: bytes) -> bytes:
    """A whole record that stores a block as it is, under any name."""
    return _record(0, ref, block)


def zstd_record(ref: bytes, payload: bytes) -> bytes:
    """A whole record whose payload is said to be a zstd frame, under any name."""
    return _record(1, ref, payload)


def _record(codec: int, ref: bytes, payload: bytes) -> bytes:
    head = struct.pack("<IBBH", 0x52544153, codec, 0, len(payload)) + ref
    return head + struct.pack("<I", checksum64(head + payload) & 0xFFFFFFFF) + payload


def commit_volumes(
    store: Store, media: Media, volumes: dict[str, TableRoot], number: int = 1
) -> list[MediaCheckpoint]:
    """Make a generation whose checkpoints, one for each name, are these volumes."""
    named = []
    media.add(store, store.reachable(volumes.values()))
    for name, root in volumes.items():
        checkpoint = CheckpointId(f"{number:016x}")
        media.put_checkpoint(name, checkpoint, json.dumps(root.to_json()).encode(), b"signature")
        named.append(MediaCheckpoint(name, checkpoint, (), whole=True))
    media.commit(named, list(volumes.values()))
    return named


def read_volumes(media: Media, store: Store) -> dict[str, bytes]:
    """What `commit_volumes` put into the newest whole generation, read by way of another store."""
    whole = next(generation for generation in media.generations() if generation.whole)
    found = {}
    for checkpoint in media.checkpoints():
        if whole.number in checkpoint.generations:
            root = TableRoot.from_json(json.loads(media.signed(checkpoint)[0]))
            while missing := store.missing(root):
                assert store.admit(media.records(missing)), "the medium lacks chunks"
            found[checkpoint.service] = store.read(root)
    return found


def fetch_all(source: Store, target: Store, root: TableRoot, batch: int = 1000) -> int:
    """Bring a volume from one store to another as a surrogate would; how many rounds it took."""
    rounds = 0
    while missing := target.missing(root):
        target.admit(source.records(missing[: batch * CHUNK_REF_SIZE]))
        rounds += 1
    return rounds
