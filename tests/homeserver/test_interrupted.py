# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a terminal where the real `satchel-home` is at something long: it says how far it is,
how fast and for how long, it ends at once, the old state stays, and another call goes on."""

import os
import pty
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chunkstore import Catalog, Store
from homeserver.api import MAX_BODY, home_app
from homeserver.jobs import Jobs, JobStopped
from homeserver.media.care import media_contents, verify_media
from homeserver.shares import Shares
from media import Media
from satchel.progress import Progress
from tests.homeserver.conftest import Bench, program_of
from tests.homeserver.program import PROGRAM, Program
from tests.homeserver.test_carry import run
from tests.needs import requires
from tests.waiting import eventually
from wire import serve

MIB = 1 << 20
SECONDS = 60.0
DRAWN = re.compile(r"[0-9.]+ ?/ ?[0-9.]+ MiB\s.*[0-9.]+ [kM]B/s\s.*[0-9]:[0-9]{2}:[0-9]{2}")
"""How much, how fast, how long."""


class Terminal:
    """A command whose terminal we are."""

    def __init__(self, program: Program, *arguments: object) -> None:
        ours, its = pty.openpty()
        self._ours = ours
        self._said = b""
        self.process = subprocess.Popen(
            [PROGRAM, *map(str, arguments)],
            env={**program.environment, "TERM": "xterm", "COLUMNS": "120"},
            stdin=its,
            stdout=subprocess.DEVNULL,
            stderr=its,
        )
        os.close(its)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 4096):
                self._said += data
        except OSError:
            pass  # the last one on the other side has closed it

    @property
    def said(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._said.decode(errors="replace"))

    def wait_for(self, text: str) -> None:
        assert eventually(lambda: text in self.said or self.process.poll() is not None)

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        os.close(self._ours)
        return code


class SlowWork:
    """Work of the daemon that comes to its first report, and then gets on only slowly until
    somebody stops it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()

    def report(self, progress: Progress) -> Progress:
        def report(done: int, total: int) -> None:
            total = max(total, 4 * MIB)
            done = min(done, total // 2)
            deadline = time.monotonic() + SECONDS
            try:
                while time.monotonic() < deadline:
                    progress(done, total)
                    self.begun.set()
                    done = min(done + 4096, total - 1)
                    time.sleep(0.02)
            except JobStopped:
                self.stopped.set()
                raise

        return report


@pytest.fixture
def media(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    root.mkdir()
    Media.init(root).close()
    return root


@pytest.fixture
def program(bench: Bench, tmp_path: Path) -> Program:
    """Of the bench's home, of which a disk has 6 MiB."""
    (bench.settings.images / "speech" / "disk").write_bytes(random.Random(9).randbytes(6 * MIB))
    return program_of(bench, tmp_path)


@contextmanager
def daemon(bench: Bench, shares: Shares | None = None) -> Iterator[None]:
    with serve(home_app(bench.home, shares), bench.settings.socket, threads=8, max_body=MAX_BODY):
        yield


@contextmanager
def held(bench: Bench, name: str) -> Iterator[SlowWork]:
    """A method of the home that takes a progress: its work is held."""
    hold, method = SlowWork(), getattr(bench.home, name)

    def slow(*arguments: Any, **options: Any) -> Any:
        if options:
            return method(*arguments, **{**options, "progress": hold.report(options["progress"])})
        return method(*arguments[:-1], hold.report(arguments[-1]))

    setattr(bench.home, name, slow)
    try:
        yield hold
    finally:
        setattr(bench.home, name, method)


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
@pytest.mark.parametrize("command", ["sync", "checkpoint"])
def test_onto_media(bench: Bench, media: Path, program: Program, command: str) -> None:
    old, service = bench.running(), bench.running("speech")
    bench.home.sync(["notes"], media)
    with Media.open(media) as opened:
        before, chunks = opened.generations(), opened.chunks
    arguments: tuple[object, ...] = ("media", "sync", media)
    if command == "checkpoint":
        arguments = ("checkpoint", "speech", "--media", media)
    with daemon(bench):
        with held(bench, {"sync": "sync", "checkpoint": "carry"}[command]) as hold:
            terminal = Terminal(program, *arguments)
            assert eventually(lambda: bool(DRAWN.search(terminal.said)))
            assert terminal.interrupt() == 130
            assert "interrupted" in terminal.said
            assert hold.stopped.is_set()
        with Media.open(media) as opened:
            assert opened.generations() == before
            copied = opened.chunks - chunks
        assert copied > 200
        answer = program.json(*arguments)
    assert 0 < answer["media_bytes"] < (answer["chunks"] - copied + 20) * 4300
    assert {row["service"] for row in media_contents(media)} == {"notes", "speech"}
    assert verify_media(media)["ok"]
    service.stop()
    old.stop()


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_a_sync_by_a_daemon_that_nobody_holds(
    bench: Bench, program: Program, tmp_path: Path
) -> None:
    """Its own process, at its own pace; where it was quicker than Ctrl-C, another medium."""
    disk = bench.settings.images / "speech" / "disk"
    disk.write_bytes(random.Random(9).randbytes(160 * MIB))
    bench.running("speech").stop()
    bench.home.close()
    serving = program.start("serve")
    try:
        assert eventually(lambda: "answers at" in program.log.read_text())
        for number in range(5):
            root = tmp_path / f"stick-{number}"
            root.mkdir()
            Media.init(root).close()
            terminal = Terminal(program, "media", "sync", root)
            terminal.wait_for("MiB")
            if terminal.interrupt() == 130:
                break
        else:
            raise AssertionError("it was too quick, five times")
        with Media.open(root) as opened:
            assert opened.generations() == []
            copied = opened.chunks
        assert copied > 200
        answer = program.json("media", "sync", root)
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(SECONDS)
    assert 0 < answer["media_bytes"] < (answer["chunks"] - copied + 20) * 4300
    assert verify_media(root)["ok"]


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_a_prune_by_the_daemon(bench: Bench, program: Program) -> None:
    service = bench.running()
    for number in range(1, 4):
        run(service, number, number)
        service.checkpoint()
    chunks = bench.home.store.stats().chunks
    with daemon(bench):
        with held(bench, "prune") as hold:
            terminal = Terminal(program, "prune")
            assert eventually(lambda: bool(DRAWN.search(terminal.said)))
            assert terminal.interrupt() == 130
            assert hold.stopped.is_set()
        assert bench.home.store.stats().chunks == chunks
        assert program.json("prune")["removed"] > 0
        assert bench.home.store.verify().ok
    service.stop()


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_before_the_daemon_has_begun(
    bench: Bench, media: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped when it does begin."""
    service = bench.running()
    asked, go, begin = threading.Event(), threading.Event(), Jobs.begin

    def late(works: Jobs, word: str) -> Any:
        asked.set()
        assert go.wait(SECONDS)
        return begin(works, word)

    monkeypatch.setattr(Jobs, "begin", late)
    with daemon(bench), held(bench, "sync") as hold:
        terminal = Terminal(program, "media", "sync", media)
        assert asked.wait(SECONDS)
        terminal.process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # so that its first word comes too early
        go.set()
        assert terminal.end() == 130
        assert hold.stopped.is_set()
    assert media_contents(media) == []
    service.stop()


@pytest.mark.parametrize("command", ["repair", "media verify", "media recover", "prune"])
def test_without_a_daemon(tmp_path: Path, media: Path, command: str) -> None:
    """What it reads is large enough to be caught at it; where it was quicker, once more."""
    made = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "store"))
    with Store.create(tmp_path / "store") as store:
        kept = store.import_bytes(random.Random(1).randbytes(96 * MIB))
        Catalog(store).add("disk", kept)
        if command == "prune":
            store.import_bytes(random.Random(2).randbytes(64 * MIB))
        with Media.open(media) as opened:
            opened.add(store, store.reachable([kept]))
            opened.commit([], [kept])
    arguments = command.split() + ([str(media)] if command.startswith("media") else [])
    codes: list[int] = []
    while 130 not in codes and len(codes) < 5:
        terminal = Terminal(made, *arguments)
        terminal.wait_for(command.rsplit(maxsplit=1)[-1])
        codes.append(terminal.interrupt())
    assert set(codes) <= {0, 130}
    assert codes[-1] == 130
    assert made.json("verify")["ok"]
    assert verify_media(media)["ok"]
    assert made.run(*arguments).returncode == 0
