# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Processes are found again by their pid files, and ended whether they want to or not."""

import errno
import os
from pathlib import Path

import pytest

from satchel.process import Process
from tests.waiting import eventually


def test_one_that_runs_is_found_by_its_pid_file(tmp_path: Path) -> None:
    started = Process.start(["sleep", "60"], tmp_path / "it.log")
    (tmp_path / "it.pid").write_text(f"{started.pid}\n")
    # The kernel shows no arguments until the program has really begun.
    assert eventually(Path(f"/proc/{started.pid}/cmdline").read_bytes)
    found = Process.named(tmp_path / "it.pid")
    assert found is not None
    assert found.command == started.command
    assert found.end(60)
    assert started.ended()
    assert started.ending() == "was ended by SIGTERM"
    assert Process.named(tmp_path / "it.pid") is None


def test_one_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    process = Process.start(
        ["sh", "-c", "trap '' TERM; echo deaf; exec sleep 60"], tmp_path / "it.log"
    )
    assert eventually(lambda: process.tail() == "deaf")
    assert process.end(0.01)
    assert process.ending() == "was ended by SIGKILL"


def test_one_that_cannot_be_held_does_not_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = []

    def no_descriptor_left(pid: int) -> int:
        pids.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("os.pidfd_open", no_descriptor_left)
    with pytest.raises(OSError, match="Too many open files"):
        Process.start(["sleep", "60"], tmp_path / "it.log")
    assert not Path(f"/proc/{pids[0]}").exists()
