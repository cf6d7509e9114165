# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Generations of a medium: the old one or the new one, whatever happens in between."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chunkstore import (
    ChunkMissing,
    MediaDamaged,
    MediaFull,
    MediaGone,
    MediaVersion,
    Store,
    TableRoot,
)
from chunkstore._native._core import checksum64
from media import Media, MediaCheckpoint
from satchel.errors import SatchelError
from satchel.ids import CheckpointId
from tests.chunkstore.content import commit_volumes, flip, noise, packs, read_volumes
from tests.chunkstore.mounts import exfat, tmpfs
from tests.conftest import requires


def tree(media: Media) -> dict[str, bytes]:
    """Every file of a medium by its path."""
    root = media.root / "satchel"
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def volume(store: Store, number: int, blocks: int = 40) -> TableRoot:
    """Half of it the same for every number."""
    return store.import_bytes(noise(0, blocks) + noise(number, blocks))


def test_nothing_is_ever_written_into_or_renamed(store: Store, media: Media) -> None:
    seen: dict[str, bytes] = {}
    for number in range(1, 8):
        commit_volumes(store, media, {"notes": volume(store, number)}, number)
        now = tree(media)
        assert all(seen.get(path, data) == data for path, data in now.items())
        seen.update(now)
        assert [g.number for g in media.generations()] == [*range(number, 0, -1)][:2]
    assert all(set(path) <= set("abcdefghijklmnopqrstuvwxyz0123456789-./") for path in seen)
    assert all(path.rpartition("/")[2].count(".") == 1 for path in seen)


def test_two_generations_can_both_be_read(store: Store, other: Store, media: Media) -> None:
    for number in (1, 2, 3):
        commit_volumes(store, media, {"notes": volume(store, number)}, number)
    assert [c.id for c in media.checkpoints("notes")] == [f"{n:016x}" for n in (3, 2)]
    assert [c.generations for c in media.checkpoints()] == [(3,), (2,)]
    for number in (2, 3):
        assert media.missing(volume(store, number)) == b""
    assert read_volumes(media, other) == {"notes": noise(0, 40) + noise(3, 40)}


def test_a_commit_that_was_torn_is_the_old_generation(
    store: Store, other: Store, media: Media
) -> None:
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    before = tree(media)
    commit_volumes(store, media, {"notes": volume(store, 2)}, 2)
    commit = media.root / "satchel" / "commits" / "000002.commit"
    whole = commit.read_bytes()
    for torn in (b"", whole[:1], whole[:64], whole[:-1], bytes(len(whole)), whole + b"x"):
        commit.write_bytes(torn)
        with Media.open(media.root) as again:
            assert [g.number for g in again.generations()] == [1]
            assert read_volumes(again, other) == {"notes": noise(0, 40) + noise(1, 40)}
    assert before.items() <= tree(media).items()
    with Media.open(media.root) as again:  # a writer goes on, with a number of its own
        assert again.add(store, store.reachable([volume(store, 2)])) == 0
        commit_volumes(store, again, {"notes": volume(store, 2)}, 2)
        assert [g.number for g in again.generations()] == [3, 1]
        assert read_volumes(again, other) == {"notes": noise(0, 40) + noise(2, 40)}


def test_every_byte_of_a_commit_counts(store: Store, media: Media) -> None:
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    commit = media.root / "satchel" / "commits" / "000001.commit"
    for offset in range(commit.stat().st_size):
        flip(commit, offset)
        with Media.open(media.root) as again:
            assert again.generations() == []
        flip(commit, offset)
    with Media.open(media.root) as again:
        assert [g.whole for g in again.generations()] == [True]


def test_every_byte_of_a_manifest_and_its_signature_counts(store: Store, media: Media) -> None:
    (named,) = commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    for name in media.paths(named):
        path = media.root / "satchel" / name
        for offset in range(path.stat().st_size):
            flip(path, offset)
            with Media.open(media.root) as again:
                (generation,) = again.generations()
                assert not generation.whole
                assert name in generation.lacks
            flip(path, offset)
    with Media.open(media.root) as again:
        assert [g.whole for g in again.generations()] == [True]


