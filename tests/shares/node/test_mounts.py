# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two mounts of one share: real kernels' calls, unmodified programs."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from homeserver.shares import ShareRegistry, Shares
from satchel.errors import NotFoundError
from shares.home import ShareRecord
from shares.mount import MountedShare
from tests.leftovers import SHORT_PREFIX
from tests.needs import requires
from tests.shares.node.mounted import SHARE, MountProcess
from tests.waiting import eventually
from wire import Caller

pytestmark = requires("fuse")

PROGRAM_SECONDS = 120
LEASE = 2.0


class Mounts:
    """A home of one share, and mounts of it, each with a process of its own."""

    def __init__(self, folder: Path, short: Path) -> None:
        self.folder, self.socket = folder, short / "s"
        self.root = folder / "root"
        self.root.mkdir()
        self.shares = Shares(ShareRegistry(folder / "shares"), self.socket, LEASE)
        self.shares.add(ShareRecord(SHARE, str(self.root)))
        self.processes: list[MountProcess] = []

    def mount(self, wait: float = 20.0) -> Path:
        place = self.folder / f"mount{len(self.processes)}"
        self.processes.append(MountProcess(self.socket, place, self.folder / "cache", wait))
        return place

    def close(self) -> None:
        for process in self.processes:
            process.close()
        self.shares.close()


@pytest.fixture
def world(tmp_path: Path, short_path: Path) -> Iterator[Mounts]:
    world = Mounts(tmp_path, short_path)
    yield world
    world.close()


@pytest.fixture
def pair(world: Mounts) -> list[Path]:
    """Two mounts of the test's own."""
    return [world.mount(), world.mount()]


@pytest.fixture(scope="module")
def staying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Two mounts for all tests that end none."""
    with tempfile.TemporaryDirectory(prefix=SHORT_PREFIX) as short:
        world = Mounts(tmp_path_factory.mktemp("staying"), Path(short))
        yield [world.mount(), world.mount()]
        world.close()


@pytest.fixture
def mounts(staying: list[Path], request: pytest.FixtureRequest) -> list[Path]:
    """A folder of the test's own, at two mounts."""
    name = request.node.name
    (staying[0] / name).mkdir()
    return [place / name for place in staying]


def run(place: Path, command: str) -> str:
    """What a shell command says, run in that folder."""
    done = subprocess.run(
        ["sh", "-e", "-c", f"cd {place}\n{command}"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_mountpoint_that_is_not_there_is_said(world: Mounts) -> None:
    place = world.folder / "nowhere"
    with pytest.raises(NotFoundError, match=f"no folder {place} to mount at; mkdir"):
        MountedShare(partial(Caller, world.socket), SHARE, "node", place, world.folder / "cache")
    assert not (world.folder / "cache").exists()


def test_bytes_and_sizes_are_seen_at_once(mounts: list[Path]) -> None:
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"first")
    assert two.read_bytes() == b"first"
    with one.open("r+b", buffering=0) as writer, two.open("rb", buffering=0) as reader:
        for turn in range(20):
            content = random.Random(turn).randbytes(1000 * turn + 5)
            writer.seek(0)
            writer.write(content)
            assert os.fstat(reader.fileno()).st_size == len(content)
            assert two.stat().st_size == len(content)
            reader.seek(0)
            assert reader.read() == content


def test_names_are_seen_at_once(mounts: list[Path]) -> None:
    one, two = mounts
    for turn in range(10):
        name = f"name{turn}"
        assert not (two / name).exists()
        (one / name).mkdir()
        assert (two / name).is_dir()
        (two / name).rename(two / f"{name}.new")
        assert not (one / name).exists()
        (one / f"{name}.new").rmdir()
        assert not list(two.iterdir())
    (one / "a").write_text("a")
    (two / "b").symlink_to("a")
    assert (one / "b").read_text() == "a"
    os.link(one / "a", one / "c")
    assert (two / "a").stat().st_nlink == 2
    (two / "a").chmod(0o600)
    assert (one / "c").stat().st_mode & 0o777 == 0o600
    (two / "a").unlink()
    assert (one / "c").stat().st_nlink == 1


def test_an_open_file_without_a_name_is_still_there(mounts: list[Path]) -> None:
    one, two = mounts
    (one / "f").write_bytes(b"content")
    with (two / "f").open("rb", buffering=0) as file:
        (one / "f").unlink()
        assert file.read() == b"content"
        assert os.fstat(file.fileno()).st_nlink == 0


def test_truncation_is_seen_at_once(mounts: list[Path]) -> None:
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"x" * 10000)
    with two.open("rb", buffering=0) as reader:
        assert len(reader.read()) == 10000
        os.truncate(one, 100)
        assert os.fstat(reader.fileno()).st_size == 100
        os.truncate(two, 5000)
        assert one.read_bytes() == b"x" * 100 + bytes(4900)


