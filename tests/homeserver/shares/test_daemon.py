# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares of the real `satchel-home`: its commands, nodes that reach it over OpenSSH, its sudden
end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from satchel.paths import SHARE_SOCKET
from shares.node import ROOT, Buffer, Membership, Node
from shares.protocol import BLOCK
from testbed.sshd import Sshd
from tests.doors import door_of
from tests.homeserver.program import Program
from tests.needs import requires
from tests.waiting import eventually
from wire import Caller, Identity, Links

UID, GID = os.getuid(), os.getgid()


class Daemon:
    def __init__(self, folder: Path) -> None:
        self.program = Program(folder)
        self.run = folder / "run" / "satchel" / "home"
        self.shared = folder / "photos"
        self.shared.mkdir()
        (folder / "config/satchel").mkdir(parents=True)
        settings = "share-lease-seconds = 2.0\n"
        (folder / "config/satchel/home.toml").write_text(settings)
        assert self.program.run("init").returncode == 0
        self.begin()

    def begin(self) -> None:
        self.process: subprocess.Popen[str] = self.program.start("serve")
        assert eventually((self.run / "home.sock").exists, 60)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(60)


@pytest.fixture
def daemon(short_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(short_path)
    yield daemon
    if daemon.process.poll() is None:
        daemon.end()
    assert not (daemon.run / SHARE_SOCKET).exists()


def test_a_share_is_added_listed_and_removed(daemon: Daemon) -> None:
    program = daemon.program
    assert program.json("share", "ls") == []
    assert program.json("share", "add", daemon.shared, "--log", "sync") == {"added": "photos"}
    wanted = {
        "name": "photos",
        "path": str(daemon.shared),
        "policy": "delayed-update",
        "relaxation": 0.0,
        "log": "sync",
        "rules": [],
        "nodes": 0,
    }
    assert program.json("share", "ls") == [wanted]
    assert program.fails(5, "share", "add", daemon.shared)["code"] == "conflict"
    bad = program.fails(2, "share", "add", daemon.shared, "--name", "x", "--policy", "none")
    assert "delayed-update" in bad["why"]
    program.fails(3, "share", "status", "nothing")
    (status,) = program.json("share", "status")
    assert status["log"]["records"] == 0 and status["nodes"][0]["name"] == "home"
    told = program.run("share", "status", "photos")
    assert told.returncode == 0 and "delayed-update" in told.stdout
    mode = (daemon.run / SHARE_SOCKET).stat().st_mode
    assert mode & 0o777 == 0o600
    daemon.end()
    daemon.begin()
    assert program.json("share", "ls") == [wanted]
    assert program.json("share", "rm", "photos") == {"removed": "photos"}
    assert program.json("share", "ls") == [] and daemon.shared.is_dir()


def test_some_files_of_a_share_have_terms_of_their_own(daemon: Daemon) -> None:
    program = daemon.program
    program.json("share", "add", daemon.shared)
    program.json("share", "set", "photos", "--policy", "write-invalidate")
    found = program.json("share", "set", "photos", "--path", "cache/*", "--relaxation", "2")
    rule = {"glob": "cache/*", "policy": None, "relaxation": 2.0, "mark": None}
    assert (found["policy"], found["rules"]) == ("write-invalidate", [rule])
    daemon.end()
    daemon.begin()
    (share,) = program.json("share", "ls")
    assert (share["policy"], share["rules"]) == ("write-invalidate", [rule])
    assert "cache/*" in program.run("share", "status").stdout
    program.fails(2, "share", "set", "photos", "--path", "cache/*")
    program.fails(2, "share", "set", "photos", "--path", "cache/*", "--relaxation", "-1")
    program.fails(3, "share", "set", "photos", "--path", "other", "--forget")
    assert program.json("share", "set", "photos", "--path", "cache/*", "--forget")["rules"] == []


def node(socket: Path, folder: Path, name: str) -> tuple[Membership, Node]:
    membership = Membership(partial(Caller, socket), "photos", name)
    return membership, Node(membership.join(60), Buffer(folder / name, 1 << 24), 30.0)


def test_home_that_is_killed_has_what_it_acknowledged_as_synced(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.program.json("share", "add", daemon.shared)
    membership, one = node(daemon.run / SHARE_SOCKET, tmp_path, "one")
    entry, handle = one.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
    content = os.urandom(20 * BLOCK)
    one.write(handle.number, 0, content)
    one.sync(handle.number, False)
    daemon.end(signal.SIGKILL)
    assert (daemon.shared / "file").read_bytes() == content
    membership.close()
    one.close()
    daemon.begin()
    membership, again = node(daemon.run / SHARE_SOCKET, tmp_path, "two")
    found = again.lookup(ROOT, b"file").attributes
    assert found.file == entry.attributes.file  # ids outlast it
    assert again.read(again.open(found.file, os.O_RDONLY).number, 0, 1 << 20) == content
    (status,) = daemon.program.json("share", "status")
    assert [each["name"] for each in status["nodes"]] == ["home", "two"]
    again.close()
    membership.close()


@requires("fuse")
def test_home_mounts_a_share_of_its_own(daemon: Daemon, tmp_path: Path) -> None:
    program, place = daemon.program, tmp_path / "mounted"
    place.mkdir()
    refused = program.run("share", "mount", "nothing", place)
    assert refused.returncode == 3 and "no share nothing" in refused.stderr
    program.json("share", "add", daemon.shared)
    (daemon.shared / "folder").mkdir()
    inside = program.run("share", "mount", "photos", daemon.shared / "folder")
    assert inside.returncode == 5 and "in the share" in inside.stderr
    made = program.run("share", "mount", "--background", "photos", place)
    assert made.returncode == 0, made.stderr
    try:
        twice = program.run("share", "mount", "--background", "photos", place)
        assert twice.returncode == 5 and "already" in twice.stderr
        membership, one = node(daemon.run / SHARE_SOCKET, tmp_path, "one")
        entry, handle = one.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
        one.write(handle.number, 0, b"by a node")
        assert (place / "file").read_bytes() == b"by a node"
        with (place / "file").open("r+b", buffering=0) as file:
            file.write(b"at home, ")
            assert one.read(handle.number, 0, 99) == b"at home, "
        assert one.attributes(entry.attributes.file, None).size == 9
        one.close()
        membership.close()
    finally:
        subprocess.run(["fusermount3", "-u", place], check=True)
    nodes = partial(program.json, "share", "status")
    assert eventually(lambda: len(nodes()[0]["nodes"]) == 1, 30)
    assert (daemon.shared / "file").read_bytes() == b"at home, "


@requires("ssh", "sshd")
def test_a_client_reaches_the_shares_over_a_connection_that_is_made_again(
    daemon: Daemon, short_path: Path, tmp_path: Path
) -> None:
    daemon.program.json("share", "add", daemon.shared)
    (daemon.shared / "file").write_bytes(b"from home")
    key = Identity.create(short_path / "me")
    door = door_of("satchel-home", daemon.run)
    with Sshd.start(short_path / "sshd", authorized=[key.public], door=door) as sshd:
        home = sshd.peer("home", key.path, short_path / "known")
        with Links(short_path / "l") as links:
            link = links.open("home", home)
            here = link.reach("shares")
            membership, member = node(here, tmp_path, "mobile")
            file = member.lookup(ROOT, b"file").attributes.file
            assert member.read(member.open(file, os.O_RDONLY).number, 0, 99) == b"from home"
            assert link._ssh
            link._ssh.close(gone=True)
            link.want()
            assert eventually(lambda: link.alive, 30)
            assert member.attributes(file, None).size == 9
            member.close()
            membership.close()
