# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Settling makes a store smaller and changes nothing else, whatever happens meanwhile."""

import base64
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chunkstore import BlockMap, ChunkInvalid, SettleReport, Store, StoreVersion, TableRoot
from chunkstore._native._core import checksum64
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef
from tests.chunkstore.content import fetch_all, flip, noise, packs, reference, text
from tests.chunkstore.test_crash import kill_after
from tests.chunkstore.test_formats import BLOCK
from tests.waiting import eventually

PACK = 16
"""Bytes of a pack before its first frame."""


def program(seed: int, blocks: int) -> bytes:
    """Blocks like programs, full of what looks like branches, overlapping ones as well."""
    rng = random.Random(seed)
    return bytes(rng.choices(b"\xe8\xe9\x00\xff\x0f\x89\x8b\x05\x84", k=blocks * BLOCK_SIZE))


def mixed(seed: int, rounds: int) -> bytes:
    """Blocks of every kind, zero blocks too."""
    return b"".join(
        noise(seed + i, 5) + text(seed + i, 40) + program(seed + i, 7) + bytes(3 * BLOCK_SIZE)
        for i in range(rounds)
    )


CONTENT = mixed(1, 10)


@pytest.fixture
def small_packs(tmp_path: Path) -> Path:
    """The folder of a store whose packs are small; nobody has it open."""
    Store.create(tmp_path / "store").close()
    return tmp_path / "store"


def opened(folder: Path) -> Store:
    return Store.open(folder, pack_limit=100_000)


def test_programs_take_less(store: Store) -> None:
    root = store.import_bytes(Path("/bin/bash").read_bytes())
    report = store.settle()
    assert report.bytes_after < 0.88 * report.bytes_before
    assert store.read(root) == Path("/bin/bash").read_bytes()


def test_everything_is_there(store: Store) -> None:
    root = store.import_bytes(CONTENT)
    before = store.stats()
    report = store.settle()
    after = store.stats()
    assert report == SettleReport(before.chunks, 0, 0, before.pack_bytes, after.pack_bytes)
    assert after.settled == after.chunks == before.chunks
    assert after.pack_bytes <= after.live_bytes + PACK < after.pack_bytes + 16 * before.chunks
    assert store.read(root) == CONTENT
    assert store.verify().ok
    store.close()
    with Store.open(store.path) as again:
        assert again.read(root) == CONTENT
        assert again.verify().ok
        assert not again.verify().unindexed


def test_what_is_settled_is_left_alone(store: Store) -> None:
    store.import_bytes(CONTENT)
    store.settle()
    settled = {pack.name: pack.read_bytes() for pack in packs(store.packs_path)}
    assert store.settle().chunks == 0
    second = store.import_bytes(mixed(50, 2))
    assert store.settle().chunks > 0
    left = {pack.name: pack.read_bytes() for pack in packs(store.packs_path)}
    assert settled.items() < left.items()
    assert store.read(second) == mixed(50, 2)


def test_many_packs(small_packs: Path, tmp_path: Path) -> None:
    with opened(small_packs) as store:
        root = store.import_bytes(CONTENT)
        old = packs(store.packs_path)
        assert len(old) > 3
        store.settle()
        assert not set(old) & set(packs(store.packs_path))
        store.export_file(root, tmp_path / "exported")
        assert (tmp_path / "exported").read_bytes() == CONTENT


def test_a_frame_byte_by_byte(store: Store) -> None:
    store.put(BLOCK)
    store.settle()
    (pack,) = packs(store.packs_path)
    data = pack.read_bytes()
    assert data[:16] == bytes.fromhex("5341545041434b00 02000000 00000000")
    magic, codec, count, length, checksum = struct.unpack_from("<4sBBHQ", data, PACK)
    assert (magic, codec, count) == (b"SATF", 2, 1)
    assert len(data) == PACK + 16 + length
    assert checksum == checksum64(data[PACK : PACK + 8] + data[PACK + 16 :])
    # Does not compress: two bytes of zstd's frame header, three of a raw block's, the content.
    assert length == BLOCK_SIZE + 5
    assert data[PACK + 16 + 5 :] == BLOCK


