# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs in a share that is not mounted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shares.node import ROOT, open_file
from shares.preload import PreloadServer, environment
from tests.homeserver.shares import preloaded_program
from tests.homeserver.shares.conftest import Home
from tests.needs import requires
from tests.waiting import eventually

SECONDS = 60.0
SEEDS, NIGHTLY_SEEDS, CALLS = 8, 1000, 150
SLEEPS = "import time; f = open('f', 'w'); print(1, flush=True); time.sleep(99)"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def server(home: Home, short_path: Path) -> Iterator[PreloadServer]:
    home.add()
    root = short_path / "seen"
    root.mkdir()
    made = PreloadServer(home.join("mobile").node, root, short_path / "p")
    yield made
    made.close()
    assert not list(root.rglob("*"))


@pytest.fixture
def run(server: PreloadServer) -> Run:
    def one(*words: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words,
            cwd=server.root,
            env={**os.environ, **environment(server), "LC_ALL": "C", "HOME": "/nonexistent"},
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return one


def shell(run: Run, script: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run("/bin/sh", "-c", script, check=check)


def test_a_shell_writes_and_reads(home: Home, run: Run) -> None:
    shell(run, "echo hello > greeting; echo world >> greeting; mkdir -p a/b; cp greeting a/b/copy")
    assert shell(run, "cat < a/b/copy").stdout == "hello\nworld\n"
    with open_file(home.join("other").node, "a/b/copy") as file:
        assert file.read() == "hello\nworld\n"


def test_what_another_node_writes_is_read_at_once(home: Home, run: Run) -> None:
    other = home.join("other").node
    for turn in range(3):
        with open_file(other, "news", "w") as file:
            file.write(f"turn {turn}")
        assert run("cat", "news").stdout == f"turn {turn}"


def test_coreutils(home: Home, run: Run, server: PreloadServer) -> None:
    shell(run, "seq 5000 > numbers")
    assert run("wc", "-l", "numbers").stdout.split()[0] == "5000"
    assert run("tail", "-n", "1", "numbers").stdout == "5000\n"
    shell(run, "sort -rn numbers > backwards; head -n 1 backwards > first")
    assert run("cat", "first").stdout == "5000\n"
    shell(run, "mv first last; ln -s last link; ln last hard; chmod 640 last; touch -d @5 last")
    assert run("stat", "-c", "%h %a %Y %s", "hard").stdout == "2 640 5 5\n"
    assert run("readlink", "link").stdout == "last\n"
    assert run("cat", "link").stdout == "5000\n"
    run("dd", "if=numbers", "of=part", "bs=7", "skip=3", "count=2", "status=none")
    assert run("cat", "part").stdout == "".join(f"{n}\n" for n in range(1, 20))[21:35]
    run("truncate", "-s", "3", "part")
    assert run("stat", "-c", "%s", "part").stdout == "3\n"
    assert run("ls").stdout.split() == sorted(
        ["backwards", "hard", "last", "link", "numbers", "part"]
    )
    assert "numbers" in run("ls", "-l", str(server.root)).stdout
    run("rm", "-r", *run("ls").stdout.split())
    assert not list(home.root.iterdir())


def test_find_grep_and_sed(run: Run) -> None:
    shell(run, "mkdir -p x/y/z; echo needle > x/y/z/f; echo hay > x/g; cd x/y; echo here > rel")
    assert sorted(run("find", ".", "-type", "f").stdout.split()) == [
        "./x/g",
        "./x/y/rel",
        "./x/y/z/f",
    ]
    assert run("grep", "-r", "needle", "x").stdout == "x/y/z/f:needle\n"
    run("sed", "-i", "s/hay/straw/", "x/g")
    assert run("cat", "x/g").stdout == "straw\n"
    shell(run, "cd x/y/z && pwd && cat ../rel")


def test_tar_there_and_back(home: Home, run: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for turn in range(20):
        path = tree / f"folder{turn % 4}" / f"file{turn}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(turn * 1000))
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        archive.add(tree, "tree")
    run("tar", "xf", str(tmp_path / "in.tar"))
    run("tar", "cf", str(tmp_path / "out.tar"), "tree")
    with tarfile.open(tmp_path / "out.tar") as archive:
        archive.extractall(tmp_path / "out")
    assert subprocess.run(["diff", "-r", tree, tmp_path / "out/tree"], check=False).returncode == 0
    run("diff", "-r", "tree", str(tree))


def test_python(home: Home, run: Run) -> None:
    script = """
import os, shutil, pathlib, tempfile, mmap
os.makedirs("deep/er")
with open("deep/er/f", "w+b") as f:
    f.write(b"x" * 100_000); f.seek(50_000); f.write(b"middle"); f.flush(); os.fsync(f.fileno())
    f.seek(0, 2); assert f.tell() == 100_000
    f.truncate(60_000)
assert os.path.getsize("deep/er/f") == 60_000
data = pathlib.Path("deep/er/f").read_bytes()
assert data[50_000:50_006] == b"middle" and len(data) == 60_000
with open("deep/er/f", "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
    assert m[50_000:50_006] == b"middle"
shutil.copytree("deep", "copy"); assert sorted(os.listdir("copy/er")) == ["f"]
os.rename("copy", "moved"); shutil.rmtree("deep")
assert [e.name for e in os.scandir(".")] == ["moved"]
fd = os.open("a", os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
for i in range(10): os.write(fd, b"0123456789")
assert os.lseek(fd, 0, 1) == 100 and os.pread(fd, 5, 95) == b"56789"
child = os.fork()
if child == 0:
    os.write(fd, b"child"); os._exit(0)
os.waitpid(child, 0)
assert os.fstat(fd).st_size == 105
os.unlink("a"); assert os.pread(fd, 5, 100) == b"child"; os.close(fd)
with tempfile.NamedTemporaryFile(dir=".") as f: f.write(b"x"); f.flush()
print("done")
"""
    assert run(sys.executable, "-c", script).stdout == "done\n"


def differs(run: Run, server: PreloadServer, folder: Path, seed: int) -> str:
    """How a random program goes otherwise in the share than on this file system; "" if it does
    not."""
    words = [sys.executable, preloaded_program.__file__, str(seed), str(CALLS)]
    folder.mkdir()
    real = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    seen = f"seen{seed}"
    run("mkdir", seen)
    here = shell(run, f"cd {seen} && exec {' '.join(words)}", check=False)
    if here.stdout == real.stdout:
        return here.stderr
    pairs = zip(real.stdout.splitlines(), here.stdout.splitlines(), strict=False)
    first = next(((a, b) for a, b in pairs if a != b), ("", f"it ended: {here.stderr[-500:]}"))
    return f"seed {seed}: {first[0][:200]} there, {first[1][:200]} in the share"


def test_random_programs_go_as_on_ext4(run: Run, server: PreloadServer, tmp_path: Path) -> None:
    found = [differs(run, server, tmp_path / str(seed), seed) for seed in range(SEEDS)]
    assert not list(filter(None, found))


@pytest.mark.nightly
def test_many_random_programs_go_as_on_ext4(
    run: Run, server: PreloadServer, tmp_path: Path
) -> None:
    for seed in range(1000, 1000 + NIGHTLY_SEEDS):
        assert not differs(run, server, tmp_path / str(seed), seed)


@requires("git")
def test_git(run: Run) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    run("git", "init", "-q", "repo")
    shell(run, "cd repo; for i in 1 2 3 4 5; do echo $i > f$i; done; git add . ")
    run("git", "-C", "repo", *who, "commit", "-qm", "first")
    shell(run, "echo more >> repo/f3")
    assert run("git", "-C", "repo", "status", "--porcelain").stdout == " M f3\n"
    assert "+more" in run("git", "-C", "repo", "diff").stdout
    run("git", "-C", "repo", *who, "commit", "-qam", "second")
    assert len(run("git", "-C", "repo", "log", "--oneline").stdout.splitlines()) == 2
    run("git", "-C", "repo", "fsck")


def test_sqlite(run: Run) -> None:
    script = """
import sqlite3
for turn in range(3):
    with sqlite3.connect("db") as db:
        db.execute("create table if not exists t (n)")
        db.executemany("insert into t values (?)", [(n,) for n in range(1000)])
    db.close()
db = sqlite3.connect("db")
assert db.execute("select count(*) from t").fetchone() == (3000,)
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
"""
    run(sys.executable, "-c", script)


def test_errors_are_those_of_the_share(home: Home, run: Run, tmp_path: Path) -> None:
    assert "No such file" in run("cat", "nothing", check=False).stderr
    run("mkdir", "a")
    assert "File exists" in run("mkdir", "a", check=False).stderr
    shell(run, "echo x > a/f")
    assert "not empty" in run("rmdir", "a", check=False).stderr
    assert "Is a directory" in run("cat", "a", check=False).stderr
    assert "too long" in shell(run, f"echo x > {'n' * 256}", check=False).stderr
    (home.root / "out").symlink_to("/etc/hostname")
    assert "No such file" in run("cat", "out", check=False).stderr, "no link leads out of it"
    run("mv", "a/f", str(tmp_path / "f"))
    assert (tmp_path / "f").read_text() == "x\n"


def test_locks_are_those_of_the_share(run: Run) -> None:
    script = """
import fcntl, os, sys
a = open("lock", "w"); fcntl.lockf(a, fcntl.LOCK_EX)
if os.fork() == 0:
    b = open("lock", "w")
    try: fcntl.lockf(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    run(sys.executable, "-c", script)


def test_a_program_that_is_killed_leaves_nothing_open(
    home: Home, server: PreloadServer, short_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        cwd=server.root,
        env={**os.environ, **environment(server)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    (node,) = [member.node for member in home.members]
    file = node.lookup(ROOT, b"f").attributes.file
    assert server.stand_ins.held(file)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert eventually(lambda: not list(server.stand_ins.folder.iterdir()))


def test_a_program_goes_on_when_its_node_begins_again(
    home: Home, server: PreloadServer, short_path: Path
) -> None:
    """Descriptors have offsets and flags of their own, which another process of the node serves."""
    script = """
import sys
with open("f", "w+", buffering=1) as f:
    for line in sys.stdin:
        f.write(line); print("written", flush=True)
    f.seek(0); print(f.read(), end="", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=server.root,
        env={**os.environ, **environment(server)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None

    def say(line: str) -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"

    say("one\n")
    server.close(keep=True)
    other = PreloadServer(home.join("again").node, server.root, short_path / "p")
    try:
        say("two\n")
        process.stdin.close()
        assert process.stdout.read() == "one\ntwo\n"
        assert process.wait(30) == 0
    finally:
        process.stdout.close()
        other.close()
