# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A running testbed: distances, moving, processes."""

import contextlib
import socket
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import NotFoundError, StateError
from testbed import Counters, Host, Testbed, measure, namespaces
from testbed.sshd import Sshd
from tests.needs import requires
from tests.waiting import eventually
from wire import Identity

pytestmark = [pytest.mark.netns, requires("netns", "tun")]


def round_trip(one: Host, other: Host) -> float:
    there = measure.delays(one, other, count=7)
    back = measure.delays(other, one, count=7)
    return statistics.median(there) + statistics.median(back)


@contextlib.contextmanager
def connection(client: Host, server: Host) -> Iterator[tuple[socket.socket, socket.socket]]:
    """An open TCP connection: (the client's socket, the server's)."""
    with server.socket(socket.SOCK_STREAM) as door, client.socket(socket.SOCK_STREAM) as outer:
        door.bind((server.address, 0))
        door.listen()
        outer.settimeout(60)
        outer.connect(door.getsockname())
        inner, _ = door.accept()
        inner.settimeout(60)
        with inner:
            yield outer, inner


def test_distances_are_those_of_the_profile(bed: Testbed) -> None:
    internet, wifi = bed.topology.profile.internet_rtt, bed.topology.profile.wifi_rtt
    distances = [
        (bed.client, bed.host("home"), internet + wifi),
        (bed.client, bed.host("surrogate-a"), wifi),
        (bed.client, bed.host("surrogate-b"), internet + wifi),
        (bed.host("surrogate-b"), bed.host("home"), internet),
        (bed.host("surrogate-a"), bed.host("surrogate-b"), internet),
    ]
    for one, other, expected in distances:
        measured = [round_trip(one, other)]
        while min(measured) > expected * 1.05 + 0.001 and len(measured) < 20:
            measured.append(round_trip(one, other))  # this machine had something else to do
        assert expected <= min(measured) <= expected * 1.05 + 0.001, f"{one.name} to {other.name}"


def test_bytes_are_counted_on_every_link_of_the_way(bed: Testbed) -> None:
    measure.datagrams(bed.client, bed.host("home"), 10, size=500)
    measure.datagrams(bed.host("home"), bed.host("surrogate-b"), 4, size=200)
    counters = bed.counters()
    assert counters["wifi-a"] == {"up": Counters(10, 5000), "down": Counters()}
    assert counters["hotspot-a"] == {"up": Counters(10, 5000), "down": Counters()}
    assert counters["home"] == {"up": Counters(4, 800), "down": Counters(10, 5000)}
    assert counters["hotspot-b"] == {"up": Counters(), "down": Counters(4, 800)}
    assert counters["surrogate-b"]["down"].bytes >= 800


def test_a_move_is_a_new_link_with_a_new_address(bed: Testbed) -> None:
    measure.datagrams(bed.client, bed.host("home"), 3, size=100)
    old = bed.client.address
    bed.client.move("b")
    assert bed.client.hotspot == "b"
    assert bed.client.address != old
    measure.datagrams(bed.client, bed.host("home"), 5, size=100)
    counters = bed.counters()
    assert counters["wifi-a"]["up"].packets == 3
    assert counters["wifi-b"]["up"].packets == 5
    bed.client.move("a")
    assert bed.client.address == old
    measure.datagrams(bed.client, bed.host("home"), 2, size=100)
    assert bed.counters()["wifi-a"]["up"].packets == 5


def test_an_old_connection_hears_nothing_after_a_move(bed: Testbed) -> None:
    with connection(bed.client, bed.host("home")) as (outer, inner):
        outer.sendall(b"before")
        assert inner.recv(16) == b"before"
        bed.client.move("b")
        outer.sendall(b"after")
        inner.settimeout(1.0)
        with pytest.raises(TimeoutError):
            inner.recv(16)
        assert bed.counters()["wifi-b"]["down"].packets == 0
    with connection(bed.client, bed.host("home")) as (outer, inner):
        outer.sendall(b"anew")
        assert inner.recv(16) == b"anew"


