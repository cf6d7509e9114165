# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium that is incremental, small, pulled out, read-only, and lying."""

import logging
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chunkstore import (
    ChunkInvalid,
    ChunkMissing,
    MediaDamaged,
    MediaExists,
    MediaFull,
    MediaGone,
    MediaNotFound,
    MediaReadOnly,
    MediaVersion,
    Store,
    StoreState,
    StoreVersion,
    dump,
    split_refs,
)
from chunkstore._native._core import checksum64
from media import Media
from replay import Log, Operation
from satchel.ids import BLOCK_SIZE, OperationNumber
from satchel.names import BadName
from tests.chunkstore.content import (
    commit_volumes,
    flip,
    noise,
    packs,
    reference,
    split_records,
    text,
)
from tests.chunkstore.mounts import exfat, remount, tmpfs
from tests.conftest import requires

MIB = 1 << 20

FOLDERS = ["checkpoints", "commits", "log", "packs"]


def pack_folder(media: Media) -> Path:
    return media.root / "satchel" / "packs"


def folders(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_dir())


def test_chunks_travel_by_media(store: Store, other: Store, media: Media) -> None:
    root = store.import_bytes(noise(1, 300) + text(2, 300))
    refs = store.reachable([root])
    written = media.add(store, refs)
    assert written == sum(file.stat().st_size for file in pack_folder(media).iterdir())
    assert media.has(refs + bytes(52)) == [True] * (len(refs) // 52 + 1)
    with Media.open(media.root) as again:
        assert again.chunks == len(refs) // 52
        assert again.uuid == media.uuid
        while missing := other.missing(root):
            other.admit(again.records(missing))
    assert other.read(root) == store.read(root)


def test_a_store_and_a_medium_miss_the_same(store: Store, other: Store, media: Media) -> None:
    """Of two volumes that share pages, with holes, as more and more of it comes."""
    shared = noise(1, 150) + bytes(70 * BLOCK_SIZE)
    first = store.import_bytes(shared + noise(2, 100))
    second = store.import_bytes(shared + text(3, 100))
    everything = split_refs(store.reachable([first, second]))
    assert split_refs(other.missing(first, second)) == (first.ref, second.ref)
    for part in (everything[::5], everything[1::3], everything):
        other.admit(store.records(b"".join(part)))
        media.add(store, b"".join(part))
        missing = other.missing(first, second)
        assert media.missing(first, second) == missing
        assert len(set(split_refs(missing))) == len(split_refs(missing))
        assert not set(split_refs(missing)) & set(part)
    assert missing == b""


def test_only_what_is_missing_is_written(store: Store, media: Media) -> None:
    first = store.reachable([store.import_bytes(noise(1, 300))])
    media.add(store, first)
    before = {file.name: file.read_bytes() for file in pack_folder(media).iterdir()}
    assert media.add(store, first) == 0
    second = store.reachable([store.import_bytes(noise(1, 299) + noise(2, 1))])
    assert 0 < media.add(store, second) < 5 * 4400
    assert all((pack_folder(media) / name).read_bytes() == data for name, data in before.items())


def test_records_stand_on_the_medium_in_the_order_given(store: Store, media: Media) -> None:
    refs = store.put(noise(1, 20))
    order = b"".join(refs[52 * i : 52 * i + 52] for i in (7, 3, 19, 0))
    media.add(store, order + order)
    pack = packs(pack_folder(media))[0].read_bytes()
    assert b"".join(record[8:60] for record in split_records(pack[16:])) == order


def test_records_come_in_the_order_asked_for_wherever_they_lie(store: Store, media: Media) -> None:
    """They are read in another one: that in which they lie there."""
    refs = [store.put(noise(seed)) for seed in range(8)]
    media.add(store, b"".join(refs))
    asked = [refs[number] for number in (5, 0, 7, 0, 3)]
    answer = split_records(media.records(b"".join([*asked, reference(noise(99))])))
    assert answer == [media.records(ref) for ref in asked]


def test_packs_of_a_medium_have_at_most_64_mib(store: Store, media: Media) -> None:
    media.add(store, store.put(noise(1, 17_000)))
    assert [pack.stat().st_size <= 64 * MIB for pack in packs(pack_folder(media))] == [True] * 2
    names = {file.name for file in pack_folder(media).iterdir()}
    assert names == {"000001.pack", "000001.idx", "000002.pack", "000002.idx"}


def test_progress_of_add(store: Store, media: Media) -> None:
    calls: list[tuple[int, int]] = []
    media.add(store, store.put(noise(1, 1000)), lambda done, total: calls.append((done, total)))
    assert len(calls) >= 3
    assert calls[-1] == (1000 * 4096, 1000 * 4096)


def test_an_interrupted_add_keeps_what_it_has_copied(store: Store, media: Media) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    refs = store.put(noise(1, 1000))
    with pytest.raises(KeyboardInterrupt):
        media.add(store, refs, interrupt)
    with Media.open(media.root) as again:
        copied = again.chunks
        assert 200 < copied < 1000
        assert again.add(store, refs) < (1001 - copied) * 4300
        assert again.records(refs) == store.records(refs)


def test_an_interrupted_add_goes_on_from_its_complete_packs(store: Store, media: Media) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > 66 * MIB:
            raise KeyboardInterrupt

    refs = store.put(noise(1, 17_000))
    with pytest.raises(KeyboardInterrupt):
        media.add(store, refs, interrupt)
    assert media.chunks > 15_000
    assert media.add(store, refs) < 10 * MIB
    assert all(media.has(refs))


def test_what_a_pull_left_is_cleared_away_by_the_next_add(store: Store, media: Media) -> None:
    for name in ("000007.pack", "000003.idx", "000005.pack", "000005.idx"):
        (pack_folder(media) / name).write_bytes(b"half")
    commit = media.root / "satchel" / "commits" / "000004.commit"
    commit.write_bytes(b"half")
    with Media.open(media.root) as again:
        assert again.chunks == 0
        assert again.generations() == []
        again.add(store, store.put(noise(1)))
    assert {file.name for file in pack_folder(media).iterdir()} == {"000001.pack", "000001.idx"}
    assert not commit.exists()


def test_other_files_in_the_pack_folder_are_left_alone(store: Store, media: Media) -> None:
    (pack_folder(media) / "holiday.jpg").write_bytes(b"beach")
    media.add(store, store.put(noise(1)))
    assert (pack_folder(media) / "holiday.jpg").read_bytes() == b"beach"


def test_a_pack_without_its_index_is_scanned_if_a_commit_names_it(
    store: Store, media: Media
) -> None:
    root = store.import_bytes(noise(1, 10) + text(1, 10))
    refs = store.reachable([root])
    media.add(store, refs)
    index = pack_folder(media) / "000001.idx"
    whole = index.read_bytes()
    harms = (index.unlink, lambda: index.write_bytes(b"garbage"), lambda: flip(index, 100))
    for committed in (False, True):
        if committed:
            commit_volumes(store, media, {"disk": root})
        for harm in harms:
            harm()
            with Media.open(media.root) as again:
                assert again.records(refs) == (store.records(refs) if committed else b"")
            index.write_bytes(whole)


def test_a_sparse_pack_of_any_size_is_not_read_whole(store: Store, media: Media) -> None:
    """16 TiB of zeros would take hours."""
    root = store.import_bytes(noise(1, 10))
    refs = store.reachable([root])
    media.add(store, refs)
    commit_volumes(store, media, {"disk": root})
    os.truncate(pack_folder(media) / "000001.pack", (16 << 40) - (1 << 20))
    with Media.open(media.root) as again:
        assert again.records(refs) == store.records(refs)
        assert len(again.verify().bad) == 1


def test_a_pack_that_is_cut_off_or_garbage_gives_fewer_chunks(store: Store, media: Media) -> None:
    root = store.import_bytes(noise(1, 9))
    refs = store.reachable([root])
    commit_volumes(store, media, {"disk": root})
    pack = packs(pack_folder(media))[0]
    whole = pack.read_bytes()
    ends = [0]
    for record in split_records(whole[16:]):
        ends.append(ends[-1] + len(record))
    for size in [0, 1, 15, 16, 17, 16 + ends[5], 16 + ends[5] + 100, len(whole) - 1]:
        pack.write_bytes(whole[:size])
        with Media.open(media.root) as again:
            (generation,) = again.generations()
            assert not generation.whole
            assert "000001.pack" in generation.lacks
            records = split_records(again.records(refs))
            assert len(records) == sum(16 + end <= size for end in ends[1:])
    pack.write_bytes(noise(5, 10)[: len(whole)].ljust(len(whole), b"x"))
    with Media.open(media.root) as again:
        assert again.records(refs) == b""
        assert again.damaged == 10
    pack.unlink()
    with Media.open(media.root) as again:
        assert again.records(refs) == b""
        assert not again.generations()[0].whole


def test_a_corrupt_chunk_is_left_out_and_reported(
    store: Store, media: Media, caplog: pytest.LogCaptureFixture
) -> None:
    refs = store.put(noise(1, 3))
    media.add(store, refs)
    flip(packs(pack_folder(media))[0], 16 + 4160 + 99)
    with Media.open(media.root) as again, caplog.at_level(logging.WARNING):
        assert [record[8:60] for record in split_records(again.records(refs))] == [
            refs[:52],
            refs[104:],
        ]
        again.records(refs)
        assert again.damaged == 1
    assert caplog.text.count(refs[52:72].hex()) == 1


def test_an_index_that_points_anywhere(store: Store, media: Media) -> None:
    """Its checksum is right: an enemy wrote it."""
    refs = store.put(noise(1, 3))
    media.add(store, refs)
    index = pack_folder(media) / "000001.idx"
    data = bytearray(index.read_bytes())
    for number, (offset, length) in enumerate([(0xFFFFFFFF, 0xFFFF), (16, 0), (17, 4096)]):
        at = 32 + 60 * number + 52
        data[at : at + 6] = offset.to_bytes(4, "little") + length.to_bytes(2, "little")
    data[-8:] = checksum64(data[:-8]).to_bytes(8, "little")
    index.write_bytes(data)
    with Media.open(media.root) as again:
        assert again.records(refs) == b""


def test_an_index_with_a_huge_count(media: Media, store: Store) -> None:
    commit_volumes(store, media, {"disk": store.import_bytes(noise(1))})
    index = pack_folder(media) / "000001.idx"
    data = bytearray(index.read_bytes())
    data[12:16] = b"\xff" * 4
    index.write_bytes(data)
    with Media.open(media.root) as again:
        assert again.chunks == 2


def test_a_medium_does_not_get_what_the_store_has_lost(store: Store, media: Media) -> None:
    refs = store.put(noise(1, 3))
    with pytest.raises(ChunkMissing):
        media.add(store, refs + reference(noise(2)))
    store.sync()
    flip(packs(store.packs_path)[0], 16 + 4160 + 99)
    with pytest.raises(ChunkInvalid) as caught:
        media.add(store, refs)
    assert caught.value.ref == refs[52:104]
    assert list(pack_folder(media).iterdir()) == []


def test_a_folder_that_is_no_medium(tmp_path: Path, media: Media) -> None:
    with pytest.raises(MediaNotFound):
        Media.open(tmp_path)
    with pytest.raises(MediaNotFound):
        Media.init(tmp_path / "nothing")
    with pytest.raises(MediaExists):
        Media.init(media.root)
    described = media.root / "satchel" / "media.json"
    described.write_text(described.read_text().replace('"version": 3', '"version": 9'))
    with pytest.raises(MediaVersion):
        Media.open(media.root)
    described.write_text("{}")
    with pytest.raises(MediaDamaged):
        Media.open(media.root)
    with pytest.raises(MediaDamaged):
        _ = media.uuid


def test_init_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"beach")
    Media.init(tmp_path).close()
    assert (tmp_path / "holiday.jpg").read_bytes() == b"beach"


