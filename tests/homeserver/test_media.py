# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Media as a person handles them: found, looked at, synced, verified, mended, taken out."""

import logging
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkstore import MediaNotFound
from homeserver.api import home_app
from homeserver.jobs import Jobs, JobStopped
from homeserver.media.care import media_contents, recover_media, verify_media
from homeserver.media.carry import ALL_OF_IT
from homeserver.services.service import Checkpoint
from images import Manifest
from images.manifest import ManifestUnsupported
from media import Media, find_media, mounted_media, write_checkpoints
from replay import Log
from satchel.errors import ConflictError, NotFoundError, StateError
from tests.chunkstore.content import flip
from tests.chunkstore.mounts import tmpfs
from tests.homeserver.conftest import Bench
from tests.homeserver.program import Program
from tests.homeserver.test_carry import digest, digest_from, log_on, newest, run
from tests.needs import requires
from tests.scripted import operation
from tests.serving import served
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@pytest.fixture
def media(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "media"
    root.mkdir()
    Media.init(root).close()
    yield root


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Without a home: what these commands need is on the media."""
    return Program(tmp_path)


def packs(media: Path) -> list[Path]:
    return sorted((media / "satchel" / "packs").glob("*.pack"))


def test_sync_brings_every_service_at_once(bench: Bench, media: Path, short_path: Path) -> None:
    notes, _ = bench.running(), bench.running("speech")
    run(notes, 1, 3)
    notes.checkpoint()
    done = bench.home.sync([], media)
    assert set(done.checkpoints) == {"notes", "speech"}
    assert (done.generation, done.reconciled) == (1, 0)
    assert {(r["service"], r["operation"]) for r in media_contents(media)} == {
        ("notes", 3),
        ("speech", 0),
    }
    again = bench.home.sync([], media)
    assert (again.generation, again.media_bytes) == (1, 0)
    assert digest_from(media, short_path / "x") == (3, digest(notes))


def test_sync_logs_what_was_done_on_the_road_and_leads_on(
    bench: Bench, media: Path, short_path: Path
) -> None:
    """Home's newest checkpoint is older than the media's log: nothing is lost on either side."""
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 8)])
    done = bench.home.sync(["notes"], media)
    assert done.reconciled == 7
    service.replayed.wait_executed(service.last_logged)
    assert digest_from(media, short_path / "x") == (7, digest(service))
    run(service, 8, 12)
    service.checkpoint()
    bench.home.sync(["notes"], media)
    with Log.open(media / "satchel" / "log" / "notes", read_only=True) as log:
        assert log.last == 12
    assert digest_from(media, short_path / "y") == (12, digest(service))


def test_a_service_that_is_down_is_synced_too(bench: Bench, media: Path) -> None:
    bench.running().stop()
    assert bench.home.sync([], media).generation == 1
    with pytest.raises(NotFoundError):
        bench.home.sync(["nothing"], media)


def test_a_writer_that_is_stopped_leaves_the_old_generation_and_is_gone_on_with(
    bench: Bench, media: Path
) -> None:
    bench.running()
    bench.home.carry("notes", media)
    before = media_contents(media)
    store = bench.home.store
    big = store.import_bytes(random.Random(3).randbytes(6 << 20))
    manifest = Manifest(**{**vars(newest(media)), "device_state": big})
    works = Jobs()

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            works.stop("w")
        progress(done, total)

    with Media.open(media) as opened, works.begin("w") as progress, pytest.raises(JobStopped):
        write_checkpoints(store, opened, [Checkpoint(manifest, b"signature")], stop)
    assert media_contents(media) == before
    assert verify_media(media)["ok"]
    with Media.open(media) as opened:
        done = write_checkpoints(store, opened, [Checkpoint(manifest, b"signature")])
    assert 1 << 20 < done.media_bytes < 4 << 20
    assert media_contents(media)[0]["checkpoint"] == manifest.id
    assert verify_media(media)["ok"]


def test_the_daemon_tells_how_far_it_is_and_stops(
    bench: Bench, media: Path, short_path: Path
) -> None:
    bench.running()
    with served(home_app(bench.home), short_path) as client:
        done = client.post_json(
            "/v1/media/sync?work=abc",
            {
                "media": str(media),
                "services": ["notes"],
                "doubtful": "refuse",
                "budget": ALL_OF_IT,
            },
            timeout=None,
        )
        assert done["generation"] == 1
        with pytest.raises(NotFoundError):
            client.get_json("/v1/works/abc")
        with pytest.raises(NotFoundError):
            client.delete("/v1/works/abc")


def test_works() -> None:
    works = Jobs()
    with works.begin("a") as progress:
        assert works.state("a") == {"done": 0, "total": 0}
        progress(3, 10)
        assert works.state("a") == {"done": 3, "total": 10}
        with pytest.raises(ConflictError), works.begin("a"):
            pass
        works.stop("a")
        with pytest.raises(JobStopped):
            progress(4, 10)
    assert issubclass(JobStopped, StateError)
    with pytest.raises(NotFoundError):
        works.state("a")
    with works.begin("") as one, works.begin("") as two:
        one(1, 2)
        two(1, 2)


def test_media_commands(bench: Bench, media: Path, program: Program) -> None:
    service = bench.running()
    bench.home.carry("notes", media)
    run(service, 1, 2)
    bench.home.carry("notes", media)
    rows = program.json("media", "ls", media)
    assert [(row["operation"], row["generations"]) for row in rows] == [(2, [2]), (0, [1])]
    report = program.json("media", "verify", media)
    assert (report["ok"], report["hurt"], report["generations"]) == (True, {}, [2, 1])
    assert report["records"] > 10
    mended = program.json("media", "recover", media)
    assert (mended["generation"], mended["bad_places"], mended["lost"]) == (2, 0, {})
    ejected = program.json("media", "eject", media)
    assert (ejected["unmounted"], ejected["generation"]) == (False, 2)
    for command in ("ls", "verify", "eject", "recover", "sync"):
        assert program.fails(3, "media", command, media.parent / "nowhere")["fix"]
    assert "media init" in program.fails(3, "media", "verify", media.parent)["fix"]
    assert program.fails(5, "media", "init", media, "--unsealed")["code"] == "conflict"
    assert program.fails(3, "media", "verify", "0" * 8 + "-0000-0000-0000-" + "0" * 12)["fix"]


def test_a_medium_none_of_whose_commits_can_be_read_is_not_whole(
    bench: Bench, media: Path, program: Program
) -> None:
    bench.running()
    bench.home.carry("notes", media)
    for commit in (media / "satchel" / "commits").glob("*.commit"):
        commit.write_bytes(b"")
    error = program.fails(6, "media", "verify", media)
    assert "none of its commits can be read" in error["why"]
    assert program.json("media", "recover", media)["checkpoints"]
    assert program.json("media", "verify", media)["ok"]


def test_verify_says_what_is_hurt_and_recover_and_sync_mend_it(
    bench: Bench, media: Path, program: Program, short_path: Path
) -> None:
    service = bench.running()
    run(service, 1, 3)
    carried = bench.home.carry("notes", media)
    for pack in packs(media):
        for offset in range(5000, pack.stat().st_size, 20_000):
            flip(pack, offset)
    error = program.fails(6, "media", "verify", media)
    assert f"notes/{carried.checkpoint}: " in error["why"]
    assert "chunks are not there or damaged" in error["why"]
    assert "recover" in error["fix"]
    mended = program.json("media", "recover", media)
    assert mended["generation"] == 0
    assert mended["lost"].keys() == {f"notes/{carried.checkpoint}"}
    assert bench.home.sync([], media).media_bytes > 0
    report = verify_media(media)
    assert report["hurt"] == {}
    assert report["damaged"] == 0
    assert digest_from(media, short_path / "x") == (3, digest(service))


def test_recover_needs_packs_and_manifests_only(
    bench: Bench, media: Path, program: Program, short_path: Path
) -> None:
    service = bench.running()
    carried = bench.home.carry("notes", media)
    log_on(service, media, [operation(n) for n in range(1, 4)])
    run(service, 1, 3)
    with Media.open(media) as opened:
        uuid = opened.uuid
    (media / "satchel" / "media.json").write_bytes(b"")
    shutil.rmtree(media / "satchel" / "commits")
    for index in (media / "satchel" / "packs").glob("*.idx"):
        index.unlink()
    mended = program.json("media", "recover", media)
    assert mended["checkpoints"] == {"notes": carried.checkpoint}
    assert mended["generation"] == 1
    assert mended["uuid"] != uuid  # no commit was left to tell it
    assert digest_from(media, short_path / "x") == (3, digest(service))
    with pytest.raises(MediaNotFound):
        recover_media(media.parent)


def test_recover_takes_the_newest_that_is_whole(
    bench: Bench, media: Path, program: Program
) -> None:
    service = bench.running()
    first = bench.home.carry("notes", media)
    run(service, 1, 2)
    second = bench.home.carry("notes", media)
    (media / "satchel" / "checkpoints" / f"notes-{second.checkpoint}.json").write_bytes(b"{")
    mended = program.json("media", "recover", media)
    assert mended["checkpoints"] == {"notes": first.checkpoint}
    assert mended["lost"].keys() == {f"notes/{second.checkpoint}"}
    with Media.open(media) as opened:
        newest = opened.generations()[0]
        assert newest.whole
        assert newest.number == mended["generation"] == 3


def test_a_medium_that_a_client_uses_is_not_ejected(
    bench: Bench, media: Path, program: Program
) -> None:
    bench.running()
    bench.home.carry("notes", media)
    with Log.open(media / "satchel" / "log" / "notes"):
        assert "satchel stop" in program.fails(5, "media", "eject", media)["fix"]
    program.json("media", "eject", media)


@requires("root", "mount")
def test_a_medium_is_found_by_its_uuid_and_ejected(tmp_path: Path, program: Program) -> None:
    root = tmp_path / "a stick"
    with tmpfs(root):
        made = program.json("media", "init", root, "--unsealed")
        assert find_media(made["uuid"]) == root
        assert [
            row["path"] for row in program.json("media", "ls") if row["uuid"] == made["uuid"]
        ] == [str(root)]
        assert program.json("media", "ls", made["uuid"]) == []
        with (root / "film").open("wb"):
            assert "busy" in program.fails(5, "media", "eject", root)["why"]
        assert program.json("media", "eject", made["uuid"])["unmounted"] is True
        assert not root.is_mount()
        with pytest.raises(MediaNotFound, match=r"no medium .* is mounted"):
            find_media(made["uuid"])
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(root)], check=True)


@requires("root", "mount")
def test_a_copy_of_a_medium_is_not_taken_for_it(tmp_path: Path, program: Program) -> None:
    roots = [tmp_path / "stick", tmp_path / "copy"]
    program.json("init")
    with tmpfs(roots[0]), tmpfs(roots[1]):
        uuid = program.json("media", "init", roots[0])["uuid"]
        again = tmp_path / "again"
        again.mkdir()
        subprocess.run(["mount", "--bind", str(roots[0]), str(again)], check=True)
        try:
            assert find_media(uuid) == roots[0]
        finally:
            subprocess.run(["umount", str(again)], check=True)
        shutil.copytree(roots[0] / "satchel", roots[1] / "satchel")
        for command in (("sync", uuid), ("ls", uuid), ("eject", uuid), ("plugged", roots[1])):
            if command[0] == "plugged":
                (tmp_path / "config/satchel").mkdir(parents=True, exist_ok=True)
                (tmp_path / "config/satchel/home.toml").write_text("plugged-sync = true\n")
            why = program.fails(5, "media", *command)["why"]
            assert str(roots[0]) in why
            assert str(roots[1]) in why
        rows = [row for row in program.json("media", "ls") if row["uuid"] == uuid]
        assert [row["path"] for row in rows] == [str(root) for root in roots]
        assert [row["copies"] for row in rows] == [[str(roots[1])], [str(roots[0])]]


def test_a_sealed_medium_gets_another_key(tmp_path: Path, media: Path, program: Program) -> None:
    root = tmp_path / "a stick"
    root.mkdir()
    program.json("init")
    made = program.json("media", "init", root)
    rotated = program.json("media", "rotate", root)
    assert (rotated["uuid"], rotated["keys"]) == (made["uuid"], 2)
    assert rotated["phrase"] != made["phrase"]
    assert program.json("media", "ls", root) == []
    assert "in clear" in program.fails(2, "media", "rotate", media)["why"]


def test_a_manifest_of_a_newer_version_stays_with_its_chunks(
    bench: Bench, media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.running()
    bench.running("speech")
    bench.home.sync([], media)
    original = Manifest.from_bytes

    def newer(data: bytes) -> Any:
        if b'"service":"speech"' in data:
            raise ManifestUnsupported("cannot read a manifest of version 9")
        return original(data)

    monkeypatch.setattr(Manifest, "from_bytes", staticmethod(newer))
    for number in range(1, 5):
        run(service, number, number)
        bench.home.carry("notes", media)
    monkeypatch.undo()
    assert verify_media(media)["hurt"] == {}
    assert {row["service"] for row in media_contents(media)} == {"notes", "speech"}


def test_a_mount_whose_program_died_is_passed_by(
    tmp_path: Path, media: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dead = tmp_path / "dead"
    dead.mkdir()
    fuse = subprocess.Popen(["nbdfuse", str(dead), "--command", "nbdkit", "-s", "null", "1M"])
    mounts = tmp_path / "mounts"
    mounts.write_text("".join(f"1 2 0:3 / {root} rw - x y rw\n" for root in (dead, media)))
    monkeypatch.setattr("media.mounts.MOUNTS", mounts)
    try:
        assert eventually(dead.is_mount)
        fuse.kill()
        fuse.wait()
        with pytest.raises(OSError, match="not connected"):
            (dead / "satchel").stat()
        caplog.set_level(logging.DEBUG, logger="media.mounts")
        with Media.open(media) as opened:
            uuid = opened.uuid
        assert find_media(uuid) == media
        assert [row["path"] for row in mounted_media()] == [str(media)]
        assert f"no medium is looked for at {dead}" in caplog.text
    finally:
        fuse.kill()
        subprocess.run(["fusermount3", "-u", "-z", str(dead)], check=True)