def test_between_hotspots_the_client_has_no_address(bed: Testbed) -> None:
    bed.client.leave()
    with pytest.raises(StateError, match="at no hotspot"):
        _ = bed.client.address
    with bed.client.socket(socket.SOCK_DGRAM) as outer, pytest.raises(OSError, match="unreach"):
        outer.sendto(b"x", (bed.host("home").address, 9))
    bed.client.leave()
    bed.client.join("b")
    with pytest.raises(StateError, match="still at b"):
        bed.client.join("a")


def test_a_move_to_nowhere_leaves_the_client_where_it_is(bed: Testbed) -> None:
    with pytest.raises(NotFoundError):
        bed.client.move("z")
    assert bed.client.hotspot == "a"
    assert len(measure.datagrams(bed.client, bed.host("home"), 2)) == 2


def test_a_wire_can_be_cut_and_restored(bed: Testbed) -> None:
    wire = bed.link("surrogate-a")
    wire.cut()
    assert not measure.datagrams(bed.client, bed.host("surrogate-a"), 2)
    wire.restore()
    assert len(measure.datagrams(bed.client, bed.host("surrogate-a"), 2)) == 2


def test_a_program_runs_on_its_host_and_writes_its_log(bed: Testbed, tmp_path: Path) -> None:
    log = tmp_path / "log"
    show = ["ip", "-brief", "address", "show", "inet0"]
    assert bed.host("home").popen(show, log=log).wait(60) == 0
    assert bed.host("home").address in log.read_text()
    assert bed.host("home").address in bed.host("home").run(show).stdout
    assert bed.host("hotspot-a").run(["false"]).returncode == 1


def test_a_process_keeps_its_pid(bed: Testbed, tmp_path: Path) -> None:
    process = bed.host("home").popen(["sh", "-c", "echo $$; sleep 60"], log=tmp_path / "log")
    wait_for_text(tmp_path / "log", "\n")
    assert int((tmp_path / "log").read_text()) == process.pid


def test_a_crash_ends_everything_on_the_host_at_once(bed: Testbed, tmp_path: Path) -> None:
    host = bed.host("surrogate-b")
    script = "trap '' TERM; setsid sleep 60 & echo up; wait"
    process = host.popen(["sh", "-c", script], log=tmp_path / "log")
    other = bed.host("surrogate-a").popen(["sleep", "60"], log=tmp_path / "other")
    wait_for_text(tmp_path / "log", "up")
    host.crash()
    assert process.returncode == -9
    assert not namespaces.processes([host.namespace])
    assert other.poll() is None


def test_unknown_hosts_and_links_are_named_with_those_that_are(bed: Testbed) -> None:
    with pytest.raises(NotFoundError, match="no host moon; there are home, internet"):
        bed.host("moon")
    with pytest.raises(NotFoundError, match="no link wifi-b; there are home"):
        bed.link("wifi-b")


def wait_for_text(path: Path, text: str) -> None:
    assert eventually(lambda: text in path.read_text())


@requires("sshd", "ssh")
def test_a_host_is_reached_by_ssh_with_its_own_key_only(bed: Testbed, tmp_path: Path) -> None:
    home, key = bed.host("home"), Identity.create(tmp_path / "key")
    place: dict[str, Any] = {"address": home.address, "port": 22, "prefix": home.prefix}
    server = Sshd.start(tmp_path / "sshd", authorized=[key.public], **place)
    known = tmp_path / "known_hosts"
    known.write_text(server.known_hosts_line + "\n")
    options = [f"-oUserKnownHostsFile={known}", "-oBatchMode=yes", "-F/dev/null"]
    ssh = ["ssh", *options, f"{server.user}@{home.address}"]
    ran = bed.client.run([*ssh, "-i", key.path, "ip", "-brief", "address"])
    assert home.address in ran.stdout, ran.stderr
    other = Identity.create(tmp_path / "other")
    assert "Permission denied" in bed.client.run([*ssh, "-i", other.path, "true"]).stderr
    home.crash()
    assert not server.alive()
    server.stop()