def test_two_mounts_append_at_once(mounts: list[Path]) -> None:
    loop = "i=0; while [ $i -lt 200 ]; do echo {} line $i; i=$((i+1)); done >> log"
    threads = [
        threading.Thread(target=run, args=(place, loop.format(number)))
        for number, place in enumerate(mounts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in mounts:
        lines = (place / "log").read_text().splitlines()
        for number in range(2):
            mine = [line for line in lines if line.startswith(f"{number} ")]
            assert mine == [f"{number} line {i}" for i in range(200)]
        assert len(lines) == 400


def test_times_are_kept(mounts: list[Path]) -> None:
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"x")
    os.utime(one, ns=(10**18, 10**18 + 5))
    assert two.stat().st_mtime_ns == 10**18 + 5
    with two.open("r+b", buffering=0) as file:
        file.write(b"y")
    assert one.stat().st_mtime_ns > 10**18 + 5


def test_an_editors_save_is_seen_whole(mounts: list[Path]) -> None:
    one, two = mounts
    (one / "text").write_bytes(b"0" * 9000)
    stop = threading.Event()
    seen: list[bytes] = []

    def look() -> None:
        while not stop.is_set():
            seen.append((two / "text").read_bytes())

    looker = threading.Thread(target=look)
    looker.start()
    for turn in range(1, 15):
        temporary = one / ".text.swp"
        temporary.write_bytes(str(turn % 10).encode() * (9000 + turn))
        temporary.rename(one / "text")
    stop.set()
    looker.join()
    assert all(len(set(content)) == 1 for content in seen)
    assert (two / "text").read_bytes() == b"4" * 9014


@requires("git")
def test_git_works_on_both(mounts: list[Path]) -> None:
    one, two = mounts
    identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a"
    identity += " GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent"
    run(
        one,
        f"{identity}; git init -q -b main repo; cd repo; echo a >a; git add .; git commit -qm a",
    )
    assert run(two, f"{identity}; cd repo; git status --porcelain; git log --format=%s") == "a\n"
    run(two, f"{identity}; cd repo; echo b >>a; mkdir d; echo c >d/c; git add .; git commit -qm b")
    run(one, f"{identity}; cd repo; git status --porcelain; git fsck --strict; git gc -q")
    run(two, f"{identity}; git clone -q repo copy; cd copy; git fsck; test -f d/c")
    assert run(one, f"{identity}; cd copy; git log --format=%s") == "b\na\n"


INCREMENT = """
import sqlite3, sys
base = sqlite3.connect("base", timeout=100, isolation_level=None)
for _ in range(int(sys.argv[1])):
    base.execute("BEGIN IMMEDIATE")
    (n,) = base.execute("SELECT n FROM t").fetchone()
    base.execute("UPDATE t SET n = ?", (n + 1,))
    base.execute("COMMIT")
"""


def test_sqlite_of_two_mounts_counts_right(mounts: list[Path], tmp_path: Path) -> None:
    one, two = mounts
    (tmp_path / "increment.py").write_text(INCREMENT)
    script = f"python3 {tmp_path}/increment.py 25"
    prepare = "CREATE TABLE t (n); INSERT INTO t VALUES (0)"
    make = f'python3 -c \'import sqlite3; sqlite3.connect("base").executescript("{prepare}")\''
    run(one, make)
    threads = [threading.Thread(target=run, args=(place, script)) for place in mounts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in mounts:
        ask = 'import sqlite3; print(sqlite3.connect("base").execute'
        look = f"python3 -c '{ask}(\"SELECT n FROM t\").fetchone()[0])'"
        assert run(place, look) == "50\n"
    check = 'import sqlite3; print(sqlite3.connect("base").execute'
    assert run(two, f"python3 -c '{check}(\"PRAGMA integrity_check\").fetchone()[0])'") == "ok\n"


def test_locks_of_one_mount_hold_at_the_other(mounts: list[Path]) -> None:
    import fcntl

    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"0123456789")
    with one.open("r+b") as first, two.open("r+b") as second:
        fcntl.lockf(first, fcntl.LOCK_EX, 5, 0)
        with pytest.raises(OSError, match=r"temporarily|denied") as caught:
            fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 4)
        assert caught.value.errno in {errno.EAGAIN, errno.EACCES}
        fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)
        fcntl.lockf(first, fcntl.LOCK_UN, 5, 0)
        fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 4)
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with two.open("r+b") as second:
        fcntl.flock(second, fcntl.LOCK_EX)  # the kernel may tell of a close after the close


