# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What resolve and commit do to the map of an attached volume."""

import os
import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkstore import (
    BlockEntry,
    BlockMap,
    BlockState,
    ChunkMissing,
    FileExists,
    FileMissing,
    Store,
    StoreDamaged,
    StoreFull,
    StoreState,
    StoreUsage,
    TableRoot,
    split_refs,
)
from satchel.ids import BLOCK_SIZE
from tests.chunkstore.content import flip, noise, packs, reference, text
from tests.chunkstore.mounts import tmpfs
from tests.needs import requires

BLOCKS = 5000  # a table of three levels
TAIL = 100  # bytes of the last block


@requires("root", "mount")
def test_a_map_for_which_there_is_no_room_is_refused_and_not_a_signal_later(tmp_path: Path) -> None:
    """Of a volume of 1 TiB: were it only mapped, counting its blocks would end this process."""
    with tmpfs(tmp_path / "small", "32m"):
        with pytest.raises(StoreFull, match="room"):
            BlockMap.create(tmp_path / "small" / "map", (1 << 40) // BLOCK_SIZE)
        assert list((tmp_path / "small").iterdir()) == []
        block_map = BlockMap.create(tmp_path / "small" / "map", (1 << 30) // BLOCK_SIZE)
        (tmp_path / "small" / "rest").write_bytes(bytes(shutil.disk_usage(tmp_path / "small").free))
        assert block_map.count(BlockState.ABSENT) == (1 << 30) // BLOCK_SIZE
        block_map.close()


@dataclass
class Attached:
    """A volume with a map and an overlay, as the nbdkit plugin has it."""

    content: bytearray
    root: TableRoot
    map: BlockMap
    overlay: Path

    def write(self, block: int, data: bytes) -> None:
        """What the plugin does for a write of whole blocks."""
        with self.overlay.open("r+b") as file:
            file.seek(block * BLOCK_SIZE)
            file.write(data)
        self.content[block * BLOCK_SIZE : block * BLOCK_SIZE + len(data)] = data
        self.map.mark_dirty(block, -(-len(data) // BLOCK_SIZE))

    def block(self, store: Store, number: int) -> bytes:
        """What the plugin would read."""
        entry = self.map.entry(number)
        if entry.state == BlockState.ZERO:
            return bytes(BLOCK_SIZE)
        if entry.state == BlockState.DIRTY:
            with self.overlay.open("rb") as file:
                file.seek(number * BLOCK_SIZE)
                return file.read(BLOCK_SIZE).ljust(BLOCK_SIZE, b"\0")
        assert entry.state == BlockState.PACKED
        with (store.packs_path / f"{entry.pack:06}.pack").open("rb") as file:
            file.seek(entry.offset)
            record = file.read(64 + entry.length)
        assert len(record) == 64 + entry.length
        ref = record[8:60]
        return store.get(split_refs(ref)[0])


@pytest.fixture
def volume(store: Store, tmp_path: Path) -> Iterator[Attached]:
    content = bytearray(noise(1, 100) + bytes(3000 * BLOCK_SIZE) + text(2, BLOCKS - 3100))
    del content[(BLOCKS - 1) * BLOCK_SIZE + TAIL :]
    root = store.import_bytes(content)
    overlay = tmp_path / "overlay"
    with overlay.open("wb") as file:
        file.truncate(root.size)
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        yield Attached(content, root, map, overlay)


def test_resolve_fills_the_range_and_nothing_else(store: Store, volume: Attached) -> None:
    assert store.resolve(volume.root, volume.map, 90, 20) == b""
    assert sum(volume.map.counts(1, 2).values()) == 2
    with pytest.raises(IndexError):
        volume.map.counts(BLOCKS, 1)
    assert volume.map.counts() == {
        BlockState.ABSENT: BLOCKS - 20,
        BlockState.ZERO: 10,
        BlockState.PACKED: 10,
        BlockState.DIRTY: 0,
    }
    assert volume.map.entry(89).state == BlockState.ABSENT
    assert volume.map.entry(99).state == BlockState.PACKED
    assert volume.map.entry(100) == BlockEntry(BlockState.ZERO, 0, 0, 0)
    assert volume.map.entry(110).state == BlockState.ABSENT
    for number in range(90, 110):
        assert (
            volume.block(store, number)
            == volume.content[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]
        )


def test_touches_are_kept_in_the_order_of_the_first_time(volume: Attached) -> None:
    volume.map.touch(7, 2)
    volume.map.touch(3)
    volume.map.touch(7)
    assert volume.map.touched() == [7, 8, 3]
    assert [volume.map.touched(but) for but in (1, 3, 9)] == [[8, 3], [], []]
    with pytest.raises(IndexError):
        volume.map.touch(BLOCKS)


def test_what_was_foreseen_was_absent_and_untouched_then(store: Store, volume: Attached) -> None:
    volume.map.touch(1)
    store.resolve(volume.root, volume.map, 2, 1)
    volume.map.foresee(0, 5)
    assert volume.map.foresight() == (1, 3, 0)
    volume.map.touch(2, 2)
    assert volume.map.foresight() == (3, 3, 1)
    assert volume.map.touched() == [1, 2, 3]


def test_many_who_touch_at_once_lose_none(volume: Attached) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda _: volume.map.touch(0, 1000), range(64)))
    assert sorted(volume.map.touched()) == list(range(1000))


def test_a_range_past_the_end_is_cut(store: Store, volume: Attached) -> None:
    assert store.resolve(volume.root, volume.map, BLOCKS - 1, 1 << 62) == b""
    assert store.resolve(volume.root, volume.map, BLOCKS, 1) == b""
    assert volume.map.count(BlockState.ABSENT) == BLOCKS - 1
    assert volume.block(store, BLOCKS - 1)[TAIL:] == bytes(BLOCK_SIZE - TAIL)


def test_a_dirty_block_is_never_undone(store: Store, volume: Attached) -> None:
    volume.write(5, b"guest" * 1000)
    store.resolve(volume.root, volume.map, 0, BLOCKS)
    assert volume.map.entry(5).state == BlockState.DIRTY
    assert volume.map.entry(6).state == BlockState.DIRTY
    assert volume.map.count(BlockState.DIRTY) == 2


def test_what_is_missing_comes_level_by_level(store: Store, other: Store, volume: Attached) -> None:
    missing = other.resolve(volume.root, volume.map, 10, 1)
    assert missing == volume.root.ref
    assert volume.map.count(BlockState.ABSENT) == BLOCKS
    rounds = []
    while missing:
        rounds.append(len(missing) // 52)
        other.admit(store.records(missing))
        missing = other.resolve(volume.root, volume.map, 10, 1)
    assert rounds == [1, 1, 1, 1]  # three pages, then the chunk
    assert volume.block(other, 10) == noise(1, 100)[10 * BLOCK_SIZE :][:BLOCK_SIZE]
    assert other.stats().chunks == 4


def blocks_of(volume: Attached, *numbers: int) -> bytes:
    return b"".join(bytes(volume.content[n * BLOCK_SIZE :][:BLOCK_SIZE]) for n in numbers)


def four_are_placed(store: Store, volume: Attached) -> None:
    """Blocks 0, 3 and 1000, a block of zeros; the guest has written block 20. No page is here."""
    assert volume.map.entry(20).state == BlockState.DIRTY
    assert volume.map.entry(1000).state == BlockState.ZERO
    assert volume.block(store, 0) == blocks_of(volume, 0)
    assert volume.block(store, 3) == blocks_of(volume, 3)
    assert volume.map.count(BlockState.ABSENT) == BLOCKS - 4
    assert not any(store.has(volume.root.ref))


def test_blocks_are_placed_without_a_table(other: Store, volume: Attached) -> None:
    volume.write(20, b"guest" * 100)
    numbers = (0, 3, 20, 1000)
    other.place(volume.map, numbers, blocks_of(volume, *numbers))
    four_are_placed(other, volume)


def test_nothing_is_placed_where_no_block_is(other: Store, volume: Attached) -> None:
    with pytest.raises(StoreUsage):
        other.place(volume.map, [0, BLOCKS], bytes(2 * BLOCK_SIZE))
    with pytest.raises(ValueError, match="4096 bytes"):
        other.place(volume.map, [0], bytes(100))
    assert volume.map.count(BlockState.ABSENT) == BLOCKS


def names_of(volume: Attached, *numbers: int) -> bytes:
    """As a table has them: of zeros zeros."""
    blocks = [blocks_of(volume, number) for number in numbers]
    return b"".join(reference(block) if any(block) else bytes(52) for block in blocks)


def test_blocks_are_placed_by_name_where_their_chunks_are_here(
    other: Store, volume: Attached
) -> None:
    other.put(blocks_of(volume, 0, 3, 20))
    names = names_of(volume, 0, 3, 4, 20, 1000)
    volume.write(20, b"guest" * 100)
    lacking = names_of(volume, 4)
    assert other.place_named(volume.map, (0, 3, 4, 20, 1000, 5), names + lacking) == lacking
    four_are_placed(other, volume)


def test_half_a_name_places_nothing(other: Store, volume: Attached) -> None:
    other.put(blocks_of(volume, 0))
    name = names_of(volume, 0)
    for guess in (name[:20] + bytes(32), bytes(20) + name[20:], name[:51] + bytes([name[51] ^ 1])):
        assert other.place_named(volume.map, [0], guess) == guess
    assert volume.map.count(BlockState.ABSENT) == BLOCKS


def test_a_damaged_chunk_is_not_placed_by_its_name(other: Store, volume: Attached) -> None:
    other.put(blocks_of(volume, 0))
    other.sync()
    flip(packs(other.packs_path)[0], 16 + 64 + 1000)
    name = names_of(volume, 0)
    assert other.place_named(volume.map, [0], name) == name
    assert volume.map.count(BlockState.ABSENT) == BLOCKS


def test_no_name_places_anything_where_no_block_is(other: Store, volume: Attached) -> None:
    with pytest.raises(IndexError):
        other.place_named(volume.map, [0, BLOCKS], bytes(2 * 52))
    with pytest.raises(ValueError, match="argument"):
        other.place_named(volume.map, [0], bytes(2 * 52))
    assert volume.map.count(BlockState.ABSENT) == BLOCKS


def test_what_some_bytes_need_is_asked_for_and_no_more(
    store: Store, other: Store, volume: Attached
) -> None:
    rounds = []
    while missing := other.missing_in(volume.root, 10 * BLOCK_SIZE + 1, BLOCK_SIZE):
        rounds.append(len(missing) // 52)
        other.admit(store.records(missing))
    assert rounds == [1, 1, 1, 2]  # three pages, then the chunks
    offset = 10 * BLOCK_SIZE + 1
    assert other.read(volume.root, offset, 100) == volume.content[offset : offset + 100]
    assert other.missing_in(volume.root, 0, 0) == b""


def test_missing_chunks_are_named_once(store: Store, other: Store, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1) * 40)
    other.admit(store.records(root.ref))
    with BlockMap.create(tmp_path / "map", 40) as map:
        assert other.resolve(root, map, 0, 40) == store.put(noise(1))
        other.put(noise(1))
        assert other.resolve(root, map, 0, 40) == b""
        assert map.count(BlockState.PACKED) == 40


def test_a_whole_volume_is_resolved_from_another_store(
    store: Store, other: Store, volume: Attached
) -> None:
    while missing := other.resolve(volume.root, volume.map, 0, BLOCKS):
        other.admit(store.records(missing[: 500 * 52]))
    assert volume.map.count(BlockState.ABSENT) == 0
    assert other.read(volume.root) == volume.content


def test_a_map_of_another_size_is_refused(store: Store, volume: Attached, tmp_path: Path) -> None:
    with BlockMap.create(tmp_path / "small", BLOCKS - 1) as map:
        with pytest.raises(StoreUsage, match="does not fit"):
            store.resolve(volume.root, map, 0, 1)
        with pytest.raises(StoreUsage, match="does not fit"):
            store.commit(volume.root, map, volume.overlay)


def test_commit_gives_the_root_that_an_import_of_the_whole_gives(
    store: Store, other: Store, volume: Attached
) -> None:
    store.resolve(volume.root, volume.map, 0, 200)
    chance = random.Random(3)
    for number in range(40):
        volume.write(chance.randrange(BLOCKS - 10), noise(number + 50, chance.randrange(1, 9)))
    volume.write(50, bytes(BLOCK_SIZE))
    volume.write(64, bytes(64 * BLOCK_SIZE))  # a leaf becomes zero
    volume.write(2000, text(7, 1))  # and a zero leaf does not stay so
    dirty = volume.map.count(BlockState.DIRTY)
    root = store.commit(volume.root, volume.map, volume.overlay)
    assert root == other.import_bytes(volume.content)
    assert store.read(root) == volume.content
    assert dirty > 100
    assert volume.map.count(BlockState.DIRTY) == 0
    for number in range(0, BLOCKS, 7):
        if volume.map.entry(number).state != BlockState.ABSENT:
            expected = volume.content[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]
            assert volume.block(store, number) == expected.ljust(BLOCK_SIZE, b"\0")


def test_the_short_last_block_is_padded_with_zeros(store: Store, volume: Attached) -> None:
    volume.write(BLOCKS - 1, b"t" * TAIL)
    with volume.overlay.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b"beyond the end")
    root = store.commit(volume.root, volume.map, volume.overlay)
    assert root == store.import_bytes(volume.content)
    assert volume.block(store, BLOCKS - 1) == b"t" * TAIL + bytes(BLOCK_SIZE - TAIL)


def test_commit_writes_the_dirty_blocks_and_their_pages_only(
    store: Store, volume: Attached
) -> None:
    before = store.stats()
    volume.write(10, noise(77))
    volume.write(4900, noise(78))
    store.commit(volume.root, volume.map, volume.overlay)
    assert store.stats().chunks == before.chunks + 2 + 2 + 2 + 1  # blocks, leaves, inner, root


def test_commit_of_nothing_gives_the_same_root(store: Store, volume: Attached) -> None:
    before = store.stats()
    assert store.commit(volume.root, volume.map, volume.overlay) == volume.root
    assert store.stats() == before


def test_the_root_of_a_commit_is_durable(store: Store, volume: Attached) -> None:
    volume.write(10, noise(77))
    root = store.commit(volume.root, volume.map, volume.overlay)
    store.close()
    with Store.open(store.path) as again:
        assert again.read(root) == volume.content


def test_commit_needs_the_pages_on_the_way_only(
    store: Store, other: Store, volume: Attached
) -> None:
    volume.write(10, noise(77))
    with pytest.raises(ChunkMissing) as caught:
        other.commit(volume.root, volume.map, volume.overlay)
    assert caught.value.ref == volume.root.ref
    assert volume.map.entry(10).state == BlockState.DIRTY
    assert volume.overlay.stat().st_blocks > 0
    while missing := other.resolve(volume.root, volume.map, 11, 1):
        other.admit(store.records(missing))
    root = other.commit(volume.root, volume.map, volume.overlay)
    assert other.read(root, 10 * BLOCK_SIZE, BLOCK_SIZE) == noise(77)
    assert root == store.import_bytes(volume.content)


def test_an_overlay_that_is_not_there(store: Store, volume: Attached, tmp_path: Path) -> None:
    volume.write(10, noise(77))
    with pytest.raises(FileMissing):
        store.commit(volume.root, volume.map, tmp_path / "nothing")
    assert volume.map.count(BlockState.DIRTY) == 1


def test_a_map_file(tmp_path: Path) -> None:
    path = tmp_path / "map"
    with BlockMap.create(path, 100) as map:
        map.mark_dirty(7)
        with pytest.raises(FileExists):
            BlockMap.create(path, 100)
        with BlockMap.open(path) as same:
            assert same.blocks == 100
            assert same.entry(7).state == BlockState.DIRTY
            same.mark_dirty(8, 2)
        assert map.count(BlockState.DIRTY) == 3
        with pytest.raises(IndexError):
            map.entry(100)
        with pytest.raises(IndexError):
            map.mark_dirty(99, 2)
    with pytest.raises(StoreState, match="closed"):
        map.counts()
    with pytest.raises(FileMissing):
        BlockMap.open(tmp_path / "nothing")


@pytest.mark.parametrize("harm", ["magic", "short", "blocks"])
def test_a_map_file_that_is_none(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "map"
    BlockMap.create(path, 100).close()
    data = bytearray(path.read_bytes())
    if harm == "magic":
        data[0] ^= 1
    elif harm == "short":
        del data[-1:]
    else:
        data[8:16] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(StoreDamaged):
        BlockMap.open(path)
