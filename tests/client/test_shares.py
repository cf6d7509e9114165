# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel mount` as a person uses it: the real home, OpenSSH between, a process for each mount."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from client import ClientSettings
from satchel.errors import NotFoundError, UnavailableError, UsageError
from satchel.settings import load
from testbed.roles import client_settings
from testbed.sshd import Sshd
from tests.client.commands import SATCHEL, Commands
from tests.doors import door_of
from tests.homeserver.program import Program
from tests.needs import requires
from tests.waiting import eventually
from wire import Identity

pytestmark = requires("fuse", "sshd", "ssh")


def serves(process: Path, place: Path) -> bool:
    """Return whether that process has the place among its arguments."""
    try:
        return str(place).encode() in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


class Owner(Commands):
    """A home with two shares, and a laptop."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "client.toml")
        self.folder = folder
        self.program = Program(folder / "h")
        assert self.program.run("init").returncode == 0
        self.home: subprocess.Popen[str] = self.program.start("serve")
        socket = folder / "h/run/satchel/home/home.sock"
        assert eventually(socket.exists, 60)
        key = Identity.create(folder / "key")
        self._key = key
        self.reach_home()
        peer = self.sshd.peer("home", key.path, folder / "known_hosts")
        run, data, state = folder / "r", folder / "data", folder / "state"
        self.config.write_text(client_settings({"home": peer}, run=run, data=data, state=state))
        self.mounted: list[Path] = []

    def reach_home(self, port: int = 0) -> None:
        place = self.folder / "sshd"
        door = door_of("satchel-home", self.folder / "h/run/satchel/home")
        self.sshd = Sshd.start(place, authorized=[self._key.public], port=port, door=door)

    def add(self, name: str, *words: str) -> Path:
        root = self.folder / name
        root.mkdir()
        done = self.program.run("share", "add", *words, str(root))
        assert done.returncode == 0, done.stderr
        return root

    def mounts(self, name: str, *words: str) -> Path:
        place = self.folder / name
        place.mkdir()
        done = self.types("mount", "--background", *words, str(place))
        assert done.returncode == 0, done.stderr
        self.mounted.append(place)
        return place

    def unmounts(self, place: Path) -> None:
        subprocess.run(["fusermount3", "-u", place], check=True, timeout=30)
        self.mounted.remove(place)
        assert eventually(lambda: str(place) not in str(self.status()))

    def hangs_up(self, place: Path) -> None:
        """The mount ends in order at SIGHUP."""
        found = [int(each.name) for each in Path("/proc").glob("[0-9]*") if serves(each, place)]
        os.kill(min(pid for pid in found if os.getsid(pid) == pid), signal.SIGHUP)
        assert eventually(lambda: not os.path.ismount(place))
        self.mounted.remove(place)

    def status(self) -> Any:
        done = self.types("share", "status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else []

    def close(self) -> None:
        for place in list(self.mounted):
            self.unmounts(place)
        self.sshd.stop()
        self.home.send_signal(signal.SIGTERM)
        self.home.wait(60)


@pytest.fixture
def owner(short_path: Path) -> Iterator[Owner]:
    owner = Owner(short_path)
    yield owner
    owner.close()


def test_a_share_is_mounted_twice_and_is_one_tree(owner: Owner) -> None:
    root = owner.add("photos")
    (root / "old").write_bytes(b"was there before")
    one, two = owner.mounts("one", "photos"), owner.mounts("two")
    assert (one / "old").read_bytes() == b"was there before"
    with (one / "f").open("wb", buffering=0) as file:
        for turn in range(10):
            file.write(b"x" * (turn * 1000))
            assert (two / "f").stat().st_size == sum(range(turn + 1)) * 1000
    rows = {row["mountpoint"]: row for row in owner.sees("share", "status")}
    assert set(rows) == {str(one), str(two)}
    assert rows[str(one)]["connected"]
    assert rows[str(one)]["traffic"]
    shown = owner.types("share", "status")
    assert "photos" in shown.stdout
    assert "connected" in shown.stdout
    nodes = owner.program.run("share", "status", "--json").stdout
    assert load(ClientSettings, owner.config).client_id in nodes, "a host name is no owner of files"
    owner.unmounts(one)
    assert (root / "f").stat().st_size == 45000
    assert len(list((owner.folder / "state/shares").glob("*/journal"))) == 1
    owner.hangs_up(two)


def test_files_that_are_written_most_are_named(owner: Owner) -> None:
    """They had numbers, which no other command told."""
    owner.add("photos")
    one, two = owner.mounts("one"), owner.mounts("two")
    (one / "deep").mkdir()
    with (one / "deep/hot").open("wb", buffering=0) as file:
        file.write(b"before")
        with (two / "deep/hot").open("rb", buffering=0) as reader:
            assert reader.read() == b"before"
            for _ in range(4):
                os.pwrite(file.fileno(), b"after ", 0)
            rows = {row["mountpoint"]: row["files"] for row in owner.sees("share", "status")}
            (found,) = [each for each in rows[str(one)] if each["hot"]]
            assert (found["path"], found["policy"]) == ("deep/hot", "delayed-update")
            assert found["hot"][0]["overwritten"] >= 3
            assert found["home_is_behind_seconds"] < 60
            shown = owner.types("share", "status").stdout
            assert "deep/hot" in shown
    other = owner.types("share", "status", "films")
    assert other.returncode == NotFoundError.exit_code
    assert "no share films is mounted here" in other.stderr


def test_a_connection_that_ends_is_made_again_and_nothing_is_lost(owner: Owner) -> None:
    root = owner.add("photos")
    one = owner.mounts("one")
    with (one / "f").open("wb", buffering=0) as file:
        file.write(b"before")
        owner.sshd.stop()
        file.write(b", meanwhile")
        owner.reach_home(owner.sshd.port)
        file.write(b", after")
        os.fsync(file.fileno())
    assert (root / "f").read_bytes() == b"before, meanwhile, after"


def test_a_mount_tells_which_node_home_went_on_without(owner: Owner) -> None:
    """What a lost node's log gave back was told at home alone: who waited for it did not hear."""
    owner.add("photos", "--log", "sync")
    here, place = owner.mounts("one"), owner.folder / "two"
    place.mkdir()
    words = ["--config", str(owner.config), "mount", "photos", str(place)]
    with subprocess.Popen([SATCHEL, *words]) as gone:
        assert eventually(lambda: os.path.ismount(place), 60)
        written = os.open(place / "file", os.O_WRONLY | os.O_CREAT)
        os.write(written, b"written")
        gone.kill()
    with suppress(OSError):  # nobody answers
        os.close(written)
    assert eventually(lambda: not os.path.ismount(place), 60)
    assert eventually(lambda: owner.status()[0]["taken_over"], 60)
    ((told,),) = [row["taken_over"] for row in owner.status()]
    assert "nothing was heard of it" in told["why"]
    assert told["seconds_ago"] < 60
    restored = told["restored"]
    assert (restored["files"], restored["blocks"], restored["failed_blocks"]) == (1, 1, 0)
    assert restored["bytes"] >= 7
    assert "nodes that home went on without" in owner.types("share", "status").stdout
    assert (here / "file").read_bytes() == b"written"
    said = (owner.folder / "state/mount.log").read_text()
    assert said.count("home went on without") == 1
    assert "its write log had 1 blocks of 1 files" in said