def test_a_place_in_a_frame(store: Store, tmp_path: Path) -> None:
    root = store.import_bytes(text(1, 20))
    store.settle()
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        assert store.resolve(root, map, 0, root.blocks) == b""
        entries = [map.entry(number) for number in range(20)]
    assert [entry.slot for entry in entries] == [number % 6 for number in range(20)]
    assert len({entry.offset for entry in entries}) == 4
    assert all(entry.length > BLOCK_SIZE for entry in entries)
    word = struct.unpack_from("<Q", (tmp_path / "map").read_bytes(), 4096 + 8 * 10)[0]
    entry = entries[10]
    assert word == 2 | entry.length << 2 | entry.pack << 15 | entry.offset << 32 | 4 << 60


def test_others_get_records(store: Store, other: Store) -> None:
    root = store.import_bytes(CONTENT)
    store.settle()
    fetch_all(store, other, root)
    assert other.read(root) == CONTENT
    assert other.stats().settled == 0


def test_the_index_is_rebuilt_from_frames(store: Store) -> None:
    root = store.import_bytes(CONTENT)
    store.settle()
    chunks = store.stats().chunks
    store.rebuild_index()
    assert store.stats().chunks == chunks
    assert store.read(root) == CONTENT
    store.close()
    shutil.rmtree(store.path / "index")
    with Store.open(store.path) as again:
        assert again.read(root) == CONTENT
        assert again.stats().settled == chunks


def test_importing_what_is_settled_adds_nothing(store: Store) -> None:
    root = store.import_bytes(CONTENT)
    store.settle()
    before = store.stats()
    assert store.import_bytes(CONTENT) == root
    assert store.stats() == before


def test_a_damaged_frame_is_named_and_heals(store: Store) -> None:
    content = noise(1, 6) + noise(2, 6)
    store.import_bytes(content)
    store.settle()
    (pack,) = packs(store.packs_path)
    (pages,) = struct.unpack_from("<H", pack.read_bytes(), PACK + 6)  # the frame with the table
    second = PACK + 16 + pages
    flip(pack, second + 100)
    report = store.verify()
    lost = [reference(noise(1, 6)[i * BLOCK_SIZE :][:BLOCK_SIZE]) for i in range(6)]
    assert sorted(report.lost) == sorted(lost)
    assert [bad.offset for bad in report.bad] == [second]
    with pytest.raises(ChunkInvalid):
        store.get(ChunkRef(lost[3]))
    assert store.has(lost[3]) == [False]
    assert store.records(b"".join(lost)) == b""
    store.put(content)
    assert store.get(ChunkRef(lost[3])) == noise(1, 6)[3 * BLOCK_SIZE : 4 * BLOCK_SIZE]
    store.settle()
    assert not store.verify().lost


def test_a_chunk_of_a_damaged_frame_that_no_table_names(store: Store) -> None:
    """Its name is not known any more, and that it was there is."""
    ref = store.put(BLOCK)
    store.settle()
    flip(packs(store.packs_path)[0], PACK + 100)
    report = store.verify()
    assert not report.ok
    assert not report.lost
    assert [bad.offset for bad in report.bad] == [PACK, PACK]
    assert report.bad[1].why == f"chunk {ref[:4].hex()}... is lost, and no table names it"


def test_the_index_keeps_what_tells_settled_chunks_apart(store: Store) -> None:
    ref = store.put(BLOCK)
    store.sync()
    index = store.packs_path.with_name("index")
    assert any(ref in path.read_bytes() for path in index.iterdir())
    store.settle()
    (pack,) = packs(store.packs_path)
    (table,) = index.glob("*.ldb")
    # The key, eight bytes of LevelDB's own, the place: pack 2, offset 16, slot 0 of a frame whose
    # payload takes 257 units.
    key = ref[:4] + ref[20:32]
    value = struct.pack("<Q", PACK << 32 | int(pack.stem) << 15 | (BLOCK_SIZE + 257) << 2)
    _, _, found = table.read_bytes().partition(key)
    assert found[8:16] == value
    assert not any(ref[:20] in path.read_bytes() for path in index.iterdir())