def test_a_tree_is_copied_and_is_the_same_at_the_other(mounts: list[Path], tmp_path: Path) -> None:
    one, two = mounts
    source = tmp_path / "source"
    chance = random.Random(5)
    for number in range(40):
        place = source / f"d{number % 4}" / f"f{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(chance.randbytes(chance.randrange(30000)))
    run(one, f"cp -a {source} copy; tar cf copy.tar copy")
    run(two, f"diff -r {source} copy; mkdir t; tar xf copy.tar -C t; diff -r {source} t/copy")
    run(one, f"rm -r copy; diff -r {source} t/copy; du -s t")


def test_what_is_at_home_is_what_was_written(world: Mounts, pair: list[Path]) -> None:
    content = random.Random(7).randbytes(300_001)
    (pair[0] / "f").write_bytes(content)
    with (pair[1] / "f").open("ab") as file:
        file.write(b"more")
    for process in world.processes:
        process.close()
    assert (world.root / "f").read_bytes() == content + b"more"


def test_after_kill_9_the_other_mount_goes_on_with_what_was_synced(
    world: Mounts, pair: list[Path]
) -> None:
    one, two = pair
    file = os.open(one / "f", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"synced" * 1000)
    os.fsync(file)
    with (two / "f").open("rb", buffering=0) as reader:
        assert reader.read() == b"synced" * 1000
        os.write(file, b"logged")
        assert os.fstat(reader.fileno()).st_size == 6006
        world.processes[0].kill()
        assert (two / "f").read_bytes() == b"synced" * 1000 + b"logged"
    with pytest.raises(OSError, match="not connected"):
        os.close(file)
    (two / "f").write_bytes(b"on")
    three = world.mount()
    assert (three / "f").read_bytes() == b"on"


def test_after_kill_9_a_returned_write_is_there_under_sync(world: Mounts) -> None:
    """The node that is killed was the only one that had the file open: its writes are native."""
    world.shares.remove(SHARE)
    world.shares.add(ShareRecord(SHARE, str(world.root), log="sync"))
    one, two = world.mount(), world.mount()
    content = random.Random(8).randbytes(3 * 4096 + 77)
    file = os.open(one / "f", os.O_WRONLY | os.O_CREAT)
    os.write(file, content)
    os.pwrite(file, b"the last", 5000)
    world.processes[0].kill()
    assert (two / "f").read_bytes() == content[:5000] + b"the last" + content[5008:]
    with pytest.raises(OSError, match="not connected"):
        os.close(file)


def test_a_home_that_is_begun_again_has_what_mounts_had_written(
    world: Mounts, pair: list[Path]
) -> None:
    one, two = pair
    with (one / "f").open("wb", buffering=0) as file:
        file.write(b"before")
        assert (two / "f").read_bytes() == b"before"
        world.shares.close()
        world.shares = Shares(ShareRegistry(world.folder / "shares"), world.socket, LEASE)
        file.write(b" after")
        assert (two / "f").read_bytes() == b"before after"
    (two / "g").write_bytes(b"g")
    assert (one / "g").read_bytes() == b"g"


def test_a_mount_without_home_gives_an_error_after_its_wait(world: Mounts) -> None:
    place = world.mount(wait=1.0)
    (world.root / "f").write_bytes(b"f")
    world.shares.close()
    with pytest.raises(OSError, match="Input/output") as caught:
        (place / "f").read_bytes()
    assert caught.value.errno == errno.EIO
    world.shares = Shares(ShareRegistry(world.folder / "shares"), world.socket, LEASE)
    eventually(lambda: readable(place / "f"), seconds=20)
    assert (place / "f").read_bytes() == b"f"


def test_a_program_that_is_killed_while_it_waits_for_home_ends(world: Mounts) -> None:
    place = world.mount(wait=60.0)
    (world.root / "f").write_bytes(b"f")
    world.shares.close()
    program = subprocess.Popen(["cat", place / "f"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    program.send_signal(signal.SIGCHLD)  # ends nothing
    time.sleep(0.5)
    assert program.poll() is None
    program.kill()
    assert eventually(lambda: program.poll() is not None, 40.0)
    world.shares = Shares(ShareRegistry(world.folder / "shares"), world.socket, LEASE)
    assert (place / "f").read_bytes() == b"f"


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


@requires("rsync")
def test_rsync_brings_a_tree_up_to_date(mounts: list[Path], tmp_path: Path) -> None:
    one, two = mounts
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / f"f{number}").write_bytes(random.Random(number).randbytes(number * 1000))
    run(one, f"rsync -a {source}/ copy")
    (source / "f3").write_bytes(b"new")
    (source / "f4").unlink()
    run(two, f"rsync -a --delete --checksum {source}/ copy; diff -r {source} copy")
    assert run(one, f"rsync -an --itemize-changes --delete {source}/ copy") == ""
