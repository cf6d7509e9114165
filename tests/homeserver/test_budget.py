# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium that is too small has what matters most, says what it lacks, and the rest comes from
home."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chunkstore import FANOUT, MediaFull, Store, leaves_of, split_refs
from homeserver.media.budget import parse_size, write_part
from homeserver.media.care import media_contents, recover_media, verify_media
from media import Media, SignedManifest, checkpoints_on, part_of
from replica import Access, Profile, encode_profile, observed
from satchel.errors import UsageError
from satchel.ids import BLOCK_SIZE
from tests.chunkstore.content import flip
from tests.homeserver import conftest
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import digest, newest, resumed, run
from tests.needs import requires

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")

STATE = 10 << 20
TENTH = STATE // 10


@pytest.fixture
def bench(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Whose services have 10 MiB of state, of which compression makes three quarters."""
    noise = random.Random(30)
    disk = b"".join(noise.randbytes(3072) + bytes(1024) for _ in range(STATE // BLOCK_SIZE))
    monkeypatch.setattr(conftest, "DISK", disk)
    made = Bench(short_path)
    yield made
    made.home.close()


@pytest.fixture
def media(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    root.mkdir()
    Media.init(root).close()
    return root


def pack_bytes(media: Path) -> int:
    return sum(path.stat().st_size for path in (media / "satchel" / "packs").iterdir())


def missing(media: Path) -> int:
    with Media.open(media) as opened:
        return len(split_refs(opened.missing(*newest(media).roots())))


def digest_with_home(bench: Bench, media: Path, scratch: Path) -> tuple[str, int]:
    """Of a machine that has of the medium what is there and the rest from home; how many chunks
    were asked of home."""
    manifest, asked = newest(media), 0
    scratch.mkdir()
    with Store.create(scratch / "store") as store, Media.open(media) as opened:
        while wanted := store.missing(*manifest.roots()):
            there = zip(split_refs(wanted), opened.has(wanted), strict=True)
            lacking = b"".join(ref for ref, here in there if not here)
            asked += len(split_refs(lacking))
            store.admit(opened.records(wanted) + bench.home.store.records(lacking))
        with resumed(manifest, store, scratch / "r") as replica:
            return replica.digest(["/state"]), asked


def test_a_tenth_of_the_state_resumes_with_the_rest_from_home(
    bench: Bench, media: Path, short_path: Path
) -> None:
    service = bench.running()
    run(service, 1, 5)
    service.checkpoint()
    done = bench.home.sync([], media, budget=TENTH)
    assert TENTH // 2 < pack_bytes(media) <= TENTH
    left = done.left_out["notes"]
    assert left.bytes > STATE * 8 // 10
    assert verify_media(media)["ok"]
    (row,) = media_contents(media)
    assert (row["left_out"], row["whole"]) == (left.bytes, True)
    found, asked = digest_with_home(bench, media, short_path / "x")
    assert found == digest(service)
    assert asked == left.chunks or asked > STATE // BLOCK_SIZE * 8 // 10

    again = bench.home.sync([], media, budget=TENTH)
    assert (again.generation, again.media_bytes) == (done.generation, 0)
    assert again.left_out == done.left_out

    whole = bench.home.sync([], media)
    assert whole.left_out == {}
    assert whole.generation == done.generation + 1
    assert missing(media) == 0
    assert media_contents(media)[0]["left_out"] == 0
    assert verify_media(media)["ok"]


def test_what_a_profile_trusts_goes_before_what_it_does_not_know(bench: Bench, media: Path) -> None:
    service = bench.running()
    service.checkpoint()
    home = bench.home
    manifest = service.shelf.latest()
    assert manifest is not None
    hot = range(1500, 1600)
    accesses = [Access(float(n), "steady", "disk0", block) for n, block in enumerate(hot)]
    profile = home.store.import_bytes(encode_profile(observed(Profile(), accesses, 1e9)))
    taught = replace(manifest, profile=profile, working_set=None)
    with Media.open(media) as opened:
        done = write_part(home.store, opened, [SignedManifest(taught, b"signature")], 800_000)
        leaves = leaves_of(home.store, taught.volumes["disk0"])
        blocks = [leaves[block // FANOUT].ref(block) for block in range(STATE // BLOCK_SIZE)]
        there = opened.has(b"".join(blocks))
    assert all(there[block] for block in hot)
    assert sum(there) < 200
    likely = done.parts["notes"].likely
    assert likely is not None
    assert likely < 10


def test_a_checkpoint_onto_a_medium_with_a_part_brings_a_part(bench: Bench, media: Path) -> None:
    service = bench.running()
    run(service, 1, 2)
    service.checkpoint()
    bench.home.sync([], media, budget=TENTH)
    run(service, 3, 4)
    bench.home.carry("notes", media)
    assert newest(media).operation == 4
    assert pack_bytes(media) < 2 * TENTH
    assert verify_media(media)["ok"]
    with Media.open(media) as opened:
        (found,) = checkpoints_on(opened)
        part = part_of(opened, found)
        assert part is not None
        assert part.budget == TENTH
    bench.home.sync([], media, budget=0)
    assert media_contents(media)[0]["left_out"] > 0


def test_two_services_share_a_budget(bench: Bench, media: Path) -> None:
    for name in ("notes", "speech"):
        bench.running(name).checkpoint()
    done = bench.home.sync([], media, budget=TENTH)
    assert set(done.left_out) == {"notes", "speech"}
    assert pack_bytes(media) <= TENTH
    assert verify_media(media)["ok"]


def test_a_budget_that_is_too_small_for_a_resume_writes_nothing(bench: Bench, media: Path) -> None:
    bench.running().checkpoint()
    with pytest.raises(MediaFull):
        bench.home.sync([], media, budget=100)
    assert media_contents(media) == []
    assert pack_bytes(media) == 0


def test_a_budget_beyond_the_state_is_a_whole_sync(bench: Bench, media: Path) -> None:
    bench.running().checkpoint()
    assert bench.home.sync([], media, budget=1 << 40).left_out == {}
    assert missing(media) == 0
    assert verify_media(media)["ok"]


def test_damage_to_a_part_is_told_from_what_was_left_out(bench: Bench, media: Path) -> None:
    bench.running().checkpoint()
    bench.home.sync([], media, budget=TENTH)
    pack = max((media / "satchel" / "packs").glob("*.pack"), key=lambda path: path.stat().st_size)
    flip(pack, pack.stat().st_size // 2)
    report = verify_media(media)
    assert not report["ok"]
    assert report["hurt"]
    bench.home.sync([], media)
    assert missing(media) == 0


@pytest.mark.parametrize("change", ["flipped", "gone", "empty"])
def test_a_mark_that_is_damaged_is_found(bench: Bench, media: Path, change: str) -> None:
    bench.running().checkpoint()
    bench.home.sync([], media, budget=TENTH)
    (mark,) = (media / "satchel" / "checkpoints").glob("*.part-*")
    if change == "flipped":
        flip(mark, 20)
    elif change == "gone":
        mark.unlink()
    else:
        mark.write_bytes(b"")
    assert not verify_media(media)["ok"]
    mended = recover_media(media)
    assert list(mended.lost)
    bench.home.sync([], media, budget=TENTH)
    assert verify_media(media)["ok"]


def test_recover_keeps_a_part_for_what_it_is(bench: Bench, media: Path) -> None:
    service = bench.running()
    service.checkpoint()
    bench.home.sync([], media, budget=TENTH)
    left = media_contents(media)[0]["left_out"]
    for commit in (media / "satchel" / "commits").iterdir():
        commit.unlink()
    mended = recover_media(media)
    assert (list(mended.checkpoints), mended.lost) == (["notes"], {})
    assert media_contents(media)[0]["left_out"] == left
    assert verify_media(media)["ok"]


class Pulled(Exception):
    """The medium is pulled out here."""


@pytest.mark.parametrize(
    ("step", "before"),
    [("add", 0), ("add", 1), ("put_checkpoint", 0), ("put_part", 0), ("commit", 0)],
)
def test_a_sync_that_is_cut_leaves_what_was_there(
    bench: Bench, media: Path, step: str, before: int
) -> None:
    """before: how many such steps were done when the medium was pulled out."""
    service = bench.running()
    run(service, 1, 2)
    service.checkpoint()
    bench.home.sync([], media, budget=TENTH)
    run(service, 3, 4)
    service.checkpoint()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Pulled):
        patch.setattr(Media, step, pulled(getattr(Media, step), before))
        bench.home.sync([], media, budget=2 * TENTH)
    assert verify_media(media)["ok"]
    assert newest(media).operation == 2
    bench.home.sync([], media, budget=2 * TENTH)
    assert newest(media).operation == 4
    assert verify_media(media)["ok"]


def pulled(real: Callable[..., Any], before: int) -> Callable[..., Any]:
    left = itertools.count(before, -1)

    def step(*args: Any, **more: Any) -> Any:
        if next(left) <= 0:
            raise Pulled
        return real(*args, **more)

    return step


def test_sizes() -> None:
    assert [parse_size(t) for t in ("2GB", "1.5 GB", "300M", "4096", "1k")] == [
        2 * 10**9,
        15 * 10**8,
        300 * 10**6,
        4096,
        1000,
    ]
    for wrong in ("", "GB", "-1", "2 XB", "1.2.3", "1e9"):
        with pytest.raises(UsageError):
            parse_size(wrong)
