# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home serve` with real machines: killed, stopped, unable; nothing is left of it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkstore import Store
from homeserver import Home, HomeSettings
from homeserver.services.records import ServiceRegistry
from hypervisor import QemuDriver
from images import BuiltImage
from replay import encode_operations, responses_in
from satchel.errors import SatchelError, UnavailableError
from tests.homeserver.program import Program
from tests.leftovers import below
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.notebook import notebook
from tests.waiting import eventually
from wire import HttpClient

pytestmark = requires(*MACHINE)

NOTES = "/v1/services/notes"

ENDED = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""A daemon's exit code, by what ended it."""


class Daemon:
    """A scratch copy of the shared home, and the program that serves it."""

    def __init__(self, settings: HomeSettings, folder: Path) -> None:
        self.settings = settings
        self.program = Program(folder)
        self.config = folder / "home.toml"
        self.set(images=settings.images)
        self.process: subprocess.Popen[str] | None = None

    def set(self, images: Path) -> None:
        folders = {"data": self.settings.data, "run": self.settings.run, "images": images}
        self.config.write_text("".join(f'{key} = "{path}"\n' for key, path in folders.items()))

    def start(self, *arguments: str) -> None:
        """Returns once it answers."""
        self.process = self.program.start("--config", self.config, "serve", *arguments)
        assert eventually(
            lambda: self.process_ended() or "answers at" in self.program.log.read_text()
        )
        assert not self.process_ended(), self.program.log.read_text()

    def process_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def client(self) -> HttpClient:
        return HttpClient(self.settings.socket)

    def submit(self, first: int, last: int) -> list[bytes]:
        data = encode_operations(notebook(number) for number in range(first, last + 1))
        with self.client() as client:
            answer = client.post_bytes(
                f"{NOTES}/operations", data, headers={"X-Satchel-Client": "laptop"}
            )
        return [response.payload for response in responses_in([answer])]

    def post(self, path: str, value: object = None) -> Any:
        with self.client() as client:
            return client.post_json(f"{NOTES}/{path}", value or {})

    def view(self) -> dict[str, Any]:
        with self.client() as client:
            (row,) = client.get_json("/v1/services")
        return dict(row)

    def pids(self, name: str) -> list[int]:
        """A file that is being written tells none yet."""
        files = self.settings.run.glob(f"r/*/{name}.pid")
        return [int(pid) for path in files if (pid := path.read_text().strip())]

    def left(self) -> list[str]:
        """Processes and mounts of the run folder, and what is in it."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found = [line for line in mounts if f" {self.settings.run}/" in line]
        found += below(self.settings.run)
        return found + [str(path) for path in self.settings.run.glob("r/*")]


@pytest.fixture
def daemon(notes_checkpoint: NotesCheckpoint, short_path: Path) -> Iterator[Daemon]:
    made = Daemon(notes_checkpoint.copy_home(short_path), short_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()
    Home(made.settings, QemuDriver()).close()  # sweeps, should the test have failed
    assert made.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_with_a_machine_running(daemon: Daemon, number: signal.Signals) -> None:
    daemon.start("--launch", "notes")
    daemon.submit(1, 2)
    assert len(daemon.left()) >= 4
    assert daemon.end(number) == ENDED[number]
    assert daemon.left() == []
    assert not daemon.settings.socket.exists()


@requires("root")
def test_a_umask_that_closes_every_file_keeps_no_machine_from_running(daemon: Daemon) -> None:
    """Home was made under it as well: its packs are closed to the users of cells."""
    data = daemon.settings.data
    subprocess.run(["chmod", "-R", "go=", str(data)], check=True)
    before = os.umask(0o077)
    try:
        daemon.start("--launch", "notes")
    finally:
        os.umask(before)
    assert len(daemon.submit(1, 2)) == 2
    assert data.stat().st_mode & 0o777 == 0o700
    assert daemon.end(signal.SIGTERM) == 0


def test_stop_of_the_service_leaves_nothing(daemon: Daemon) -> None:
    daemon.start("--launch", "notes")
    assert daemon.post("stop")["state"] == "down"
    assert daemon.left() == []


def test_a_killed_home_is_cleared_by_the_next_and_its_services_run_again(daemon: Daemon) -> None:
    daemon.start("--launch", "notes")
    answers = daemon.submit(1, 5)
    assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
    (left,) = daemon.pids("qemu")
    assert len(daemon.left()) >= 4
    daemon.start()
    assert not Path(f"/proc/{left}").exists()
    assert eventually(lambda: daemon.view()["state"] == "ready")
    assert daemon.submit(1, 5) == answers
    assert len(daemon.pids("qemu")) == 1
    daemon.post("stop")
    assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
    daemon.start()
    assert daemon.left() == []
    assert daemon.view()["state"] == "down"


def test_a_killed_machine_is_an_error_and_a_launch_replays(daemon: Daemon) -> None:
    daemon.start("--launch", "notes")
    answers = daemon.submit(1, 5)
    state = daemon.post("digest", {"paths": ["/var/lib/notes"]})
    (pid,) = daemon.pids("qemu")
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: daemon.view()["failure"] is not None)
    assert daemon.view()["state"] == "failed"
    assert daemon.left() == []
    with pytest.raises(UnavailableError, match="SIGKILL"):
        daemon.submit(6, 6)
    daemon.post("launch")
    answers += daemon.submit(6, 6)
    assert daemon.submit(1, 6) == answers
    daemon.post("checkpoint", {"media": "", "doubtful": "refuse"})
    daemon.post("stop")
    daemon.post("launch")
    assert daemon.submit(7, 7)
    daemon.end(signal.SIGKILL)
    daemon.start("--launch", "notes")
    assert daemon.submit(7, 7)
    assert daemon.post("digest", {"paths": ["/var/lib/notes"]}) != state


def test_a_prune_keeps_every_checkpoint(daemon: Daemon) -> None:
    daemon.start("--launch", "notes")
    for number in (1, 2):
        daemon.submit(number, number)
        daemon.post("checkpoint", {"media": "", "doubtful": "refuse"})
    assert daemon.end(signal.SIGTERM) == 0
    report = daemon.program.json("--config", "/dev/null", "--store", daemon.settings.store, "prune")
    assert report["kept"] > 0
    with Store.open(daemon.settings.store) as store:
        roots = ServiceRegistry(daemon.settings.services).roots()
        assert roots
        assert store.missing(*roots) == b""
        assert store.verify().ok
    daemon.start("--launch", "notes")
    assert daemon.submit(3, 3)


def test_no_qemu(daemon: Daemon, tmp_path: Path) -> None:
    for name in ("nbdkit", "nbdfuse", "fusermount3", "ssh-keygen", "sh", "bwrap"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/nonexistent")
    daemon.program.environment["PATH"] = str(tmp_path)
    failed(daemon, 10, "qemu-system-x86_64")


def test_a_machine_type_that_this_qemu_has_not(daemon: Daemon) -> None:
    shelf = ServiceRegistry(daemon.settings.services).checkpoints("notes")
    (manifest,) = shelf.all()
    machine = {**manifest.machine, "machine_type": "pc-q35-99.9"}
    shelf.add(type(manifest)(**{**vars(manifest), "machine": machine}), b"signature")
    shelf.keep([m.id for m in shelf.all() if m.id != manifest.id])
    failed(daemon, 10, "pc-q35-99.9")


def test_no_kernel(daemon: Daemon, tmp_path: Path) -> None:
    """Of a first boot: a checkpoint needs none."""
    image = BuiltImage.load(daemon.settings.images / "notes")
    folder = tmp_path / "notes"
    folder.mkdir()
    for path in image.disk.parent.iterdir():
        if path != image.kernel:
            (folder / path.name).symlink_to(path)
    daemon.set(images=tmp_path)
    ServiceRegistry(daemon.settings.services).checkpoints("notes").keep([])
    failed(daemon, 6, image.files[1].name)


def failed(daemon: Daemon, code: int, why: str) -> None:
    """A launch fails with that code, one line that says why, and leaves nothing."""
    process = daemon.program.start("--config", daemon.config, "serve", "--launch", "notes")
    said = process.wait(60), daemon.program.log.read_text()
    assert said[0] == code, said[1]
    assert why in said[1].splitlines()[-1]
    assert daemon.left() == []
    assert not daemon.settings.socket.exists()


def test_sigterm_during_a_first_boot(daemon: Daemon) -> None:
    ServiceRegistry(daemon.settings.services).checkpoints("notes").keep([])
    daemon.process = daemon.program.start("--config", daemon.config, "serve", "--launch", "notes")
    assert eventually(lambda: bool(daemon.pids("qemu")))
    assert daemon.end(signal.SIGTERM) == 130
    assert daemon.left() == []


def test_a_second_daemon_of_the_same_home(daemon: Daemon) -> None:
    daemon.start("--launch", "notes")
    second = daemon.program.run("--config", daemon.config, "serve")
    assert second.returncode == 5
    assert daemon.process is not None
    assert str(daemon.settings.socket) in second.stderr  # which one that is
    assert daemon.submit(1, 1)


def test_errors_name_what_to_do_when_no_daemon_runs(daemon: Daemon) -> None:
    error = daemon.program.fails(8, "--config", daemon.config, "service", "ls")
    assert "satchel-home serve" in error["fix"]


def test_a_service_whose_description_is_damaged_hides_no_other_one(daemon: Daemon) -> None:
    folder = daemon.settings.services / "broken"
    folder.mkdir()
    (folder / "service.json").write_text("{")
    daemon.start()

    def cli(*arguments: object) -> Any:
        return daemon.program.json("--config", daemon.config, *arguments)

    states = {row["name"]: (row["state"], row["failure"]) for row in cli("service", "ls")}
    assert states["notes"] == ("down", None)
    assert states["broken"][0] == "failed"
    assert f"mv {folder}" in states["broken"][1]
    assert cli("forget", "notes", "--keep-last", 1)["forgotten"] == []
    assert cli("prune")["kept"] > 0
    error = daemon.program.fails(6, "--config", daemon.config, "forget", "--keep-last", 1)
    assert "broken/service.json" in error["what"]


def test_the_cli_drives_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start()

    def cli(*arguments: object) -> Any:
        return daemon.program.json("--config", daemon.config, *arguments)

    assert cli("launch", "notes")["state"] == "ready"
    assert cli("ls") == []
    stats = cli("stats")
    assert stats["chunks"] > 0
    assert list(stats)[:3] == ["chunks", "variants", "packs"]
    daemon.submit(1, 3)
    (tmp_path / "media").mkdir()
    cli("media", "init", tmp_path / "media")
    carried = cli("checkpoint", "notes", "--media", tmp_path / "media")
    assert carried["operation"] == 3
    (row,) = cli("media", "ls", tmp_path / "media")
    assert (row["checkpoint"], row["operation"]) == (carried["checkpoint"], 3)
    assert cli("schedule", "--run", "verify")["ok"]
    tasks = {row["task"]: row for row in cli("schedule")}
    assert tasks["verify"]["last"]
    assert tasks["prune"]["last"] is None
    assert cli("notify", "ls") == []
    error = daemon.program.fails(3, "--config", daemon.config, "notify", "test")
    assert "notify = " in error["fix"]
    assert cli("media", "rotate", tmp_path / "media")["keys"] == 2
    daemon.submit(4, 4)
    again = cli("checkpoint", "notes", "--media", tmp_path / "media")
    assert again["media_bytes"] < carried["media_bytes"] / 4
    assert cli("service", "ls")[0]["last_logged"] == 4
    assert cli("service", "stop", "notes")["state"] == "down"
    refused = daemon.program.fails(2, "--config", daemon.config, "service", "rm", "notes")
    assert refused["why"].startswith("its 2 checkpoints since ")
    assert refused["why"].endswith("the log up to operation 4 would go")
    forgotten = cli("forget", "notes")
    assert (len(forgotten["forgotten"]), len(forgotten["kept"])) == (1, 1)
    cli("service", "rm", "notes", "--yes")
    assert cli("service", "ls") == []
    with pytest.raises(SatchelError):
        daemon.submit(5, 5)
