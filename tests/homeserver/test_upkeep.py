# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is done with the whole store while the daemon has it open, by the real `satchel-home`."""

import contextlib
import json
import os
import pty
import random
import shlex
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from chunkstore import Catalog, CatalogEntry, FileExists, Store
from homeserver.jobs import Jobs, JobStopped
from homeserver.services.records import CheckpointNotFound, CheckpointRegistry, ServiceRegistry
from homeserver.shares import ShareRegistry, Shares
from homeserver.store import upkeep
from homeserver.store.hurt import needs_of
from homeserver.store.settling import BackgroundSettling
from satchel.errors import SatchelError
from satchel.ids import CheckpointId
from tests.chunkstore.content import noise
from tests.chunkstore.mounts import tmpfs
from tests.homeserver.conftest import Bench, program_of
from tests.homeserver.program import PROGRAM, Program
from tests.homeserver.test_carry import run
from tests.homeserver.test_interrupted import DRAWN, SECONDS, Terminal, daemon, held
from tests.needs import requires
from tests.waiting import eventually

MIB = 1 << 20

needs_machines = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@pytest.fixture
def program(bench: Bench, tmp_path: Path) -> Program:
    return program_of(bench, tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.write_bytes(random.Random(1).randbytes(3 * MIB) + bytes(MIB))
    return path


def test_a_volume_comes_and_goes_as_without_the_daemon(
    bench: Bench, program: Program, disk: Path, tmp_path: Path
) -> None:
    relative = Path(os.path.relpath(disk))
    with daemon(bench):
        made = program.json("import", relative, "disk")
        again = program.json("import", relative, "disk")
        told = program.json("export", "disk", os.path.relpath(tmp_path / "out"))
    assert made["stored_bytes"] > 3 * MIB
    assert again["stored_bytes"] < MIB
    assert sum(made["chunks_by_level"].values()) == 3 * MIB // 4096
    assert 3 * MIB < sum(made["bytes_by_level"].values()) < made["stored_bytes"]
    assert again["chunks_by_level"] == again["bytes_by_level"] == {}
    assert made["collisions"] == 0
    assert (tmp_path / "out").read_bytes() == disk.read_bytes()
    assert told == {"name": "disk", "file": os.path.relpath(tmp_path / "out"), "size": 4 * MIB}
    assert [entry.name for entry in Catalog(bench.home.store).versions()] == ["disk", "disk"]
    bench.home.close()
    assert program.json("import", relative, "disk").keys() == made.keys()
    assert program.json("export", "disk", relative, "--overwrite").keys() == told.keys()
    for written in (tmp_path / "out", disk):
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
    bench.reopen()


def test_a_second_server_says_that_one_runs(bench: Bench, program: Program) -> None:
    with daemon(bench):
        error = program.fails(5, "serve")
        assert str(bench.home.settings.socket) in error["why"]


def test_an_export_replaces_a_file_only_if_it_is_told_to(
    bench: Bench, program: Program, disk: Path, tmp_path: Path
) -> None:
    """The daemon writes it, or the command does."""
    out = tmp_path / "out"
    with daemon(bench):
        program.json("import", disk, "disk")
        _export_twice(program, disk, out)
    bench.home.close()
    _export_twice(program, disk, out)
    bench.reopen()


@requires("root", "mount", "unshare")
def test_a_place_that_the_daemon_does_not_see_is_named_as_that(
    bench: Bench, program: Program, tmp_path: Path
) -> None:
    """The folder is another one for the command, as under PrivateTmp."""
    place = tmp_path / "private"
    place.mkdir()
    commands = [
        ("import", place / "disk", "other"),
        ("export", "disk", place / "out"),
        ("media", "sync", place),
        ("media", "defrag", place),
        ("media", "rotate", place),
        ("checkpoint", "notes", "--media", place),
        ("share", "add", place),
    ]
    mounted = f"mount -t tmpfs tmpfs {place} && touch {place}/disk && "
    shelf, socket = ShareRegistry(bench.settings.shares), bench.settings.share_socket
    with closing(Shares(shelf, socket, 30.0)) as shares, daemon(bench, shares):
        for command in commands:
            argv = shlex.join(map(str, (PROGRAM, *command, "--json")))
            done = subprocess.run(
                ["unshare", "--mount", "sh", "-c", mounted + argv],
                env=program.environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 3, (command, done.stderr)
            error = json.loads(done.stderr.splitlines()[-1])["error"]
            assert error["what"].startswith(f"the home server cannot see {place}")
            assert "PrivateTmp" in error["why"]
            assert "systemctl stop" in error["fix"]
    assert list(place.iterdir()) == []


def test_an_export_does_not_replace_a_file_that_comes_meanwhile(tmp_path: Path) -> None:
    out, links = tmp_path / "out", tmp_path / "link"
    links.symlink_to("nowhere")
    with Store.create(tmp_path / "store") as store:
        Catalog(store).add("disk", store.import_bytes(noise(1, 100)))

        def comes(done: int, total: int) -> None:
            out.write_bytes(b"precious")

        with pytest.raises(FileExists, match="--overwrite"):
            upkeep.export_volume(store, "disk", out, False, comes)
        assert out.read_bytes() == b"precious"
        with pytest.raises(FileExists):
            upkeep.export_volume(store, "disk", links, False)
        assert links.is_symlink()
        upkeep.export_volume(store, "disk", tmp_path / "new", False)
        assert (tmp_path / "new").read_bytes() == noise(1, 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "new", "out", "store"]


def _export_twice(program: Program, disk: Path, out: Path) -> None:
    out.write_bytes(b"precious")
    assert "--overwrite" in program.fails(5, "export", "disk", out)["fix"]
    assert out.read_bytes() == b"precious"
    program.json("export", "disk", out, "--overwrite")
    assert out.read_bytes() == disk.read_bytes()


def test_errors_are_those_without_the_daemon(
    bench: Bench, program: Program, disk: Path, tmp_path: Path
) -> None:
    wrong = [
        ("export", "nothing", tmp_path / "out"),
        ("export", "disk", tmp_path / "no" / "folder"),
        ("export", "disk", tmp_path),
        ("import", tmp_path / "nothing", "other"),
        ("import", "/dev/null", "other"),
        ("import", disk, "../other"),
    ]
    with daemon(bench):
        program.json("import", disk, "disk")
        asked = [program.run(*words, "--json") for words in wrong]
    bench.home.close()
    alone = [program.run(*words, "--json") for words in wrong]
    bench.reopen()
    for by_daemon, by_itself in zip(asked, alone, strict=True):
        assert by_daemon.returncode == by_itself.returncode != 0
        assert json.loads(by_daemon.stderr) == json.loads(by_itself.stderr)


def test_damage_is_told_and_named(bench: Bench, program: Program, disk: Path) -> None:
    with daemon(bench):
        program.json("import", disk, "disk")
        assert program.json("verify")["ok"]
        pack = max(bench.home.store.packs_path.iterdir(), key=lambda path: path.stat().st_size)
        with pack.open("r+b") as file:
            file.seek(2 * MIB)
            file.write(b"what is no record" * 10)
        done = program.run("verify", "--json")
        report, error = json.loads(done.stdout), json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"]) == (6, "integrity")
    assert not report["ok"]
    assert report["bad"]
    assert [hurt["name"] for hurt in report["hurt"]] == ["disk"]
    bench.home.close()
    assert program.run("verify", "--json").returncode == 6
    bench.reopen()


def test_what_was_stored_fast_is_settled(bench: Bench, program: Program, tmp_path: Path) -> None:
    """The settling in the background makes way: it takes its time, and would be waited for."""
    store = bench.home.store
    if bench.home._settling:
        bench.home._settling.stop()
    (tmp_path / "disk").write_bytes(noise(1, 20_000))
    with daemon(bench):
        program.json("import", tmp_path / "disk", "disk")
        bench.home._settling = BackgroundSettling(store, first=0.0, pause=0.01)
        assert eventually(lambda: store.stats().settled > 0)
        assert program.json("settle")["chunks"] > 0
        stats = program.json("stats")
        assert stats["settled"] == stats["chunks"] > 20_000
        assert program.json("verify")["ok"]


def test_no_prune_comes_between_what_verify_reads_and_names(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would miss what was forgotten and pruned meanwhile."""
    pruning = threading.Thread(target=bench.home.prune)

    def hurt_in(*_: object) -> list[dict[str, Any]]:
        pruning.start()
        pruning.join(0.3)
        assert pruning.is_alive()
        return []

    monkeypatch.setattr(upkeep, "hurt_in", hurt_in)
    assert bench.home.verify()["ok"]
    pruning.join(SECONDS)
    assert not pruning.is_alive()


@contextmanager
def verifying(bench: Bench) -> Iterator[dict[str, Any]]:
    """Within it the home reads its store and comes to no end; afterwards that is its report."""
    reading, go, report = threading.Event(), threading.Event(), dict[str, Any]()

    def slowly(done: int, total: int) -> None:
        reading.set()
        assert go.wait(SECONDS)

    reader = threading.Thread(target=lambda: report.update(bench.home.verify(slowly)))
    reader.start()
    try:
        assert reading.wait(SECONDS)
        yield report
    finally:
        go.set()
        reader.join()


@needs_machines
def test_a_checkpoint_is_taken_while_the_store_is_read(bench: Bench, program: Program) -> None:
    service = bench.running()
    run(service, 1, 1)
    with daemon(bench), verifying(bench) as report:
        taken = program.json("checkpoint", "notes")
        assert program.json("service", "ls")[0]["state"] == "ready"
        assert not report
    assert report["ok"]
    assert taken["operation"] == 1
    service.stop()


@pytest.mark.parametrize("command", ["import", "export", "verify", "settle"])
def test_ctrl_c_stops_the_daemon_at_it(
    bench: Bench, program: Program, disk: Path, tmp_path: Path, command: str
) -> None:
    words = {
        "import": (disk, "other"),
        "export": ("disk", tmp_path / "out"),
        "verify": (),
        "settle": (),
    }[command]
    method = {"import": "import_volume", "export": "export_volume"}.get(command, command)
    with daemon(bench):
        program.json("import", disk, "disk")
        with held(bench, method) as hold:
            terminal = Terminal(program, command, *words)
            assert eventually(lambda: bool(DRAWN.search(terminal.said)))
            assert len(program.json("ls")) == 1
            assert program.json("stats")["chunks"] > 0
            assert terminal.interrupt() == 130
            assert hold.stopped.is_set()
        assert not (tmp_path / "out").exists()
        assert [entry.name for entry in Catalog(bench.home.store).versions()] == ["disk"]
        assert program.run(command, *words).returncode == 0
        assert program.json("verify")["ok"]


@requires("root", "mount")
def test_what_found_no_room_goes_again(short_path: Path, tmp_path: Path, disk: Path) -> None:
    """Also from the pack in which something is that stays."""
    large = tmp_path / "large"
    large.write_bytes(random.Random(2).randbytes(200 * MIB))
    with tmpfs(short_path / "disk", "480m"):
        bench = Bench(short_path / "disk")
        program = program_of(bench, tmp_path)
        with closing(bench.home), daemon(bench):
            program.json("import", disk, "disk")
            before = program.json("stats")["pack_bytes"]
            error = program.fails(7, "import", large, "large")
            assert "would be left" in error["why"]
            assert program.json("stats")["pack_bytes"] == before
            program.json("import", disk, "again")
            assert [row["name"] for row in program.json("ls")] == ["again", "disk"]
            assert program.json("verify")["ok"]


@requires("root", "mount")
def test_a_prune_of_a_full_disk_says_what_it_freed(
    short_path: Path, tmp_path: Path, disk: Path
) -> None:
    with tmpfs(short_path / "disk", "24m"):
        bench = Bench(short_path / "disk")
        program = program_of(bench, tmp_path)
        bench.home.close()
        program.json("import", disk, "disk")
        program.json("forget", "disk")
        with contextlib.suppress(OSError), (short_path / "disk" / "fill").open("wb") as fill:
            while True:
                fill.write(bytes(MIB))
        report = program.json("prune")
        assert report["bytes_before"] - report["bytes_after"] >= 3 * MIB


def test_a_volume_that_is_forgotten_while_it_is_exported(bench: Bench, disk: Path) -> None:
    """A prune leaves it until it is written."""
    store, out = bench.home.store, disk.with_name("out")
    upkeep.import_volume(store, disk, "disk")
    asked: list[threading.Thread] = []

    def forgotten(done: int, total: int) -> None:
        if not asked:
            Catalog(store).remove("disk")
            asked.append(threading.Thread(target=upkeep.prune, args=(store,)))
            asked[0].start()

    upkeep.export_volume(store, "disk", out, False, forgotten)
    asked[0].join()
    assert out.read_bytes() == disk.read_bytes()


def test_a_volume_that_is_imported_while_a_prune_begins(
    bench: Bench, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no name yet."""
    store, add = bench.home.store, Catalog.add

    def pruned(catalog: Catalog, *arguments: Any) -> CatalogEntry:
        upkeep.prune(store)
        return add(catalog, *arguments)

    monkeypatch.setattr(Catalog, "add", pruned)
    upkeep.import_volume(store, disk, "disk")
    assert store.missing(Catalog(store).get("disk").root) == b""


def test_a_prune_that_waits_for_a_verify_can_be_stopped(bench: Bench) -> None:
    def stopped(done: int, total: int) -> None:
        raise JobStopped("it was stopped")

    bench.home.store.import_bytes(noise(1, 64))
    with verifying(bench) as report:
        pruning = threading.Thread(target=lambda: errors.append(_error_of(bench, stopped)))
        errors: list[SatchelError | None] = []
        pruning.start()
        pruning.join(5)
        assert [type(error) for error in errors] == [JobStopped]
        assert not report
    assert report["ok"]
    bench.home.prune()


def _error_of(bench: Bench, progress: Any) -> SatchelError | None:
    try:
        bench.home.prune(progress=progress)
    except SatchelError as error:
        return error
    return None


def test_a_daemon_that_ends_stops_its_works() -> None:
    """Also works without a name, and works that begin meanwhile."""
    works = Jobs()
    with works.begin("word") as named, works.begin("") as nameless:
        works.close()
        with works.begin("late") as late:
            for progress in (named, nameless, late):
                with pytest.raises(JobStopped):
                    progress(1, 2)


def test_a_checkpoint_that_is_forgotten_while_it_is_looked_for_is_not_hurt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [[CheckpointId("a" * 32)], []]

    def gone(shelf: CheckpointRegistry, checkpoint: CheckpointId) -> None:
        raise CheckpointNotFound(f"no checkpoint {checkpoint}")

    monkeypatch.setattr(ServiceRegistry, "names", lambda _: ["notes"])
    monkeypatch.setattr(CheckpointRegistry, "ids", lambda _: listed.pop(0))
    monkeypatch.setattr(CheckpointRegistry, "get", gone)
    assert needs_of(bench.home.store)[1] == []


def test_the_console_of_a_service_is_shown_and_rm_asks(bench: Bench, program: Program) -> None:
    console = bench.running().replica().run_dir / "console.log"
    console.write_text("the service died\x1b[2J\n")
    with daemon(bench):
        assert program.run("service", "log", "notes").stdout == "the service died[2J\n"
        following = program.start("service", "log", "notes", "--follow")
        assert eventually(lambda: "died" in program.log.read_text())
        with console.open("a") as file:
            file.write("and again\n")
        assert eventually(lambda: "and again" in program.log.read_text())
        following.send_signal(signal.SIGINT)
        assert following.wait(SECONDS) == 130
        asked = [Answering(program, "n\n"), Answering(program, "y\n")]
        assert [(one.code, "up to operation 0. Remove it?" in one.said) for one in asked] == [
            (130, True),
            (0, True),
        ]
        assert program.json("service", "ls") == []


class Answering:
    """`service rm`, asked on a terminal."""

    def __init__(self, program: Program, answer: str) -> None:
        ours, its = pty.openpty()
        with subprocess.Popen(
            [PROGRAM, "service", "rm", "notes"],
            env=program.environment, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            os.write(ours, answer.encode())
            said, _ = process.communicate(timeout=SECONDS)
        os.close(ours)
        os.close(its)
        self.code, self.said = process.returncode, said.decode()