def test_folders_of_a_service(tmp_path: Path) -> None:
    with Media.init(tmp_path) as media:
        assert media.log_path("notes") == tmp_path / "satchel" / "log" / "notes"
        for bad in ("..", "a/b", "Notes", ""):
            with pytest.raises(BadName):
                media.log_path(bad)


def test_a_closed_medium_says_so(media: Media) -> None:
    media.close()
    media.close()
    with pytest.raises(StoreState, match="closed"):
        media.has(b"")


def test_a_medium_that_is_pulled_out_and_comes_back(store: Store, media: Media) -> None:
    refs = store.put(noise(1, 3))
    media.add(store, refs)
    away = media.root.with_name("away")
    with Media.open(media.root) as opened:
        media.root.rename(away)
        with pytest.raises(MediaGone, match="gone"):
            opened.records(refs)
        with pytest.raises(MediaGone):
            opened.add(store, store.put(noise(2)))
        with pytest.raises(MediaGone):
            opened.commit([], [])
        with pytest.raises(MediaGone):
            opened.free_bytes()
        with pytest.raises(MediaNotFound):
            Media.open(media.root)
        away.rename(media.root)
        assert opened.records(refs) == store.records(refs)


def test_a_copy_in_the_place_of_a_medium_is_noticed(store: Store, media: Media) -> None:
    """A stick is pulled out, and its clone plugged in, within one session."""
    first, second = (store.import_bytes(noise(seed, 3)) for seed in (1, 2))
    commit_volumes(store, media, {"disk": first})
    away, clone = media.root.with_name("away"), media.root.with_name("clone")
    shutil.copytree(media.root, clone)
    (checkpoint,) = commit_volumes(store, media, {"disk": second}, number=2)
    media.root.rename(away)
    clone.rename(media.root)
    before = sorted(path for path in media.root.rglob("*"))
    for write in (
        lambda: media.add(store, store.put(noise(3))),
        lambda: media.commit([checkpoint], [second]),
    ):
        with pytest.raises(MediaGone, match="a copy of it is in its place"):
            write()
    assert sorted(path for path in media.root.rglob("*")) == before
    media.root.rename(clone)
    away.rename(media.root)
    media.commit([checkpoint], [second])