def test_what_leaves_a_frame_is_in_the_index_once(store: Store) -> None:
    content = [noise(1, 12)[i * BLOCK_SIZE :][:BLOCK_SIZE] for i in range(12)]
    store.import_bytes(b"".join(content))
    store.settle()
    kept = store.import_bytes(b"".join(content[::3]))
    store.prune([kept])
    stats = store.stats()
    assert (stats.chunks, stats.settled, stats.variants) == (5, 0, 0)
    store.settle()
    stats = store.stats()
    assert (stats.chunks, stats.settled, stats.variants) == (5, 5, 0)
    assert store.read(kept) == b"".join(content[::3])


def test_a_chunk_that_is_damaged_before_stays_where_it_is(store: Store) -> None:
    root = store.import_bytes(noise(1, 40))
    (pack,) = packs(store.packs_path)
    flip(pack, PACK + 3 * (BLOCK_SIZE + 64) + 1000)
    report = store.settle()
    assert report.damaged == 1
    assert pack.exists()
    bad = noise(1, 40)[3 * BLOCK_SIZE : 4 * BLOCK_SIZE]
    assert store.verify().lost == (reference(bad),)
    store.put(noise(9))
    with pytest.raises(ChunkInvalid):
        store.get(ChunkRef(reference(bad)))
    store.put(bad)
    store.settle()
    assert not pack.exists()
    assert store.read(root) == noise(1, 40)


@pytest.mark.parametrize("keep", ["most", "few", "none"])
def test_prune_afterwards(store: Store, keep: str) -> None:
    """Frames of which most is kept are copied, others are taken apart and made again."""
    content = [noise(1, 400)[i * BLOCK_SIZE :][:BLOCK_SIZE] for i in range(400)]
    share = {"most": 7, "few": 2, "none": 0}[keep]
    kept = store.import_bytes(b"".join(b for i, b in enumerate(content) if i % 8 < share))
    store.import_bytes(b"".join(content))
    everything = store.import_bytes(b"".join(content) + noise(2, 500))
    store.settle()
    assert store.read(everything) == b"".join(content) + noise(2, 500)
    report = store.prune([kept])
    stats = store.stats()
    assert stats.chunks == report.kept
    assert stats.pack_bytes < (share * 50 + 40) * 5600
    assert store.read(kept) == b"".join(b for i, b in enumerate(content) if i % 8 < share)
    assert store.verify().ok
    store.settle()
    assert store.stats().settled == store.stats().chunks
    assert store.read(kept) == b"".join(b for i, b in enumerate(content) if i % 8 < share)
    store.rebuild_index()
    assert store.read(kept) == b"".join(b for i, b in enumerate(content) if i % 8 < share)


def test_two_versions_of_a_table_meet(store: Store) -> None:
    first = [noise(i) for i in range(1024)]
    second = list(first)
    for leaf in range(16):
        second[64 * leaf + leaf] = noise(10_000 + leaf)
    store.import_bytes(b"".join(first))
    one = store.settle()
    pages = one.bytes_after - 1024 * BLOCK_SIZE
    assert pages > 16 * 3300
    with Store.create(store.path.parent / "both") as both:
        both.import_bytes(b"".join(first))
        both.import_bytes(b"".join(second))
        two = both.settle()
        assert two.bytes_after - one.bytes_after < 16 * BLOCK_SIZE + pages // 2


def test_killed_at_any_moment(small_packs: Path, tmp_path: Path) -> None:
    with opened(small_packs) as store:
        root = store.import_bytes(CONTENT)
        chunks = store.stats().chunks
    settled = set()
    for calls in (1, 4, 9, 16):
        folder = tmp_path / f"copy-{calls}"
        shutil.copytree(small_packs, folder)
        body = f"""
store.close()
store = Store.open(sys.argv[1], pack_limit=100_000)
calls = 0
def stop(done, total):
    global calls
    calls += 1
    if calls == {calls}:
        print("ready", flush=True)
        sys.stdin.read()
store.settle(progress=stop)
"""
        kill_after(folder, body)
        with opened(folder) as store:
            assert store.read(root) == CONTENT
            assert store.verify().ok
            settled.add(store.stats().settled)
            store.settle()
            assert store.stats().settled == chunks
            assert store.read(root) == CONTENT
            stats = store.stats()
            assert stats.live_bytes >= stats.pack_bytes - PACK * stats.packs - 500_000
        shutil.rmtree(folder)
    assert len(settled) > 1


