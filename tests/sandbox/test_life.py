# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cell outlives who made it, is found again, and is never left behind."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from replica import sweep
from replica.folder import RunFolder
from sandbox import Cell, CellFailed, CellImpossible, CellMounts, Cells, clear_groups, groups, left
from satchel.confinement import HOST
from tests.chunkstore.mounts import tmpfs
from tests.needs import requires
from tests.sandbox.site import Site, processes_of
from tests.waiting import eventually

pytestmark = [requires("bwrap", "userns")]

KILLS = 5


def nothing_left(run: Path) -> bool:
    """A child of the starter that is just becoming a program holds the folder's lock as well, so
    one sweep may come too early."""
    sweep(run)
    return not processes_of(run)


def no_groups_of(pid: int) -> bool:
    """Nothing of a process that ended holds them; a later sweep or start would remove them too."""
    clear_groups()
    return not any(
        name.startswith("satchel-") and name.endswith(f"-{pid}")
        for _, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
    )


def test_no_starter_that_is_killed_leaves_anything(short_path: Path) -> None:
    """At whatever moment; a moment that fails is told by its seed, which is its number."""
    run = short_path / "run"
    for seed in range(KILLS):
        argv = [sys.executable, "-m", "tests.sandbox.starter", str(run / str(seed))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == b"running\n"
            time.sleep(random.Random(seed).uniform(0.0, 0.4))
            starter.send_signal(signal.SIGKILL)
        assert eventually(partial(nothing_left, run / str(seed))), (seed, processes_of(run))
        assert eventually(partial(no_groups_of, starter.pid)), seed


@requires("root", "mount")
def test_no_mount_of_the_host_is_kept_busy(short_path: Path) -> None:
    """A stick that is unmounted is one that can be pulled out."""
    with tmpfs(short_path / "stick"):
        site = Site(short_path)
        try:
            numbers = [path.parent for path in Path("/proc").glob("[0-9]*/mountinfo")]
            ours = [path for path in numbers if _names(path, site.folder)]
            assert len(ours) == 2  # bubblewrap, and the cell's first process
            assert [path for path in ours if "/stick" in (path / "mountinfo").read_text()] == []
        finally:
            site.close()


def _names(process: Path, folder: Path) -> bool:
    try:
        return bytes(folder) + b"/cell.json" in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_a_program_ends_as_it_would_elsewhere(site: Site) -> None:
    assert site.cell.run(["/bin/sh", "-c", "echo it; exit 3"]).returncode == 3
    assert site.cell.run(["/bin/sh", "-c", "echo it; exit 3"]).stdout == "it\n"
    killed = site.cell.start(["/bin/sh", "-c", "kill -9 $$"], site.folder / "killed.log")
    assert killed.ended(60.0)
    assert killed.ending() == "was ended by SIGKILL"
    missing = site.cell.start(["/none"], site.folder / "missing.log")
    assert missing.ended(60.0)
    assert missing.ending() == "ended with exit status 127"
    assert "cannot run /none" in missing.tail()


def test_who_comes_later_finds_it_and_what_runs_in_it(short_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.sandbox.starter", str(short_path / "run"), "keep"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as starter:
        assert starter.stdout is not None
        assert [starter.stdout.readline() for _ in range(2)] == [b"running\n", b"kept\n"]
        starter.send_signal(signal.SIGKILL)
    folder = short_path / "run" / "0"
    found = left(folder)
    assert isinstance(found, Cell)
    assert found.run(["/bin/true"]).returncode == 0
    inside = [path for path in Path("/proc").glob("[0-9]*") if _same_namespace(path, found.pid)]
    assert len(inside) == 3  # the shell, its own sleep, ours
    found.end()
    assert left(folder) is HOST
    assert eventually(lambda: not any(path.exists() for path in inside))


def _same_namespace(process: Path, pid: int) -> bool:
    """Whether it runs in the process namespace of that other process."""
    try:
        return (process / "ns/pid").readlink() == Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return False


def test_a_cell_of_another_folder_is_not_taken_for_it(site: Site, tmp_path: Path) -> None:
    for name in ("cell.pid", "cell.json"):
        (tmp_path / name).write_bytes((site.folder / name).read_bytes())
    assert left(tmp_path) is HOST


def test_its_control_groups_go_with_it(site: Site) -> None:
    folders = [folder for part in site.cell.groups.folders.values() for folder in part]
    assert all(folder.is_dir() for folder in folders)
    site.cell.end()
    assert not any(folder.exists() for folder in folders)
    site.cell.end()


def test_cells_of_folders_with_one_name_have_control_groups_of_their_own(short_path: Path) -> None:
    cells = Cells()
    made = []
    for name in ("a", "b"):
        folder = RunFolder(short_path / name / "r")
        room = cells.room(CellMounts(folder.path), memory=1 << 20, processors=1, kvm=False)
        assert isinstance(room, Cell)
        made.append((folder, room))
    first, second = (set(room.groups.tasks("machine")) for _, room in made)
    assert not first & second
    for folder, room in made:
        room.end()
        folder.remove()


def test_a_host_that_makes_no_control_groups_is_worth_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each machine logged four of them, one of each controller. `available` tells it once."""
    monkeypatch.setattr(groups, "_parent", lambda controller: (tmp_path, False))
    caplog.set_level(logging.DEBUG)
    assert groups.available() == ()
    said = [each for each in caplog.records if each.name == groups.logger.name]
    assert [each.levelno for each in said] == [logging.DEBUG] * len(groups.CONTROLLERS)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_an_error_and_leaves_nothing(short_path: Path) -> None:
    folder = short_path / "replica"
    folder.mkdir()
    with pytest.raises(CellFailed, match="none"):
        Cells().room(
            CellMounts(folder, readable=[short_path / "none"]),
            memory=1 << 20,
            processors=1,
            kvm=False,
        )
    assert eventually(lambda: not processes_of(short_path))


@requires("root")
def test_root_without_cells_is_refused_and_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CellImpossible, match="apt install bubblewrap") as caught:
        Cells()
    assert caught.value.exit_code == 10
    with pytest.raises(CellImpossible, match="turned off"):
        Cells("off")
    allowed = Cells("off", root_may_do_without=True)
    assert allowed.text == "off: they are turned off"
    seen = CellMounts(tmp_path)
    assert allowed.room(seen, memory=1 << 20, processors=1, kvm=False) is HOST
