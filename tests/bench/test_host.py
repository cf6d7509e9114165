# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of the host that figures were measured on."""

import importlib
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import program
from bench.harness import BENCHES, figure
from bench.host import measure_host


def test_every_rate_is_measured_and_nothing_stays(tmp_path: Path) -> None:
    host = json.loads(measure_host(tmp_path, quick=True).to_json())["host"]
    assert host["processors"] == len(os.sched_getaffinity(0))
    assert host["kernel"] == os.uname().release
    for name in ("memory", "sha1_one", "sha1_all", "disk_write"):
        assert host[name] > 0
    assert host["disk_read"] is None or host["disk_read"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes 10 ms for 4 MiB is at most 420 MB/s, however fast the disk is."""
    write = os.write

    def slow(file: int, piece: bytes) -> int:
        time.sleep(0.01)
        return write(file, piece)

    monkeypatch.setattr(os, "write", slow)
    assert measure_host(tmp_path, quick=True).disk_write < 420


def test_the_host_is_the_first_line_of_a_bench_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = importlib.import_module(BENCHES["store"])
    made = (figure(name, 1.0, "MB") for name in ("first", "second"))
    monkeypatch.setitem(store.PARTS, "size", lambda quick: made)
    done = CliRunner().invoke(program, ["store.size", "--quick"], standalone_mode=False)
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [line.get("name") for line in lines] == [None, "first", "second"]
    assert ["host" in line for line in lines] == [True, False, False]
