# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tree of files behind the relay of an agent: what programs do below a guest's /satchel, with the
agent as a process of this host, whose kernel asks."""

import contextlib
import fcntl
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from guestshares import (
    CallHost,
    CallKeeper,
    CallRecord,
    GuestOperations,
    GuestShares,
    MemberHost,
    ServedSession,
    ShareHost,
)
from homeserver.guests.door import CallDoor
from homeserver.shares import ShareRegistry, Shares
from replay import AgentChannel, agent_program
from satchel.ids import ReplicaId
from shares.fuse import RelayedSession
from shares.home import ShareRecord
from shares.node import Buffer, Member, Operations
from surrogate.guests import distant_keeper
from tests.conftest import requires
from tests.shares.fuse.passthrough import Passthrough
from wire import Caller

pytestmark = requires("root", "fuse")


class Guest:
    """An agent whose shares are a folder of this host's, `home`, mounted at `where`."""

    def __init__(self, folder: Path, channel: AgentChannel, host: ShareHost) -> None:
        self.where, self.home = folder / "satchel", folder / "home"
        self._port = folder / "shares"
        self._channel = channel
        self._host = host

    @contextlib.contextmanager
    def served(self) -> Iterator[GuestShares]:
        """By a session that has seen nothing of those before it."""
        shares = GuestShares.attach(self._port, self._channel, self._host)
        try:
            yield shares
        finally:
            shares.close()


class FolderHost:
    """The folder itself, through a session that is never over by itself."""

    def __init__(self, folder: Path) -> None:
        self._tree = cast(Operations, GuestOperations(Passthrough(folder)))

    def check(self) -> None: ...

    def serve(self, session: socket.socket) -> ServedSession:
        relayed = RelayedSession(self._tree, session.fileno())
        thread = threading.Thread(target=relayed.run)
        thread.start()
        stack = contextlib.ExitStack()
        stack.callback(thread.join)
        stack.callback(relayed.stop)
        return stack


@contextlib.contextmanager
def folder_host(folder: Path) -> Iterator[ShareHost]:
    yield FolderHost(folder / "home")


@contextlib.contextmanager
def member_host(folder: Path) -> Iterator[ShareHost]:
    """The folder as a share of home's, of which the guest is a node."""
    shelf = ShareRegistry(folder / "shelf")
    with contextlib.closing(Shares(shelf, folder / "s", 3.0)) as shares:
        shares.add(ShareRecord("photos", str(folder / "home")))
        call = partial(Caller, folder / "s")
        yield MemberHost(
            lambda copies: Member(call, "photos", "a-guest", Buffer(copies)), folder / "nodes"
        )


@contextlib.contextmanager
def keeper_host(folder: Path) -> Iterator[ShareHost]:
    """The same, through the keeper of a service's calls, as home's own replicas have it."""
    with member_host(folder) as members:
        keeper = CallKeeper("files", CallRecord(folder / "calls"), members.serve, lambda: 0)
        with contextlib.closing(keeper):
            yield CallHost(keeper.at_home)


@contextlib.contextmanager
def distant_host(folder: Path) -> Iterator[ShareHost]:
    """The same, through the keeper's socket, as a surrogate's: but trusted as home's are, because
    here everything is asked between operations."""
    with member_host(folder) as members:
        keeper = CallKeeper("files", CallRecord(folder / "calls"), members.serve, lambda: 0)
        keeper.elsewhere = lambda *_, **__: keeper.at_home()  # type: ignore[method-assign,assignment]
        with contextlib.closing(keeper), contextlib.closing(CallDoor(folder / "d", keeper)):
            yield CallHost(lambda: distant_keeper(folder / "d", ReplicaId("files-1")))


@pytest.fixture(params=[folder_host, member_host, keeper_host, distant_host])
def guest(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Guest]:
    (short_path / "home").mkdir()
    with request.param(short_path) as host:
        yield from agent_with_shares(short_path, host)


@pytest.fixture
def folder_guest(short_path: Path) -> Iterator[Guest]:
    (short_path / "home").mkdir()
    with folder_host(short_path) as host:
        yield from agent_with_shares(short_path, host)