@pytest.mark.parametrize("offset", [8, 12], ids=["version", "cipher"])
def test_a_commit_of_a_newer_version_or_encrypted_is_refused(
    store: Store, media: Media, offset: int
) -> None:
    """Its checksum is right: it means what it says."""
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    commit = media.root / "satchel" / "commits" / "000001.commit"
    data = bytearray(commit.read_bytes())
    data[offset] = 9
    data[-8:] = checksum64(data[:-8]).to_bytes(8, "little")
    commit.write_bytes(data)
    with pytest.raises(MediaVersion, match="encrypted" if offset == 12 else "version is 9"):
        Media.open(media.root)


def test_a_commit_whose_paths_lead_elsewhere_is_none(store: Store, media: Media) -> None:
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    commit = media.root / "satchel" / "commits" / "000001.commit"
    data = bytearray(commit.read_bytes())
    at = data.index(b"checkpoints/notes")
    data[at : at + 17] = b"../../../etc/shad"
    data[-8:] = checksum64(data[:-8]).to_bytes(8, "little")
    commit.write_bytes(data)
    with Media.open(media.root) as again:
        assert again.generations() == []


def test_a_commit_is_refused_while_chunks_are_lacking(store: Store, media: Media) -> None:
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    root = volume(store, 2)
    refs = store.reachable([root])
    media.add(store, refs[: -3 * 52])
    before = tree(media)
    with pytest.raises(ChunkMissing):
        media.commit([], [root])
    assert tree(media) == before
    media.add(store, refs)
    media.commit([], [root])


def test_what_only_a_damaged_checkpoint_needs_stays(store: Store, media: Media) -> None:
    """Its table cannot be read whole, so nobody knows what it needs."""
    theirs = volume(store, 9)
    named = commit_volumes(store, media, {"theirs": theirs}, 9)
    flip(packs(media.root / "satchel" / "packs")[0], 16 + 70)
    with Media.open(media.root) as again:
        mine = volume(store, 2)
        again.add(store, store.reachable([mine]))
        for _ in range(3):
            again.commit(named, [mine], carried=[theirs])
        assert len(again.missing(theirs)) // 52 <= 1
        assert (again.root / "satchel" / "packs" / "000001.pack").exists()


def test_a_generation_that_lost_a_file_gives_way_to_the_one_before(
    store: Store, other: Store, media: Media
) -> None:
    for number in (1, 2):
        (named,) = commit_volumes(store, media, {"notes": volume(store, number)}, number)
    (media.root / "satchel" / media.paths(named)[0]).unlink()
    with Media.open(media.root) as again:
        assert [g.whole for g in again.generations()] == [False, True]
        assert [c.whole for c in again.checkpoints()] == [False, True]
        with pytest.raises(MediaDamaged, match="recover"):
            again.signed(again.checkpoints()[0])
        assert read_volumes(again, other) == {"notes": noise(0, 40) + noise(1, 40)}
        commit_volumes(store, again, {"notes": volume(store, 3)}, 3)
        assert [(g.number, g.whole) for g in again.generations()] == [(3, True), (1, True)]


def test_many_small_packs_become_one(store: Store, other: Store, media: Media) -> None:
    content = b""
    for number in range(1, 40):
        content += noise(number, 3)
        commit_volumes(store, media, {"notes": store.import_bytes(content)}, number)
    assert len(packs(media.root / "satchel" / "packs")) < 25
    assert read_volumes(media, other) == {"notes": content}


def test_another_medium_at_the_same_place(store: Store, media: Media) -> None:
    shutil.rmtree(media.root / "satchel")
    Media.init(media.root).close()
    with pytest.raises(MediaGone, match="another one is there now"):
        media.add(store, store.put(noise(1)))
    with pytest.raises(MediaGone, match="another one"):
        media.put_checkpoint("notes", CheckpointId("0" * 16), b"", b"")