def test_an_interrupted_call_is_gone_on_with(small_packs: Path) -> None:
    class Enough(Exception):
        pass

    with opened(small_packs) as store:
        root = store.import_bytes(CONTENT)
        chunks = store.stats().chunks
        count = len(packs(store.packs_path))

        def stop(done: int, total: int) -> None:
            if len(packs(store.packs_path)) < count or done > total // 2:
                raise Enough

        with pytest.raises(Enough):
            store.settle(progress=stop)
        assert store.read(root) == CONTENT
        store.sync()
        done = store.stats().settled
        assert 0 < done < chunks
        assert store.settle().chunks == chunks - done
        assert store.read(root) == CONTENT


def test_a_pack_that_a_crash_left_behind_goes(store: Store) -> None:
    """Between pointing the index to the frames and removing the pack."""
    root = store.import_bytes(noise(1, 50))
    (old,) = packs(store.packs_path)
    data = old.read_bytes()
    store.settle()
    assert not old.exists()
    old.write_bytes(data)
    store.close()
    with Store.open(store.path) as again:
        again.settle()
        assert not old.exists()
        assert again.read(root) == noise(1, 50)


def test_maps_are_pointed_to_the_frames(store: Store, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1, 10))
    (old,) = packs(store.packs_path)
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        store.resolve(root, map, 0, 5)
        map.mark_dirty(2)
        report = store.settle()
        assert report.pinned == 0
        assert not old.exists()
        assert [map.entry(n).slot for n in (0, 1, 3, 4)] == [0, 1, 3, 4]
        assert map.entry(2).state.name == "DIRTY"
        assert map.entry(6).state.name == "ABSENT"


@pytest.mark.parametrize("whole", [True, False])
def test_a_pack_that_a_crash_left_behind_while_a_map_points_there(
    store: Store, tmp_path: Path, whole: bool
) -> None:
    """After a crash between the index and the removal the chunks are found by their names. One that
    cannot be read there any more keeps its pack as long as the map points there."""
    root = store.import_bytes(noise(1, 10))
    (old,) = packs(store.packs_path)
    data = old.read_bytes()
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        store.resolve(root, map, 0, 5)
        shutil.copy(tmp_path / "map", tmp_path / "kept")
        shutil.copy(tmp_path / "map.places", tmp_path / "kept.places")
    store.settle()
    old.write_bytes(data)
    with BlockMap.open(tmp_path / "kept") as map:
        place = map.entry(3)
        if not whole:
            flip(old, place.offset + 100)
        assert store.settle(maps=[map]).pinned == (0 if whole else 1)
        assert old.exists() != whole
        assert [map.entry(n).slot for n in (0, 1, 2, 4)] == [0, 1, 2, 4]
        assert (map.entry(3) == place) != whole
    assert store.settle().pinned == 0
    assert not old.exists()


def test_beside_imports_reads_and_prunes(small_packs: Path) -> None:
    """Each does its work, and no chunk is lost or wrong."""
    contents = [mixed(seed, 3) for seed in (100, 200, 300, 400)]
    with opened(small_packs) as store:
        first = store.import_bytes(CONTENT)
        errors: list[BaseException] = []
        roots: list[TableRoot] = []
        done = threading.Event()

        def work() -> None:
            try:
                for content in contents:
                    roots.append(store.import_bytes(content))
                    assert store.read(first) == CONTENT
                    store.prune([first, *roots])
            except BaseException as error:
                errors.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set():
            store.settle(background=True)
        thread.join()
        assert not errors
        store.settle()
        for root, content in zip(roots, contents, strict=True):
            assert store.read(root) == content
        assert store.verify().ok
        assert store.stats().settled >= 0.9 * store.stats().chunks