def agent_with_shares(short_path: Path, host: ShareHost) -> Iterator[Guest]:
    (short_path / "satchel").mkdir()
    description = short_path / "service"
    description.write_text(f"command=exec sleep 600\nshares={short_path / 'satchel'}\n")
    argv: list[str | Path] = [agent_program(), "--no-init", "--listen", short_path / "agent"]
    argv += ["--shares", short_path / "shares", "--config", description]
    with subprocess.Popen(argv) as process:
        try:
            with AgentChannel.connect(short_path / "agent") as channel:
                channel.hello(20)
                yield Guest(short_path, channel, host)
        finally:
            process.terminate()
            process.wait(20)
            subprocess.run(["umount", "-l", short_path / "satchel"], check=False)


def test_files_and_folders_are_those_of_the_tree(guest: Guest) -> None:
    with guest.served() as shares:
        content = os.urandom(3_000_001)
        with (guest.where / "a").open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        assert (guest.home / "a").read_bytes() == content
        assert (guest.where / "a").read_bytes() == content
        (guest.where / "f").mkdir()
        (guest.where / "a").rename(guest.where / "f" / "b")
        (guest.where / "f" / "l").symlink_to("b")
        for number in range(300):
            (guest.where / "f" / f"file {number}").touch()
        assert len(list((guest.where / "f").iterdir())) == 302
        assert len(list((guest.home / "f").iterdir())) == 302
        assert (guest.where / "f" / "l").read_bytes() == content
        assert shares.failure is None


def test_nothing_is_kept_in_the_guest_that_somebody_else_may_change(
    folder_guest: Guest,
) -> None:
    """What changes here is the folder itself, of which the kernel is told nothing."""
    guest = folder_guest
    with guest.served():
        (guest.home / "a").write_bytes(b"first")
        assert (guest.where / "a").read_bytes() == b"first"
        (guest.home / "a").write_bytes(b"changed at home")
        assert (guest.where / "a").stat().st_size == 15
        assert (guest.where / "a").read_bytes() == b"changed at home"
        (guest.home / "a").unlink()
        assert not (guest.where / "a").exists()


def test_an_open_file_a_lock_and_a_half_read_folder_go_on_in_a_new_session(guest: Guest) -> None:
    for number in range(1000):
        (guest.home / f"a long name for file number {number}").touch()
    with guest.served():
        file = os.open(guest.where / "a", os.O_RDWR | os.O_CREAT)
        os.write(file, b"first ")
        fcntl.lockf(file, fcntl.LOCK_EX)
        listing = os.scandir(guest.where)
        some = [next(listing).name for _ in range(10)]
    with guest.served() as shares:
        os.write(file, b"second")
        assert os.pread(file, 100, 0) == b"first second"
        fcntl.lockf(file, fcntl.LOCK_UN)
        os.close(file)
        assert len({*some, *(entry.name for entry in listing)}) == 1001
        assert (guest.home / "a").read_bytes() == b"first second"
        assert shares.failure is None


def test_databases_and_histories_are_kept_below_the_mount(guest: Guest) -> None:
    with guest.served() as shares:
        with contextlib.closing(sqlite3.connect(guest.where / "db")) as database, database:
            database.execute("create table t (n integer)")
            database.executemany("insert into t values (?)", [(n,) for n in range(1000)])
        with contextlib.closing(sqlite3.connect(guest.home / "db")) as database:
            assert database.execute("select sum(n) from t").fetchone() == (499500,)
        git = ["git", "-C", str(guest.where / "repository"), "-c", "user.name=x"]
        git += ["-c", "user.email=x@example.org"]
        (guest.where / "repository").mkdir()
        subprocess.run([*git, "init", "-q"], check=True)
        (guest.where / "repository" / "file").write_text("content\n")
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
        subprocess.run([*git, "fsck", "--strict"], check=True)
        assert shares.failure is None


def test_files_made_in_a_guest_belong_to_the_owner_of_the_folder(guest: Guest) -> None:
    os.chown(guest.home, 1234, 1235)
    with guest.served():
        (guest.where / "a").touch()
        (guest.where / "f").mkdir()
        for path in (guest.home / "a", guest.home / "f"):
            assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
        with pytest.raises(PermissionError):
            os.chown(guest.where / "a", 0, 0)
        os.chown(guest.where / "a", 1234, -1)
