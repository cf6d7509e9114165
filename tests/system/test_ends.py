# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever ends or does not even begin, nothing is left of it: no process, mount, socket. That
nothing is left of a whole site is looked at after every test (see conftest)."""

import signal
import socket
from pathlib import Path

import pytest

from testbed.roles import Role
from tests.system.needs import WHOLE
from tests.system.site import (
    Site,
    end,
    machines_at,
    mounts_below,
    processes_at,
    said_by,
    sockets_below,
)
from tests.waiting import eventually

pytestmark = WHOLE

INTERRUPTED = 130

ENDED = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 0}
"""The exit code of what runs until it is ended, by the signal."""


def left_of(site: Site, role: Role) -> list[str]:
    """What is left of a daemon that has ended, once that had time to end: its sshd aside, and the
    doors that sshd opened, which end with the client's links."""
    eventually(lambda: not _there_of(site, role))
    return _there_of(site, role)


def _there_of(site: Site, role: Role) -> list[str]:
    here = processes_at(site.bed, role.host.name)
    found = [line for line in here if "sshd" not in line and not line.endswith(" door ")]
    found += mounts_below(role.folder)
    return found + [path for path in sockets_below(role.run_dir) if "/run/f/" not in path]


@pytest.mark.parametrize("how", ["stop", "SIGINT", "SIGTERM"])
def test_a_session_ends(site: Site, how: str) -> None:
    process = site.run("--media", site.media, "--at", "a")
    assert eventually(lambda: site.states().get("a") == "joined")
    site.adds(site.port(), "a note")
    if how == "stop":
        assert site.sees("stop", "notes") == {"stopped": "notes"}
        assert process.wait(10) == 0
    else:
        assert end(process, number := signal.Signals[how]) == ENDED[number]
    assert site.left_by_sessions() == []
    assert site.replicas_at("a") == []
    assert site.at_home()["client"] is None


def test_a_session_is_interrupted_while_a_replica_comes_up(site: Site) -> None:
    process = site.run("--media", site.media, "--at", "a")
    assert eventually(lambda: machines_at(site.bed, "surrogate-a"))
    assert end(process, signal.SIGINT) == INTERRUPTED
    assert site.left_by_sessions() == []
    assert site.at_home()["client"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["home", "a"])
def test_a_daemon_ends_while_its_machine_is_used(
    site: Site, name: str, number: signal.Signals
) -> None:
    site.run("--media", site.media, "--at", "a")
    assert eventually(lambda: site.states().get("a") == "joined")
    role = site.home if name == "home" else site.spots[name]
    assert machines_at(site.bed, role.host.name)
    assert role.end(number) == ENDED[number]
    assert left_of(site, role) == []
    site.adds(site.port(), "the other one answers")


def test_a_daemon_s_data_folder_cannot_be_used(parts: Site) -> None:
    for role in (parts.home, parts.spots["a"]):
        text = role.config.read_text()
        (role.folder / "file").write_text("")
        role.config.write_text(text.replace(f'"{role.folder}/data"', f'"{role.folder}/file/x"'))
        said = said_by(role.host.run(role.argv("serve")))
        assert said.code != 0
        assert str(role.folder / "file") in said.line
        assert left_of(parts, role) == []
        role.config.write_text(text)


def test_a_daemon_that_runs_already(site: Site) -> None:
    for role in (site.home, site.spots["a"]):
        said = said_by(role.host.run(role.argv("serve")))
        assert said.code == 5
        assert str(role.pid) in said.line or "home.sock" in said.line  # which one that is
    site.run("--media", site.media, "--at", "a")
    assert eventually(lambda: site.states().get("a") == "joined")


def test_a_port_that_is_taken(site: Site) -> None:
    with site.bed.client.socket(socket.SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = site.fails("run", "notes", "--media", site.media, "--port", str(port))
    assert said.code == 5
    assert str(port) in said.line
    assert site.left_by_sessions() == []
    assert site.at_home()["client"] is None
    site.run_with_media()


def manifest_of(site: Site) -> Path:
    (path,) = (site.stick.root / "satchel" / "checkpoints").glob("notes-*.json")
    return path


def test_a_checkpoint_that_is_broken(site: Site) -> None:
    """On the stick: home's is used. Without home there is nothing to go on from."""
    manifest = manifest_of(site)
    data = bytearray(manifest.read_bytes())
    data[len(data) // 2] ^= 1
    manifest.write_bytes(data)
    site.cut_home(silent=False)
    said = site.fails("run", "notes", "--media", site.media)
    assert said.code == 6
    assert "is of no use" in said.line
    assert site.left_by_sessions() == []
    site.mend_home()
    site.run_with_media()
    assert "is of no use" in site.said
    site.move("a")
    site.adds(site.port(), "from home's checkpoint")


def test_a_checkpoint_that_no_host_here_can_run(site: Site) -> None:
    """Its owner signed it; its machine needs what neither QEMU nor CPU here have."""
    for change, lack in (
        ({"machine_type": "pc-q35-99.9"}, "pc-q35-99.9"),
        ({"cpu_model": "Cray1-v1"}, "Cray1-v1"),
    ):
        site.sign_anew(manifest_of(site), change)
        process = site.run_with_media()
        said = site.fails("move", "notes", "--to", "a")
        assert said.code == 10, said
        assert lack in said.line
        assert site.replicas_at("a") == []
        assert machines_at(site.bed, "surrogate-a") == []
        assert end(process, signal.SIGTERM) == 0
    said = site.fails("run", "notes", "--media", site.media, "--at", "a")
    assert said.code == 10
    assert site.left_by_sessions() == []
    assert site.at_home()["client"] is None
