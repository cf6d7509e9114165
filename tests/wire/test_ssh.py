# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Links over a real sshd on loopback: what they carry, how they fail, what they leave."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from satchel.errors import (
    ConflictError,
    NotFoundError,
    StateError,
    UnavailableError,
    UsageError,
)
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from tests.needs import requires
from tests.waiting import eventually
from tests.wire.conftest import MAX_BODY, Desk
from tests.wire.slow_link import SlowLink
from wire import (
    HostKeyMismatch,
    HostUnreachable,
    HttpClient,
    Identity,
    Lane,
    LinkState,
    LocalProtocolError,
    PeerUnreachable,
    Server,
    SshHost,
    SshLink,
    WrongKey,
)

pytestmark = requires("ssh", "sshd")


@pytest.fixture
def link(host: SshHost, short_path: Path) -> Iterator[SshLink]:
    with SshLink.open(host) as link:
        yield link


@pytest.fixture
def carried(link: SshLink, server: Server, short_path: Path) -> Iterator[HttpClient]:
    link.reach(short_path / "near", DESK)
    with HttpClient(short_path / "near", peer="the desk") as client:
        yield client


DESK = "desk"
"""The stream to the server."""

TOKEN = "0123456789abcdef"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def through(slow: SlowLink, host: SshHost) -> SshHost:
    """The same host at the other end of a slow link."""
    known = f"HostKeyAlias=[127.0.0.1]:{host.port}"
    return replace(host, port=slow.port, options=(known,))


def test_errors_survive_the_trip(carried: HttpClient) -> None:
    with pytest.raises(ConflictError) as caught:
        carried.get_json("/error/conflict")
    assert (caught.value.what, caught.value.why) == ("no beer", "dry")
    with pytest.raises(UsageError, match="413"):
        carried.post_bytes("/echo", bytes(MAX_BODY + 1))
    assert carried.post_bytes("/echo", b"next") == b"next"


def test_many_connections_share_a_link(carried: HttpClient) -> None:
    def call(number: int) -> bool:
        body = bytes([number]) * 300_000
        return all(carried.post_bytes("/echo", body) == body for _ in range(5))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(16)))


def test_a_key_that_is_not_authorized(host: SshHost, short_path: Path) -> None:
    other = Identity.create(short_path / "other")
    with pytest.raises(WrongKey, match="cannot connect to home") as caught:
        SshLink.open(replace(host, identity=other.path))
    assert str(other.path) in caught.value.why
    assert "authorized_keys" in caught.value.fix


def test_a_key_is_accepted_once_it_is_authorized(
    host: SshHost, sshd: Sshd, short_path: Path
) -> None:
    other = Identity.create(short_path / "other")
    with pytest.raises(WrongKey):
        SshLink.open(replace(host, identity=other.path))
    sshd.authorize(other.public)
    with SshLink.open(replace(host, identity=other.path)) as link:
        assert link.alive()


def test_a_host_whose_key_changed(host: SshHost, sshd: Sshd, short_path: Path) -> None:
    line = sshd.known_hosts_line.split()
    line[2] = Identity.create(short_path / "other").public.split()[1]
    host.known_hosts.write_text(" ".join(line) + "\n")
    with pytest.raises(HostKeyMismatch, match="another host key") as caught:
        SshLink.open(host)
    assert "replace its line" in caught.value.fix


def test_a_host_that_is_not_known(host: SshHost, short_path: Path) -> None:
    host.known_hosts.write_text("")
    with pytest.raises(HostKeyMismatch, match="has no key for"):
        SshLink.open(host)


def test_no_sshd_there(host: SshHost, sshd: Sshd, short_path: Path) -> None:
    sshd.stop()
    with pytest.raises(HostUnreachable, match="Connection refused"):
        SshLink.open(host)


def test_a_name_that_does_not_resolve(host: SshHost, short_path: Path) -> None:
    with pytest.raises(HostUnreachable):
        SshLink.open(replace(host, destination="me@host.invalid"))


