# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a killed program's replicas leave is ended by the next one, and nothing else is."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica import sweep
from replica.folder import RunFolder
from tests.leftovers import below
from tests.needs import requires
from tests.replica.conftest import Bench
from tests.scripted import operation


@contextlib.contextmanager
def a_program_with_a_replica(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "tests.replica.abandoner", str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"running\n"
        yield program
        program.kill()


@requires("nbdkit", "nbdfuse", "fuse")
def test_what_a_killed_program_left_is_cleared(short_path: Path) -> None:
    with a_program_with_a_replica(short_path):
        pass
    run = short_path / "run"
    assert len(below(run)) == 3  # nbdkit, nbdfuse, the mount
    assert sweep(run) == 1
    assert below(run) == []
    assert list(run.iterdir()) == []
    assert sweep(run) == 0


@requires("nbdkit", "nbdfuse", "fuse")
def test_what_a_living_program_has_is_left_alone(short_path: Path) -> None:
    with a_program_with_a_replica(short_path):
        assert sweep(short_path / "run") == 0
        assert len(below(short_path / "run")) == 3
    assert sweep(short_path / "run") == 1


@requires("nbdkit", "nbdfuse", "fuse")
def test_what_is_taken_over_is_left_alone(short_path: Path) -> None:
    folder = short_path / "run" / "r0"
    with a_program_with_a_replica(short_path), pytest.raises(BlockingIOError):
        RunFolder(folder, left=True)
    taken = RunFolder(folder, left=True)
    assert sweep(short_path / "run") == 0
    assert len(below(short_path / "run")) == 3
    taken.disown()
    taken.disown()
    assert sweep(short_path / "run") == 1
    assert below(short_path / "run") == []
    with pytest.raises(FileNotFoundError):
        RunFolder(folder, left=True)


@requires("nbdkit", "nbdfuse", "fuse")
def test_our_own_replicas_are_left_alone(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    assert sweep(bench.folder / "run") == 0
    replica.execute(operation(1))


@requires("nbdkit", "nbdfuse", "fuse")
def test_processes_that_died_before_the_sweep(short_path: Path) -> None:
    with a_program_with_a_replica(short_path):
        pass
    folder = short_path / "run" / "r0"
    for name in ("nbdkit.pid", "memory.pid"):
        os.kill(int((folder / name).read_text()), 9)
    assert sweep(short_path / "run") == 1
    assert below(short_path / "run") == []
    assert list((short_path / "run").iterdir()) == []


def test_a_stranger_with_the_same_number_lives(tmp_path: Path) -> None:
    folder = tmp_path / "r0"
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (folder / "nbdkit.pid").write_text(f"{stranger.pid}\n")
        (folder / "memory.pid").write_text(f"{os.getpid()}\n")
        assert sweep(tmp_path) == 1
        assert stranger.poll() is None
        stranger.kill()
    assert not folder.exists()


def test_a_process_of_the_folder_that_no_pid_file_names_lives(tmp_path: Path) -> None:
    folder = tmp_path / "r0"
    folder.mkdir()
    argv = [sys.executable, "-c", "input()", str(folder / "console.log")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as reader:
        assert sweep(tmp_path) == 1
        assert reader.poll() is None
        reader.kill()


@pytest.mark.parametrize(
    "content", [b"", b"no number", b"-1", b"0", b"99999999999999999999", b"\xff"]
)
def test_a_pid_file_with_anything_in_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r0").mkdir()
    (tmp_path / "r0" / "qemu.pid").write_bytes(content)
    assert sweep(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_folder_at_all(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == 0