def test_in_the_background_it_takes_little_from_a_program_of_another_session(
    store: Store,
) -> None:
    """Both may use one processor only. A kernel that shares it out by session, or by control group,
    gives each program half of it, whatever their nice values are. The plan of what to settle is
    made without a pause, so a slow processor sees more than the 32nd that is left to the rest."""
    content = base64.b64encode(random.Random(1).randbytes(MUCH))
    store.import_bytes(content[: len(content) // BLOCK_SIZE * BLOCK_SIZE])
    store.close()
    one = str(min(os.sched_getaffinity(0)))
    apart = ["taskset", "--cpu-list", one, sys.executable, "-c"]
    with (
        subprocess.Popen([*apart, "while True: pass"], start_new_session=True) as other,
        subprocess.Popen(
            [*apart, SETTLING, store.path], start_new_session=True, stdout=subprocess.PIPE
        ) as settling,
    ):
        try:
            assert settling.stdout
            assert settling.stdout.readline() == b"begins\n"
            before = [_processor_seconds(each.pid) for each in (other, settling)]
            assert eventually(lambda: _processor_seconds(other.pid) > before[0] + 2.0)
            taken = [_processor_seconds(each.pid) for each in (other, settling)]
            assert settling.poll() is None
        finally:
            other.kill()
            settling.kill()
    shares = [after - earlier for after, earlier in zip(taken, before, strict=True)]
    assert 0 < shares[1] < shares[0] / 2
    with Store.open(store.path) as again:
        assert again.verify().ok


MUCH = 48 << 20
"""Bytes; as text they take several seconds."""

SETTLING = """
import sys
from chunkstore import Store
with Store.open(sys.argv[1]) as store:
    print("begins", flush=True)
    store.settle(background=True)
"""


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_older_store_is_refused(store: Store) -> None:
    store.close()
    described = store.path / "store.json"
    described.write_text(described.read_text().replace('"version": 3', '"version": 2'))
    with pytest.raises(StoreVersion, match="its version is 2, this program knows 3"):
        Store.open(store.path)


def test_an_older_pack_is_refused(store: Store) -> None:
    store.put(noise(1))
    store.close()
    (pack,) = packs(store.packs_path)
    data = bytearray(pack.read_bytes())
    data[8] = 1
    pack.write_bytes(data)
    shutil.rmtree(store.path / "index")
    with pytest.raises(StoreVersion, match="its version is 1"):
        Store.open(store.path)


def frame(codec: int, count: int, payload: bytes, length: int | None = None) -> bytes:
    """A frame with a right checksum, whatever else is wrong."""
    head = struct.pack("<4sBBH", b"SATF", codec, count, len(payload) if length is None else length)
    return head + struct.pack("<Q", checksum64(head + payload)) + payload


RAW_BLOCK = bytes.fromhex("0030")  # zstd frame header: a window of 64 KiB
CASES = {
    "codec": frame(9, 1, RAW_BLOCK + b"\x01\x80\x00" + BLOCK),
    "no chunks": frame(2, 0, RAW_BLOCK + b"\x01\x80\x00" + BLOCK),
    "too many chunks": frame(2, 16, RAW_BLOCK + b"\x01\x80\x00" + BLOCK),
    "no payload": frame(2, 1, b""),
    "length past the end": frame(2, 1, RAW_BLOCK + BLOCK, length=60_000),
    "more chunks than payload": frame(2, 2, RAW_BLOCK + b"\x01\x80\x00" + BLOCK),
    "no zstd": frame(2, 1, noise(3)),
    "a window of gigabytes": frame(2, 1, bytes.fromhex("00ff") + b"\x01\x80\x00" + BLOCK),
    "a block that repeats a byte for ever": frame(2, 1, RAW_BLOCK + b"\xff\xff\xff\x41"),
}


@pytest.mark.parametrize("name", CASES)
def test_frames_of_an_enemy(store: Store, name: str) -> None:
    """They are no frames, and what follows is found."""
    refs = store.put(noise(1, 3))
    store.close()
    (pack,) = packs(store.packs_path)
    data = pack.read_bytes()
    pack.write_bytes(data[:PACK] + CASES[name] + data[PACK:])
    shutil.rmtree(store.path / "index")
    with Store.open(store.path) as again:
        assert len(refs) == 3 * CHUNK_REF_SIZE
        assert again.stats().chunks in (0, 3)
        again.put(noise(1, 3))
        assert again.has(refs) == [True] * 3
