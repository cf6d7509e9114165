# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant whose working set names blocks that are not its own.

The cache of the surrogate has blocks of somebody else's machine. Mallory's blob says of her own
volume's blocks that they are those. Her source has her own blocks, and her frames.
"""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import BlockState, Store, TableRoot, split_refs
from replica import (
    Run,
    decode_working_set,
    directory_size,
    encode_working_set,
    names_extent,
)
from satchel.ids import BLOCK_SIZE, ChunkRef
from surrogate.fetching import Fetcher
from surrogate.prefetch.prefetcher import Prefetcher
from surrogate.tenants.readable_chunks import ReadableChunks
from tests.chunkstore.content import COLLISIONS, noise, reference
from tests.surrogate.sources import FarVolume
from volumes import Volume, create_volume

BLOCKS = 64
SECRET = noise(77, BLOCKS)
REF_SIZE = 52


class Mallory(FarVolume):
    """Her volume and what she makes of its working set; the cache has the secret."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BLOCKS, 8)
        self.own = noise(1, BLOCKS)
        self.cache.put(SECRET)

    def working_set(self, names: bytes) -> TableRoot:
        """All blocks of her volume, as it is, but under these names."""
        return self.home.import_bytes(renamed(self.own, self.volume.root, names))


def renamed(content: bytes, root: TableRoot, names: bytes) -> bytes:
    """A working set of all of a volume, with the first names replaced."""

    def read(run: Run) -> bytes:
        return content[run.first * BLOCK_SIZE :][: run.count * BLOCK_SIZE]

    blob = encode_working_set([[Run("disk0", 0, root.blocks)]], read)
    frames = decode_working_set(blob[: directory_size(blob)], len(blob), {"disk0": root})
    offset, length = names_extent(frames)
    assert len(names) <= length
    return blob[:offset] + names + blob[offset + len(names) :]


def resumed(store: Store, fetcher: Fetcher, blob: TableRoot, volume: Volume) -> None:
    prefetcher = Prefetcher(store, fetcher, blob)
    prefetcher.start({"disk0": volume})
    prefetcher.join()


def here(store: Store, volume: Volume, number: int) -> bytes:
    """What a machine reads there: of the place in the packs that its map names."""
    assert volume.map.entry(number).state is BlockState.PACKED
    return store.get(store.names_in(volume.map, [number])[0])


@pytest.fixture
def mallory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mallory]:
    monkeypatch.setattr("surrogate.prefetch.prefetcher.ALONE_SECONDS", 0.5)
    made = Mallory(tmp_path)
    yield made
    made.fetcher.close()
    made.volume.remove()


@pytest.mark.parametrize("known", ["SHA-1", "SHA-256", "all but one bit"])
def test_who_knows_a_part_of_a_name_does_not_get_the_block(mallory: Mallory, known: str) -> None:
    """A SHA-1 is in logs and in errors. It opens nothing."""
    draw, names = random.Random(1), b""
    for number in range(BLOCKS):
        block = SECRET[number * BLOCK_SIZE :][:BLOCK_SIZE]
        sha1, sha256 = hashlib.sha1(block).digest(), hashlib.sha256(block).digest()
        names += {
            "SHA-1": sha1 + draw.randbytes(32),
            "SHA-256": draw.randbytes(20) + sha256,
            "all but one bit": sha1 + sha256[:-1] + bytes([sha256[-1] ^ 1]),
        }[known]
    resumed(mallory.cache, mallory.fetcher, mallory.working_set(names), mallory.volume)
    for number in range(BLOCKS):
        own = mallory.own[number * BLOCK_SIZE :][:BLOCK_SIZE]
        assert here(mallory.cache, mallory.volume, number) == own


def test_a_name_in_a_working_set_opens_nothing_at_a_tenants_socket(mallory: Mallory) -> None:
    """Who knows a whole name has it in her machine, as by a page of a table. What her socket gives
    to others is below her tables only."""
    blocks = [SECRET[n * BLOCK_SIZE :][:BLOCK_SIZE] for n in range(BLOCKS)]
    names = b"".join(map(reference, blocks))
    blob = mallory.working_set(names)
    resumed(mallory.cache, mallory.fetcher, blob, mallory.volume)
    brought = ReadableChunks(mallory.cache)
    brought.add([blob, mallory.volume.root])
    (first, *_) = split_refs(mallory.home.reachable([blob]))
    assert brought.records(first)
    assert brought.records(names) == b""


def test_a_lie_is_about_the_liars_machine_alone(mallory: Mallory, tmp_path: Path) -> None:
    """Names the victim's blocks in another order. The victim's machine reads its own."""
    blocks = [SECRET[n * BLOCK_SIZE :][:BLOCK_SIZE] for n in range(BLOCKS)]
    names = b"".join(map(reference, reversed(blocks)))
    resumed(mallory.cache, mallory.fetcher, mallory.working_set(names), mallory.volume)
    (tmp_path / "victim").mkdir()
    root = mallory.cache.import_bytes(SECRET)
    victim = create_volume(tmp_path / "victim", "disk0", root)
    assert mallory.cache.resolve(root, victim.map, 0, BLOCKS) == b""
    for number, block in enumerate(blocks):
        assert here(mallory.cache, victim, number) == block
    report = mallory.cache.verify()
    assert (report.bad, report.lost) == ((), ())
    victim.remove()


def test_another_block_of_the_same_sha1_is_not_taken_for_the_one_that_is_named(
    mallory: Mallory, tmp_path: Path
) -> None:
    """Mallory has put one of two blocks that collide into the cache, and the victim's volume has
    the other one."""
    wanted, planted = COLLISIONS
    mallory.cache.put(planted)
    content = wanted + SECRET[BLOCK_SIZE:]
    root = mallory.home.import_bytes(content)
    blob = mallory.home.import_bytes(renamed(content, root, b""))
    (tmp_path / "victim").mkdir()
    victim = create_volume(tmp_path / "victim", "disk0", root)
    resumed(mallory.cache, mallory.fetcher, blob, victim)
    assert here(mallory.cache, victim, 0) == wanted
    assert mallory.cache.get(ChunkRef(reference(planted))) == planted
    victim.remove()
