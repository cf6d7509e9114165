# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Databases that map their files, on a mount: SQLite with its write-ahead log, and LMDB. Two
processes write at once, some of them are killed, and nothing that was committed is lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.node.mounted import SHARE
from tests.shares.node.test_mounts import Mounts, world
from tests.waiting import eventually

__all__ = ["world"]

pytestmark = requires("fuse", "mappings")

PYTHON = "/usr/bin/python3"
"""Debian's, which has Debian's python3-lmdb."""

SECONDS = 120

MAKE = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("create table told(name text, turn integer, primary key(name, turn))")
base.execute("create table total(count integer)")
base.execute("insert into total values(0)")
base.commit()
"""

SQLITE = """
import sqlite3, sys
path, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = sqlite3.connect(path, timeout=60, isolation_level=None)
for turn in range(turns):
    base.execute("begin immediate")
    base.execute("insert into told values(?, ?)", (name, turn))
    base.execute("update total set count = count + 1")
    base.execute("commit")
    print(turn, flush=True)
    base.execute("begin")
    counted = base.execute("select count from total").fetchone()
    told = base.execute("select count(*) from told").fetchone()
    assert counted == told, (counted, told)
    base.execute("commit")
base.close()
"""

IDLE = "import time; time.sleep(600)"

LOOK = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=60)
print(*base.execute("pragma integrity_check").fetchone())
print(*base.execute("select count from total").fetchone())
print(*base.execute("select count(*) from told").fetchone())
base.close()
"""

LMDB = """
import lmdb, struct, sys
path, name, turns, writemap = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "writemap"
env = lmdb.open(path, map_size=1 << 22, writemap=writemap)
for turn in range(turns):
    with env.begin(write=True) as change:
        count = struct.unpack("<Q", change.get(b"count", bytes(8)))[0]
        change.put(b"count", struct.pack("<Q", count + 1))
        change.put(f"{name}:{turn}".encode(), bytes(500))
    print(turn, flush=True)
    with env.begin() as seen:
        assert seen.get(f"{name}:{turn}".encode()) == bytes(500)
env.close()
"""

COUNT = """
import lmdb, struct, sys
with lmdb.open(sys.argv[1]).begin() as seen:
    print(struct.unpack("<Q", seen.get(b"count"))[0], seen.stat()["entries"])
"""


class Program:
    """One that tells each of its transactions when it is committed."""

    def __init__(self, folder: Path, program: str, *arguments: object) -> None:
        self._said = folder / f"said-{len(list(folder.glob('said-*')))}"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [PYTHON, "-c", program, *map(str, arguments)],
                stdout=said,
                stderr=subprocess.PIPE,
                text=True,
            )

    def committed(self) -> int:
        return len(self._said.read_text().splitlines())

    def kill(self) -> None:
        """In the midst of its transactions."""
        assert eventually(lambda: self.committed() > 5)
        self._process.kill()

    def finish(self) -> int:
        """How many transactions it has told to be committed."""
        failed = self._process.communicate(timeout=SECONDS)[1]
        assert self._process.returncode in (0, -9), failed
        return self.committed()


def ask(program: str, path: Path) -> list[str]:
    """The words that it says. In a process of its own: Python keeps its lock while it touches what
    is mapped, and home is in the process of the tests."""
    argv = ["timeout", str(SECONDS), PYTHON, "-c", program, str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def judge_sqlite(path: Path, committed: int, killed: int = 0) -> None:
    """killed: programs that were killed, each of which may have committed one more."""
    whole, count, told = ask(LOOK, path)
    assert (whole, told) == ("ok", count)
    assert committed <= int(count) <= committed + killed


def test_sqlite_with_a_write_ahead_log_by_two_processes(world: Mounts, tmp_path: Path) -> None:
    base = world.mount() / "base"
    ask(MAKE, base)
    programs = [Program(tmp_path, SQLITE, base, name, 40) for name in ("a", "b")]
    assert [program.finish() for program in programs] == [40, 40]
    judge_sqlite(base, 80)
    world.processes[0].close()
    assert not (world.root / "base-wal").exists()
    judge_sqlite(world.root / "base", 80)


def test_sqlite_goes_on_after_a_process_is_killed(world: Mounts, tmp_path: Path) -> None:
    base = world.mount() / "base"
    ask(MAKE, base)
    killed, other = (Program(tmp_path, SQLITE, base, name, 40) for name in ("a", "b"))
    killed.kill()
    committed = killed.finish() + other.finish()
    again = Program(tmp_path, SQLITE, base, "c", 20).finish()
    judge_sqlite(base, committed + again, killed=1)


def test_a_second_mount_is_refused_the_write_ahead_log(world: Mounts, tmp_path: Path) -> None:
    """Both committed, and many commits of one were lost without an error."""
    one, two = world.mount(), world.mount()
    ask(MAKE, one / "base")
    first = Program(tmp_path, SQLITE, one / "base", "a", 200)
    assert eventually(lambda: first.committed() > 5)
    second = subprocess.run(
        [PYTHON, "-c", SQLITE, str(two / "base"), "b", "20"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "unable to open database file" in second.stderr
    told = len(second.stdout.splitlines())
    judge_sqlite(one / "base", first.finish() + told)


def test_the_mark_lets_a_second_mount_have_the_write_ahead_log(
    world: Mounts, tmp_path: Path
) -> None:
    """Nothing is lost if one mount at a time has the database open, which is the owner's care."""
    one, two = world.mount(), world.mount()
    world.shares.change(SHARE, lambda share: share.with_terms("*-shm", None, None, "mapped"))
    ask(MAKE, one / "base")
    for turn, place in enumerate((one, two, one, two)):
        assert Program(tmp_path, SQLITE, place / "base", turn, 10).finish() == 10
    judge_sqlite(one / "base", 40)
    idle = Program(tmp_path, SQLITE.replace("base.close()", IDLE), one / "base", "a", 10)
    assert eventually(lambda: idle.committed() == 10)
    assert (world.root / "base-shm").exists()
    assert Program(tmp_path, SQLITE, two / "base", "b", 5).finish() == 5
    idle.kill()
    idle.finish()


@requires("lmdb")
def test_a_second_mount_is_refused_the_locks_of_lmdb(world: Mounts, tmp_path: Path) -> None:
    """They are in memory that both map."""
    one, two = world.mount(), world.mount()
    first = Program(tmp_path, LMDB, one / "base", "a", 200, "write")
    assert eventually(lambda: first.committed() > 5)
    second = subprocess.run(
        [PYTHON, "-c", LMDB, str(two / "base"), "b", "5", "write"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "No such device" in second.stderr
    assert first.finish() == 200


@requires("lmdb")
@pytest.mark.parametrize("way", ["write", "writemap"])
def test_lmdb_by_two_processes(world: Mounts, way: str, tmp_path: Path) -> None:
    place = world.mount() / "base"
    programs = [Program(tmp_path, LMDB, place, name, 40, way) for name in ("a", "b")]
    assert [program.finish() for program in programs] == [40, 40]
    world.processes[0].close()
    shutil.copytree(world.root / "base", tmp_path / "copy")
    assert ask(COUNT, tmp_path / "copy") == ["80", "81"]