def test_a_manifest_that_a_generation_needs_is_not_replaced(store: Store, media: Media) -> None:
    (named,) = commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    with pytest.raises(SatchelError, match="older generation needs"):
        media.put_checkpoint("notes", named.id, b"other", b"signature")
    media.put_checkpoint("notes", CheckpointId("f" * 16), b"one", b"signature")
    media.put_checkpoint("notes", CheckpointId("f" * 16), b"another", b"signature")


@contextmanager
def small(kind: str, folder: Path) -> Iterator[Path]:
    """A file system with room for two generations of 500 blocks, not for three."""
    if kind == "exfat":
        with exfat(folder, 8 << 20) as root:
            yield root
    else:
        root = folder / "small"
        with tmpfs(root, "6m"):
            yield root


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("tmpfs", marks=requires("root", "mount")),
        pytest.param("exfat", marks=requires("root", "loop", "fuse", "mount.exfat-fuse")),
    ],
)
def test_older_generations_make_room(kind: str, store: Store, other: Store, tmp_path: Path) -> None:
    """Two generations fit, three do not; and what does not fit at all costs nothing."""
    with small(kind, tmp_path) as root, Media.init(root) as media:
        for number in (1, 2):
            commit_volumes(store, media, {"notes": store.import_bytes(noise(number, 500))}, number)
        with pytest.raises(MediaFull):
            media.add(store, store.reachable([store.import_bytes(noise(7, 1500))]))
        assert [g.number for g in media.generations()] == [2, 1]
        commit_volumes(store, media, {"notes": store.import_bytes(noise(3, 500))}, 3)
        assert [g.number for g in media.generations()] == [3, 2]
        assert read_volumes(media, other) == {"notes": noise(3, 500)}


def test_verify_and_rebuilt_indexes(store: Store, other: Store, media: Media) -> None:
    root = volume(store, 1)
    named = commit_volumes(store, media, {"notes": root}, 1)
    assert media.verify().bad == ()
    (pack,) = packs(media.root / "satchel" / "packs")
    place = pack.read_bytes().index(noise(0, 40)[4096:8192]) - 64
    flip(pack, place + 2000)
    before = tree(media)
    with Media.open(media.root) as again:
        report = again.verify()
        assert ([b.offset for b in report.bad], len(report.damaged)) == ([place], 1)
        assert again.missing(root) == report.damaged[0]
    assert tree(media) == before
    with Media.open(media.root) as again:
        assert again.missing(root) == b""  # its index still names it
        again.rebuild_indexes()
    with Media.open(media.root) as again:
        assert again.missing(root) == report.damaged[0]
        assert again.add(store, store.reachable([root])) > 0
        again.commit(named, [root])
        assert read_volumes(again, other) == {"notes": noise(0, 40) + noise(1, 40)}


def test_everything_that_is_derived_can_be_lost(store: Store, other: Store, media: Media) -> None:
    root = volume(store, 1)
    (named,) = commit_volumes(store, media, {"notes": root}, 1)
    for path in (media.root / "satchel").rglob("*"):
        if path.suffix in (".idx", ".commit"):
            path.unlink()
    with Media.open(media.root) as again:
        assert again.generations() == []
        again.rebuild_indexes()
        assert [(c.service, c.id) for c in again.stray_checkpoints()] == [("notes", named.id)]
        again.commit([MediaCheckpoint("notes", named.id, (), whole=True)], [root])
        assert read_volumes(again, other) == {"notes": noise(0, 40) + noise(1, 40)}


def test_what_makes_it_a_medium_is_written_again(store: Store, media: Media) -> None:
    commit_volumes(store, media, {"notes": volume(store, 1)}, 1)
    known = media.uuid
    for harm in (b"", b"{}", b'{"format": "satchel-media", "version": 3}'):
        (media.root / "satchel" / "media.json").write_bytes(harm)
        with pytest.raises(MediaDamaged):
            Media.open(media.root)
        Media.redescribe(media.root)
        with Media.open(media.root) as again:
            assert again.uuid == known
            assert again.generations()[0].whole


def test_an_init_that_was_cut_short_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "satchel").mkdir()
    (tmp_path / "satchel" / "media.json").write_bytes(b"")
    with Media.init(tmp_path) as media:
        assert media.generations() == []
