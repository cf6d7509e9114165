# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What control groups of version 2 hold a cell to; test_unified.py has it run where they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.groups import CPU_PERIOD_US
from tests.sandbox.site import GUEST_MEMORY, MIB, Site

LIMIT = GUEST_MEMORY + 320 * MIB
TASKS = 160


def group(site: Site, part: str) -> Path:
    (folder,) = site.cell.groups.folders[part]
    return folder


def test_every_controller_limits_a_cell(site: Site) -> None:
    assert site.cell.groups.controllers == ("memory", "cpu", "pids", "io")
    machine, helpers = group(site, "machine"), group(site, "helpers")
    assert machine != helpers
    assert int((machine / "memory.max").read_text()) == LIMIT
    assert (machine / "memory.swap.max").read_text() == "0\n"
    assert (machine / "cpu.max").read_text() == f"{2 * CPU_PERIOD_US} {CPU_PERIOD_US}\n"
    assert int((machine / "pids.max").read_text()) == TASKS
    assert (machine / "io.weight").read_text() == "default 100\n"
    assert int((helpers / "memory.max").read_text()) == LIMIT
    assert (helpers / "cpu.max").read_text() == f"{2 * CPU_PERIOD_US} {CPU_PERIOD_US}\n"
    assert int((helpers / "pids.max").read_text()) == 384


def test_who_takes_memory_is_ended_by_the_group_and_not_by_the_host(site: Site) -> None:
    taken = int(site.attack("memory").split()[-1]) * MIB
    assert LIMIT // 2 < taken <= LIMIT
    events = dict(line.split() for line in (group(site, "machine") / "memory.events").open())
    assert int(events["oom_kill"]) > 0


def test_no_more_tasks_than_the_group_has(site: Site) -> None:
    assert site.begin("forks", site.cell).ended(300.0)
    assert 0 < int((site.folder / "forks.log").read_text()) < TASKS


@pytest.mark.parametrize("machine", [True, False], ids=["machine", "helper"])
def test_a_program_is_in_the_group_of_its_part(site: Site, machine: bool) -> None:
    process = site.begin("forks", site.cell, machine=machine)
    try:
        line = Path(f"/proc/{process.pid}/cgroup").read_text().strip()
        part = group(site, "machine" if machine else "helpers")
        assert line == f"0::/{part.relative_to('/sys/fs/cgroup')}"
    finally:
        process.end(0.0)


HELD = """
import pathlib, subprocess, sys
from sandbox import groups
held = pathlib.Path(sys.argv[1])
(held / "cgroup.procs").write_text("0")
print(",".join(groups.available()))
print((held / "cgroup.subtree_control").read_text().strip() or "none")
(held / "beside").mkdir()
enters = "echo 0 > $0/cgroup.procs && cat /proc/self/cgroup"
print(subprocess.check_output(["sh", "-c", enters, str(held / "beside")], text=True).strip())
"""


def test_a_group_that_holds_a_process_still_takes_others_below_it() -> None:
    """systemd puts what reloads a daemon there. The daemon's cells have groups elsewhere."""
    held = Path("/sys/fs/cgroup/held")
    held.mkdir()
    try:
        said = subprocess.check_output([sys.executable, "-c", HELD, str(held)], text=True)
        assert said.splitlines() == ["memory,cpu,pids,io", "none", "0::/held/beside"]
    finally:
        (held / "beside").rmdir()
        held.rmdir()


BESIDE = """
import pathlib, sys
from sandbox import groups
unit = pathlib.Path(sys.argv[1])
(unit / groups.SUBGROUP / "cgroup.procs").write_text("0")
share = groups.Share(1 << 26, 1.0, 64)
made = groups.make("x", dict.fromkeys(groups.PARTS, share))
print(",".join(made.controllers), *{str(one.parents[1]) for one in made.folders["machine"]})
made.remove()
"""


def test_cells_are_beside_a_daemon_in_its_subgroup() -> None:
    """As systemd 254 and later start it."""
    unit = Path("/sys/fs/cgroup/unit")
    (unit / "daemon").mkdir(parents=True)
    top = Path("/sys/fs/cgroup/cgroup.subtree_control")
    top.write_text("+memory +cpu +pids +io")
    try:
        said = subprocess.check_output([sys.executable, "-c", BESIDE, str(unit)], text=True)
        assert said.split() == ["memory,cpu,pids,io", str(unit)]
    finally:
        (unit / "daemon").rmdir()
        unit.rmdir()