def test_a_folder_that_is_lost_is_damage_and_made_again(store: Store, media: Media) -> None:
    root = store.import_bytes(noise(1, 9))
    (checkpoint,) = commit_volumes(store, media, {"disk": root})
    shutil.rmtree(media.root / "satchel" / "commits")
    with pytest.raises(MediaDamaged, match="is damaged"):
        media.commit([checkpoint], [root])
    with Media.open(media.root) as again:
        assert again.generations() == []
        again.commit([checkpoint], [root])
    with Media.open(media.root) as again:
        assert [generation.whole for generation in again.generations()] == [True]
        assert again.missing(root) == b""


def test_what_a_later_version_put_into_a_reserved_field_is_refused(
    store: Store, media: Media
) -> None:
    commit_volumes(store, media, {"disk": store.import_bytes(noise(1))})
    for name, at in (("packs/000001.idx", 24), ("commits/000001.commit", 56)):
        path = media.root / "satchel" / name
        data = bytearray(path.read_bytes())
        data[at] = 1
        data[-8:] = checksum64(data[:-8]).to_bytes(8, "little")
        path.write_bytes(data)
        with pytest.raises(StoreVersion, match="reserved"):
            dump(path)
    with pytest.raises(MediaVersion):
        Media.open(media.root)


def test_folders_have_their_room_from_the_beginning(store: Store, media: Media) -> None:
    """Nothing of what takes the room is left, also where making the medium was cut off."""
    top = media.root / "satchel"
    assert sorted(path.name for path in top.iterdir()) == sorted([*FOLDERS, "media.json"])
    assert not any(any((top / name).iterdir()) for name in FOLDERS)
    (top / "media.json").unlink()
    for number in (0, 3, 99):
        (top / "log" / f"room-{number}").write_bytes(b"")
    with Media.init(media.root):
        assert not any(any((top / name).iterdir()) for name in FOLDERS)