def test_what_an_unmount_without_home_leaves_is_told_and_recovered(owner: Owner) -> None:
    root, place = owner.add("photos"), owner.folder / "one"
    place.mkdir()
    words = ["--config", str(owner.config), "mount", "photos", str(place)]
    with subprocess.Popen([SATCHEL, *words], stderr=subprocess.PIPE, text=True) as mount:
        assert eventually(lambda: os.path.ismount(place), 60)
        written = os.open(place / "file", os.O_WRONLY | os.O_CREAT, 0o644)
        os.fsync(written)
        port = owner.sshd.port
        owner.sshd.stop()
        os.write(written, bytes(50_000))
        os.close(written)
        subprocess.run(["fusermount3", "-u", place], check=True, timeout=30)
        _, said = mount.communicate(timeout=120)
    assert mount.returncode == UnavailableError.exit_code
    assert "1 files, 50000 bytes" in said
    assert "satchel share recover photos" in said
    (row,) = owner.status()
    assert (row["mountpoint"], row["files"], row["bytes"]) == (str(place), 1, 50_000)
    assert "unmounted" in owner.types("share", "status").stdout
    owner.reach_home(port)
    recovered = owner.types("share", "recover", "photos")
    assert recovered.returncode == 0, recovered.stderr
    assert "home has 1 files, 50000 bytes" in recovered.stdout
    assert (root / "file").read_bytes() == bytes(50_000)
    assert "nothing waits" in owner.types("share", "recover").stdout


def test_what_cannot_be_mounted_is_said(owner: Owner) -> None:
    place = owner.folder / "place"
    place.mkdir()
    assert owner.types("share", "status").returncode == NotFoundError.exit_code
    nothing = owner.types("mount", str(place))
    assert nothing.returncode == NotFoundError.exit_code
    assert "home shares nothing; `satchel-home share add PATH` at home" in nothing.stderr
    owner.add("photos")
    owner.add("music")
    which = owner.types("mount", "--background", str(place))
    assert which.returncode == UsageError.exit_code
    assert "music, photos" in which.stderr
    missing = owner.types("mount", "films", str(place))
    assert missing.returncode == NotFoundError.exit_code
    assert owner.sees("share", "ls") == [{"share": "music"}, {"share": "photos"}]
    no_folder = owner.types("mount", "--background", "photos", str(owner.folder / "nowhere"))
    assert no_folder.returncode != 0
    assert not (owner.folder / "data/shares").exists() or not list(
        (owner.folder / "data/shares").iterdir()
    )


def test_mounts_are_told_of_a_task_that_goes_and_comes_back(owner: Owner) -> None:
    root = owner.add("photos")
    one, two = owner.mounts("one"), owner.mounts("two")
    with (one / "open").open("wb", buffering=0) as file:
        file.write(b"written")
        (one / "closed").write_bytes(b"also")
        rows = owner.sees("share", "offloaded", "photos", "open", "closed")
        found = {row["mountpoint"]: (row["files"], row["open"]) for row in rows}
        assert found == {str(one): (1, 1), str(two): (2, 0)}
        assert (root / "open").read_bytes() == b"written"
        assert (root / "closed").read_bytes() == b"also"
    assert {row["files"] for row in owner.sees("share", "returned")} == {2}
    assert (two / "closed").read_bytes() == b"also"
    assert owner.types("share", "offloaded", "films").returncode == NotFoundError.exit_code
    assert owner.types("share", "offloaded", "photos", "nothing").returncode != 0