def test_a_host_that_says_nothing(host: SshHost, short_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = replace(host, port=silent.getsockname()[1])
        began = time.monotonic()
        with pytest.raises(HostUnreachable):
            SshLink.open(mute, timeout=1.0)
        assert time.monotonic() - began < 60


def test_a_host_where_nothing_answers_is_told_from_one_that_is_slow(
    host: SshHost, short_path: Path
) -> None:
    """A kernel whose queue of connections is full drops what comes, and says nothing."""
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        silent = replace(host, port=full.getsockname()[1])
        with pytest.raises(HostUnreachable, match="nothing answers there"):
            SshLink.open(silent, timeout=60.0)


def test_a_door_that_is_late_is_waited_for_as_long_as_the_caller_says(
    me: Identity, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wire.link.ssh.HELLO_SECONDS", 1.0)
    late = ["sh", "-c", 'sleep 4; exec "$@"', "-", *plain_door(short_path)]
    with Sshd.start(short_path / "late", authorized=[me.public], door=late) as sshd:
        host = sshd.host("late", me.path, short_path / "known_late")
        with SshLink.open(host, timeout=60.0) as link:
            assert link.alive()
        with pytest.raises(HostUnreachable):
            SshLink.open(host, timeout=2.0)


def test_a_key_file_that_is_not_there(host: SshHost, short_path: Path) -> None:
    with pytest.raises(NotFoundError, match="none"):
        SshLink.open(replace(host, identity=short_path / "none"))


@pytest.mark.parametrize("destination", ["-oProxyCommand=x", "a b", "", "a@-x", "a@b;c"])
def test_a_destination_is_no_option(host: SshHost, destination: str) -> None:
    with pytest.raises(LocalProtocolError):
        replace(host, destination=destination)


def test_a_socket_that_answers_is_not_replaced(
    link: SshLink, server: Server, client: HttpClient
) -> None:
    with pytest.raises(ConflictError):
        link.reach(server.path, DESK)
    assert client.post_bytes("/echo", b"x") == b"x"


def test_sshd_killed_in_the_middle_of_a_transfer(
    link: SshLink, carried: HttpClient, sshd: Sshd, server: Server, short_path: Path
) -> None:
    pieces = carried.post_stream("/pieces", b"ab")
    assert next(pieces) == b"a"
    sshd.stop()
    with pytest.raises(PeerUnreachable, match="broke off"):
        next(pieces)
    assert eventually(lambda: link.state is LinkState.BROKEN)
    with pytest.raises(PeerUnreachable):
        carried.post_bytes("/echo", b"x")
    with pytest.raises(HostUnreachable, match="connect again"):
        link.reach(short_path / "late", DESK)
    with pytest.raises(HostUnreachable):
        link.offer({TOKEN: server.path})


def test_a_path_that_goes_silent_breaks_the_link(
    host: SshHost, server: Server, short_path: Path
) -> None:
    with (
        SlowLink(host.port) as slow,
        SshLink.open(through(slow, host), keep_alive=3.0) as link,
    ):
        link.reach(short_path / "near", DESK)
        with HttpClient(short_path / "near") as client:
            slow.freeze()
            began = time.monotonic()
            with pytest.raises(PeerUnreachable):
                client.get_json("/wait", timeout=None)
            assert time.monotonic() - began < 100
        assert eventually(lambda: link.state is LinkState.BROKEN)


def test_a_long_round_trip_does_not_limit_a_stream(
    host: SshHost, server: Server, desk: Desk, short_path: Path
) -> None:
    with (
        SlowLink(host.port, delay=0.030) as slow,
        SshLink.open(through(slow, host)) as link,
    ):
        link.reach(short_path / "near", DESK)
        with HttpClient(short_path / "near") as client, ThreadPoolExecutor(1) as pool:
            running = pool.submit(client.get_bytes, "/stream")
            assert desk.entered.acquire(timeout=60)
            slow.freeze()
            desk.go.set()
            try:  # what is sent ahead, over the round trip, is the most that a second carries
                assert eventually(lambda: slow.under_way > 8e6 * 0.060), slow.under_way
            finally:
                slow.thaw()
            assert len(running.result(60)) == 5 + 400 * 65536


def test_lanes_are_connections_of_their_own(
    host: SshHost, server: Server, sshd: Sshd, short_path: Path
) -> None:
    with (
        SshLink.open(host, lane=Lane.OPERATIONS) as operations,
        SshLink.open(host, lane=Lane.BULK) as bulk,
    ):
        assert eventually(lambda: len(sshd.sessions()) == 2)
        operations.reach(short_path / "near", DESK)
        bulk.close()
        with HttpClient(short_path / "near") as client:
            assert client.post_bytes("/echo", b"x") == b"x"


def test_a_connection_that_is_gone_is_not_waited_for(
    host: SshHost, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a walk ssh had up to a second to take leave of a host that could not hear it."""
    monkeypatch.setattr("wire.link.openssh.KILL_SECONDS", 1000.0)
    link = SshLink.open(host)
    assert eventually(lambda: len(children("ssh")) == 1)  # what quickens it has ended
    (master,) = children("ssh")
    os.kill(master, signal.SIGSTOP)
    link.close(gone=True)
    assert not Path(f"/proc/{master}").exists()


def test_close_after_a_failed_start_leaves_nothing(
    host: SshHost, sshd: Sshd, short_path: Path
) -> None:
    before = names(short_path)
    host.known_hosts.write_text("")
    with pytest.raises(HostKeyMismatch):
        SshLink.open(host)
    assert names(short_path) == before
    assert eventually(lambda: not sshd.sessions())
    assert not children("ssh")


def test_ssh_ends_with_a_program_that_is_killed(
    host: SshHost, sshd: Sshd, short_path: Path
) -> None:
    code = (
        "import sys, time; from pathlib import Path; from wire import SshHost, SshLink\n"
        f"host = SshHost('home', {host.destination!r}, Path({str(host.identity)!r}), "
        f"Path({str(host.known_hosts)!r}), {host.port})\n"
        f"link = SshLink.open(host)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    assert eventually(lambda: len(sshd.sessions()) == 1)
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    assert eventually(lambda: not sshd.sessions())


def test_streams_go_both_ways(host: SshHost, server: Server, short_path: Path, sshd: Sshd) -> None:
    near = short_path / "near"
    with SshLink.open(host) as link:
        assert link.alive()
        link.reach(near, DESK)
        back = Path(link.offer({TOKEN: server.path})[TOKEN])
        for path in (near, back):
            assert path.stat().st_mode & 0o777 == 0o600
            with HttpClient(path) as client:
                body = os.urandom(5 << 20)
                assert client.post_bytes("/echo", body) == body
        assert len(sshd.sessions()) == 1
    assert link.state is LinkState.CLOSED
    assert not near.exists()
    assert eventually(lambda: not back.exists())


def test_nobody_behind_a_stream_is_unreachable(link: SshLink, short_path: Path) -> None:
    near = short_path / "near"
    link.reach(near, "nobody")
    back = Path(link.offer({TOKEN: short_path / "nobody"})[TOKEN])
    for path in (near, back):
        with HttpClient(path) as client, pytest.raises(PeerUnreachable):
            client.get_json("/x")
    assert link.alive()


def test_what_is_offered_twice_is_refused(link: SshLink, server: Server) -> None:
    link.offer({TOKEN: server.path})
    with pytest.raises(UnavailableError, match="refuses"):
        link.offer({TOKEN: server.path})
    assert link.alive()


def test_what_is_offered_again_is_there_while_the_old_door_may_be(
    link: SshLink, host: SshHost, server: Server
) -> None:
    """After a walk: the old door hears of it later, and leaves the new socket alone."""
    before = link.offer({TOKEN: server.path})
    with SshLink.open(host, lane=Lane.BULK) as second:
        assert second.offer({TOKEN: server.path}) == before
        link.close()
        with HttpClient(Path(before[TOKEN])) as client:
            assert client.post_bytes("/echo", b"x") == b"x"


def test_sockets_of_a_door_that_was_killed_are_made_again(
    link: SshLink, host: SshHost, server: Server, sshd: Sshd
) -> None:
    before = link.offer({TOKEN: server.path})
    sshd.drop_sessions()
    with SshLink.open(host) as second:
        assert second.offer({TOKEN: server.path}) == before
        with HttpClient(Path(before[TOKEN])) as client:
            assert client.post_bytes("/echo", b"x") == b"x"


def test_a_host_where_something_else_runs_has_no_door(me: Identity, short_path: Path) -> None:
    """A shell, for example, or a program that prints."""
    for command in (["false"], ["echo", "welcome"], ["yes"]):
        with Sshd.start(short_path / "other", authorized=[me.public], door=command) as other:
            host = other.host("other", me.path, short_path / "known_too")
            with pytest.raises(HostUnreachable, match="no door answers there"):
                SshLink.open(host)
            assert eventually(lambda: not other.sessions())


def test_close_leaves_no_process_and_no_socket(
    host: SshHost, server: Server, sshd: Sshd, short_path: Path
) -> None:
    (short_path / "offered").mkdir()
    before, threads = names(short_path), threading.active_count()
    link = SshLink.open(host)
    link.reach(short_path / "near", DESK)
    link.offer({TOKEN: server.path})
    link.close()
    link.close()
    assert names(short_path) == before
    assert eventually(lambda: not names(short_path / "offered"))
    assert eventually(lambda: not sshd.sessions())
    assert not children("ssh")
    assert eventually(lambda: threading.active_count() <= threads)
    with pytest.raises(StateError, match="closed"):
        link.reach(short_path / "late", DESK)


def test_a_stream_that_nobody_reads_holds_up_no_other(
    link: SshLink, server: Server, desk: Desk, short_path: Path
) -> None:
    near = short_path / "near"
    link.reach(near, DESK)
    desk.go.set()
    with socket.socket(socket.AF_UNIX) as lazy, HttpClient(near) as client:
        lazy.connect(str(near))
        lazy.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(20):
            assert client.post_bytes("/echo", bytes(1 << 20)) == bytes(1 << 20)
        assert not desk.closed.is_set()
    assert eventually(desk.closed.is_set)


def children(name: str) -> list[int]:
    """Children of this process of that name."""
    argv = ["ps", "--ppid", str(os.getpid()), "-o", "pid=,comm="]
    lines = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if line.split()[1] == name]