def test_no_folder_is_made_after_the_medium_was(store: Store, media: Media) -> None:
    """FAT cannot make one in one step: after a power cut it may hold what its cluster held."""
    before = folders(media.root)
    for number, service in enumerate(("notes", "speech", "desktop"), start=1):
        commit_volumes(store, media, {service: store.import_bytes(noise(number))}, number)
        with Log.open(media.root / "satchel" / "log" / service) as log:
            log.append(Operation(OperationNumber(1), 0, 0, b"x"))
    assert folders(media.root) == before


@requires("root", "mount")
def test_a_medium_that_is_full(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "small"
    with tmpfs(root, "4m"), Media.init(root) as media:
        few = store.put(noise(1, 200))
        media.add(store, few)
        before = media.free_bytes()
        with pytest.raises(MediaFull, match="needed"):
            media.add(store, store.put(noise(2, 1000)))
        assert media.free_bytes() == before
        assert media.records(few) == store.records(few)


@requires("root", "mount")
def test_a_medium_that_is_read_only(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "locked"
    with tmpfs(root):
        refs = store.put(noise(1, 3))
        with Media.init(root) as media:
            media.add(store, refs)
        remount(root, "ro")
        with Media.open(root) as media:
            assert media.records(refs) == store.records(refs)
            with pytest.raises(MediaReadOnly):
                media.add(store, store.put(noise(2)))
            with pytest.raises(MediaReadOnly):
                media.commit([], [])
            assert media.records(refs) == store.records(refs)


FILLS_UP = """
import resource, signal, sys
from chunkstore import MediaFull, Store
from media import Media
from tests.chunkstore.content import noise

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Store.open(sys.argv[1]) as store, Media.open(sys.argv[2]) as media:
    refs = store.put(noise(1, 1000))
    store.sync()
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, resource.RLIM_INFINITY))
    try:
        media.add(store, refs)
    except MediaFull as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
"""


def test_a_write_that_fails_half_way(store: Store, media: Media) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    store.close()
    done = subprocess.run(
        [sys.executable, "-c", FILLS_UP, str(store.path), str(media.root)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ},
        check=True,
    )
    assert "cannot write" in done.stdout, done.stderr
    assert list(pack_folder(media).iterdir()) == []


@requires("root", "loop", "fuse", "mkfs.exfat", "mount.exfat-fuse")
def test_on_exfat(store: Store, other: Store, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1, 2000))
    refs = store.reachable([root])
    with exfat(tmp_path, 24 * MIB) as mount:
        with Media.init(mount) as media:
            media.add(store, refs)
            with pytest.raises(MediaFull):
                media.add(store, store.put(noise(2, 5000)))
        with Media.open(mount) as media:
            while missing := other.missing(root):
                other.admit(media.records(missing))
            for number in range(1, 4):
                kept = store.import_bytes(noise(1, 100) + noise(number))
                commit_volumes(store, media, {"disk": kept}, number)
            assert media.free_bytes() > 20 * MIB
            refs = store.reachable([kept])
            assert media.records(refs) == store.records(refs)
    assert other.read(root) == noise(1, 2000)
