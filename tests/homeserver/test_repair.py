# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Repair: what is damaged is taken from a store, a medium or a peer; what cannot be had is told."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from chunkstore import Catalog, Store, split_refs
from homeserver.store.repair import RepairSource, open_source, repair
from media import Media
from satchel.errors import NotFoundError
from satchel.ids import CHUNK_REF_SIZE, ChunkRef, chunk_id
from testbed.sshd import Sshd
from tests.chunkstore.content import flip, noise, packs, text
from tests.doors import door_of
from tests.homeserver.conftest import Bench
from tests.homeserver.program import Program
from tests.needs import requires
from wire import Identity, chunk_routes, serve

CONTENT = {"disk": noise(1, 300), "other": noise(1, 100) + text(2, 200), "third": noise(3, 50)}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A store with three volumes, and a whole copy of the first two in another store."""
    made = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "store"))
    made.json("init")
    with Store.open(tmp_path / "store", level=1) as store:
        for name, content in CONTENT.items():
            Catalog(store).add(name, store.import_bytes(content))
    with Store.create(tmp_path / "copy") as copy:
        copy.import_bytes(CONTENT["disk"])
        copy.import_bytes(CONTENT["other"])
    yield made


def harm(store: Path, every: int = 40_000) -> None:
    for pack in packs(store / "packs"):
        for offset in range(3000, pack.stat().st_size, every):
            flip(pack, offset)


def place_of(store: Path, ref: ChunkRef) -> tuple[Path, int]:
    for pack in packs(store / "packs"):
        at = pack.read_bytes().find(ref)
        if at > 0:
            return pack, at - 8
    raise AssertionError("it is in no pack")


def read(store: Path) -> dict[str, bytes]:
    with Store.open(store) as opened:
        return {entry.name: opened.read(entry.root) for entry in Catalog(opened).list()}


def test_nothing_to_repair(program: Program) -> None:
    done = program.json("repair", "--from", program.folder / "copy")
    assert (done["ok"], done["lost"], done["repaired"], done["hurt"]) == (True, 0, {}, [])


def test_from_another_store(program: Program) -> None:
    harm(program.folder / "store")
    assert program.fails(6, "verify")["fix"].startswith("`satchel-home repair")
    error = program.fails(6, "repair", "--from", program.folder / "copy")
    assert "volume third@" in error["why"]
    assert "volume disk" not in error["why"]
    with Store.create(program.folder / "rest") as rest:
        rest.import_bytes(CONTENT["third"])
    done = program.json(
        "repair", "--from", program.folder / "copy", "--from", program.folder / "rest"
    )
    assert done["ok"]
    assert done["unrepaired"] == []
    assert read(program.folder / "store") == CONTENT
    assert program.json("verify")["bad"] == []


def test_verify_says_which_volumes_are_hurt(program: Program) -> None:
    folder = program.folder / "store"
    with Store.open_to_read(folder) as store:
        root = Catalog(store).get("third").root
        flip(*place_of(folder, ChunkRef(store.reachable([root])[-CHUNK_REF_SIZE:])))
    error = program.fails(6, "verify")
    assert error["why"].startswith("volume third@")
    assert error["why"].endswith(": 1 chunks are lost")
    assert "volume disk" not in error["why"]
    program.json("forget", "third")
    error = program.fails(6, "verify")
    assert "no volume and no checkpoint needs them" in error["why"]
    program.json("prune")
    assert program.json("verify")["ok"]


def test_verify_finds_what_an_index_that_was_made_anew_has_not(program: Program) -> None:
    folder = program.folder / "store"
    with Store.open(folder) as store:
        root = Catalog(store).get("third").root
        flip(*place_of(folder, ChunkRef(store.reachable([root])[-CHUNK_REF_SIZE:])))
        store.rebuild_index()
        report = store.verify()
        assert (report.ok, report.unclaimed > 0) == (True, True)
    assert program.fails(6, "verify")["why"].startswith("volume third@")


def index_bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "index").iterdir())


def test_a_pack_that_is_cut_short_costs_no_write_for_each_chunk(program: Program) -> None:
    """The index is synced at each write, so a lost pack took minutes."""
    folder = program.folder / "store"
    (pack,) = packs(folder / "packs")
    with pack.open("r+b") as file:
        file.truncate(4096)
    with Store.open(folder) as store, Store.open(program.folder / "copy") as copy:
        before = index_bytes(folder)
        lost = repair(store, []).lost
        assert lost > 300
        assert index_bytes(folder) - before < 5 * lost  # to forget a chunk takes 30 bytes and more
        done = repair(store, [RepairSource("copy", copy.records)])
        assert {one["name"] for one in done.hurt} == {"third"}
        assert done.repaired["copy"] > 300
        assert store.read(Catalog(store).get("disk").root) == CONTENT["disk"]


def test_from_media(program: Program) -> None:
    root = program.folder / "media"
    root.mkdir()
    with Store.open(program.folder / "store") as store, Media.init(root) as media:
        media.add(store, store.reachable(Catalog(store).roots()))
    harm(program.folder / "store")
    done = program.json("repair", "--from", root)
    assert done["ok"]
    assert done["lost"] == done["repaired"][str(root)] > 20
    assert read(program.folder / "store") == CONTENT
    assert program.json("verify")["ok"]


def test_from_a_peer_that_lies_and_one_that_does_not(program: Program, short_path: Path) -> None:
    harm(program.folder / "store")
    with Store.open(program.folder / "copy") as copy:
        copy.import_bytes(CONTENT["third"])

        def lies(refs: bytes) -> bytes:
            data = bytearray(copy.records(refs))
            for offset in range(100, len(data), 9000):
                data[offset] ^= 1
            return bytes(data)

        apps = []
        for name, provider in (("bad", lies), ("good", copy.records)):
            app = flask.Flask(name)
            app.register_blueprint(chunk_routes(provider))
            apps.append((short_path / name, app))
        with (
            serve(apps[0][1], apps[0][0], threads=2, max_body=1 << 24),
            serve(apps[1][1], apps[1][0], threads=2, max_body=1 << 24),
        ):
            done = program.json("repair", "--from", apps[0][0], "--from", apps[1][0])
    assert done["ok"]
    assert done["repaired"][str(apps[1][0])] > 0
    assert read(program.folder / "store") == CONTENT


@requires("sshd", "ssh", "ssh-keygen")
def test_from_a_far_peer(program: Program, short_path: Path) -> None:
    harm(program.folder / "store")
    keys = program.folder / "config" / "satchel"
    keys.mkdir(parents=True)
    mine = Identity.create(keys / "id_ed25519", comment="owner")
    app = flask.Flask("peer")
    door = door_of("satchel-home", short_path)
    with Sshd.start(short_path / "sshd", authorized=[mine.public], door=door) as sshd:
        there = f"ssh://{sshd.user}@{sshd.address}:{sshd.port}"
        unknown = program.run("repair", "--from", there)
        assert unknown.returncode not in (0, 6), unknown.stderr
        (keys / "known_hosts").write_text(sshd.known_hosts_line + "\n")
        with Store.open(program.folder / "copy") as copy:
            app.register_blueprint(chunk_routes(copy.records))
            with serve(app, short_path / "door.sock", threads=2, max_body=1 << 24):
                done = program.run("repair", "--from", there, "--json")
    assert done.returncode == 6, done.stderr
    report = json.loads(done.stdout)
    assert report["repaired"][there] > 20
    assert {hurt["name"] for hurt in report["hurt"]} == {"third"}
    assert len(report["unrepaired"]) == report["lost"] - report["repaired"][there] > 0
    assert program.run("repair", "--from", "ssh://:x/y").returncode == 2
    assert program.run("repair", "--from", "ssh://a@b/run/x.sock").returncode == 2


def test_a_lost_page_hides_what_is_below_it(program: Program) -> None:
    with Store.open(program.folder / "store") as store:
        root = Catalog(store).get("disk").root
        leaf = split_refs(store.reachable([root]))[1]
        below = split_refs(store.read(root) and store.reachable([root]))[2:40]
    for ref in (root.ref, leaf, *below):
        pack, offset = place_of(program.folder / "store", ref)
        flip(pack, offset + 66)
    with Store.open(program.folder / "store") as store:
        assert len(store.verify().lost) == 40
        with Store.open(program.folder / "copy") as copy:
            done = repair(store, [RepairSource("copy", copy.records)])
        assert done.ok
        assert done.repaired == {"copy": 40}
        assert store.verify().ok
        assert store.read(root) == CONTENT["disk"]


def test_what_cannot_be_had_is_told_to_the_chunk(program: Program) -> None:
    with Store.open(program.folder / "store") as store:
        refs = store.put(noise(3, 50))
    lost = sorted(split_refs(refs))[:3]
    for ref in lost:
        pack, offset = place_of(program.folder / "store", ref)
        flip(pack, offset + 70)
    done = program.run("repair", "--json")
    assert done.returncode == 6
    report = json.loads(done.stdout)
    assert report["unrepaired"] == [chunk_id(ref).hex() for ref in lost]
    (hurt,) = report["hurt"]
    assert (hurt["kind"], hurt["name"], hurt["why"]) == ("volume", "third", "3 chunks are lost")
    program.json("import", _file(program.folder / "third", CONTENT["third"]), "third")
    assert program.json("repair")["ok"]


def test_every_byte_of_a_store_is_mended(tmp_path: Path) -> None:
    """One at a time: found, and taken from the other store; nothing wrong is ever served."""
    content = noise(5, 3) + text(6, 3)
    with (
        Store.create(
            tmp_path / "a",
        ) as store,
        Store.create(tmp_path / "b") as copy,
    ):
        root = store.import_bytes(content)
        Catalog(store).add("disk", root)
        copy.import_bytes(content)
        pack = packs(store.packs_path)[0]
        size = pack.stat().st_size
        for offset in random.Random(1).sample(range(16, size), 60):
            pack = packs(store.packs_path)[0]
            flip(pack, min(offset, pack.stat().st_size - 1))
            assert not store.verify().ok
            done = repair(store, [RepairSource("b", copy.records)])
            assert done.ok
            assert store.read(root) == content
            assert store.verify().ok


def test_a_source_that_is_none(program: Program) -> None:
    for source in (
        "/nonexistent",
        program.folder / "config",
        "0" * 8 + "-0000-0000-0000-" + "0" * 12,
    ):
        (program.folder / "config").mkdir(exist_ok=True)
        assert program.fails(3, "repair", "--from", source)["code"] == "not-found"
    assert program.fails(5, "repair", "--from", program.folder / "store")["code"] == "conflict"
    with pytest.raises(NotFoundError), open_source("ssh://a@b"):
        pass


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_checkpoints_that_are_hurt_are_named(bench: Bench, tmp_path: Path) -> None:
    service = bench.running()
    newest = service.newest()
    assert newest is not None
    media = tmp_path / "media"
    media.mkdir()
    Media.init(media).close()
    bench.home.sync([], media)
    bench.home.close()
    harm(bench.settings.store, 30_000)
    with Store.open(bench.settings.store) as store:
        done = repair(store, [])
        assert [(h["kind"], h["name"], h["version"]) for h in done.hurt] == [
            ("checkpoint", "notes", newest.manifest.id)
        ]
        with open_source(str(media)) as source:
            assert repair(store, [source]).ok
    bench.reopen()
    bench.running()


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
