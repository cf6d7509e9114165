# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of the host that figures were measured on."""

import importlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import program
from bench.harness import BENCHES, figure
from bench.host import HostRates, measure_host
from bench.move import bound
from testbed import PAPER
from testbed.story import Move


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


def test_work_is_bounded_by_what_takes_longest() -> None:
    host = HostRates("x", 2, "home 1", "6", 1000.0, 100.0, 200.0, 50.0, None)
    assert host.least(copied=1e9, hashed=1e9, written=1e8) == ("the processors' SHA-1", 5.0)
    assert host.least(hashed=1e9, written=1e9) == ("the disk's writes", 20.0)
    assert host.least(read=1e12, copied=1e9) == ("memory", 1.0), "no direct reads: no bound by them"
    assert host.fastest(2e9, hashed=1e9) == ("the processors' SHA-1", 400.0)


def test_a_move_is_bounded_by_the_slowest_link_that_it_used() -> None:
    fetched = {"media": 11_000_000, "home": 320_000, "surrogate a": 1000}
    made = Move("notes", "with", 20.0, 1.0, fetched, 0.1, 3.0, 4.0, 5)
    assert bound(made, PAPER) == ("home's uplink", 10.0)
    assert bound(replace(made, fetched={"media": 11_000_000}), PAPER) == ("the Wi-Fi", 8.0)
    assert bound(replace(made, fetched={}), PAPER) == ("nothing fetched", 0.0)


def test_the_host_is_the_first_line_of_a_bench_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = importlib.import_module(BENCHES["store"])
    made = (figure(name, 1.0, "MB") for name in ("first", "second"))
    monkeypatch.setitem(store.PARTS, "import", lambda quick: made)
    done = CliRunner().invoke(program, ["store.import", "--quick"], standalone_mode=False)
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [line.get("name") for line in lines] == [None, "first", "second"]
    assert ["host" in line for line in lines] == [True, False, False]
