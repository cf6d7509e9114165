# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A machine in a cell, as a domain of an ordinary user's libvirt.

`python -m tests.hypervisor.under_session` prints one JSON object."""

import json
import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypervisor import CONFINED_FILES, LAUNCHER, Machine, Wiring, choose_driver
from sandbox import CellMounts, Cells, Setting
from tests.hypervisor.conftest import HANDED
from tests.hypervisor.site import DISK_BYTES, SPEC, Lines, Nbd, copy_sparse, make_sparse
from tests.waiting import eventually

HANDED_OVER = Path(os.environ[HANDED])
LIBVIRT = Path.home() / ".cache" / "libvirt"


def virsh(*arguments: str) -> str:
    """`virsh` as this user calls it, without any address."""
    done = subprocess.run(
        ["virsh", "-q", *arguments], check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout.strip()


def listed() -> list[str]:
    """Return the names of domains; none while libvirt starts again."""
    with suppress(subprocess.CalledProcessError):
        return virsh("list", "--name").split()
    return []


def destroyed(name: str) -> bool:
    """Destroy a domain; False while a libvirt that has started again refuses that."""
    argv = ["virsh", "-q", "destroy", name]
    return subprocess.run(argv, check=False, capture_output=True, timeout=300).returncode == 0


def cell_of(machine: Machine) -> dict[str, Any]:
    """Return facts from /proc about the machine's process."""
    status = Path(f"/proc/{machine.pid}/status").read_text()
    found = dict(re.findall(r"^(\w+):\t(.*)$", status, re.MULTILINE))
    return {
        "numbers": len(found["NSpid"].split()),
        "capabilities": int(found["CapEff"], 16),
        "filters": int(found["Seccomp_filters"]),
        "privileges": found["NoNewPrivs"],
    }


def count(machine: Machine) -> str:
    agent = Lines(machine)
    try:
        return agent("count")
    finally:
        agent.close()


def life(machine: Machine, wiring: Wiring) -> dict[str, Any]:
    """Watch a machine that runs, until an operator destroys it."""
    name = virsh("list", "--name")
    found: dict[str, Any] = {"list": name, "states": [virsh("domstate", name)]}
    found["count"] = count(machine)
    found["cell"], found["user"] = cell_of(machine), Path(f"/proc/{machine.pid}").stat().st_uid
    for verb in ("suspend", "resume"):
        virsh(verb, name)
        found["states"].append(virsh("domstate", name))
    tried = [f"test -e {path} && echo {word}" for word, path in places(wiring).items()]
    found["reaches"] = wiring.room.run(["/bin/sh", "-c", "; ".join(tried)]).stdout.split()
    os.kill(int((LIBVIRT / "libvirtd.pid").read_text()), signal.SIGKILL)
    eventually(lambda: name in listed())
    found["after a crash of libvirt"] = [virsh("domstate", name), count(machine)]
    assert eventually(lambda: destroyed(name)), virsh("domstate", name)
    eventually(lambda: machine.state.value == "failed")
    found["destroyed"] = machine.state.value
    return found


def places(wiring: Wiring) -> dict[str, Path]:
    """Return paths that a program in the machine's place would like to reach."""
    return {
        "libvirt": LIBVIRT / "libvirt-sock",
        "settings": Path.home(),
        "doors": wiring.run_dir.parent / "libvirt",
        "machine": wiring.agent_socket,
    }


def main(run: Path) -> dict[str, Any]:
    driver, says = choose_driver("libvirt", run)
    cells = Cells.of(SettingsOfCells(), driver)
    assert cells is not None, "no cells under this driver"
    folder = run / "r1"
    folder.mkdir(mode=0o700)
    ram, disk = folder / "ram", folder / "disk"
    copy_sparse(HANDED_OVER / "ram", ram)
    make_sparse(disk, DISK_BYTES)
    files = [folder / name for name in CONFINED_FILES]
    for path in files:
        path.touch()
    nbd = Nbd(folder, "file", str(disk))
    seen = CellMounts(folder, readable=[LAUNCHER], machine=[*files, ram])
    room = cells.room(seen, memory=SPEC.memory_bytes, processors=1, kvm=False)
    wiring = Wiring(folder, ram, {"disk0": nbd.uri}, "notes-12ab", room)
    try:
        machine = driver.start(SPEC, wiring, None)
        try:
            machine.load(HANDED_OVER / "device-state")
            machine.resume()
            found = life(machine, wiring)
        finally:
            machine.stop()
    finally:
        room.end()
        nbd.stop()
    eventually(lambda: virsh("list", "--name") == "")
    left = virsh("list", "--all", "--name").split()
    return found | {"says": says, "left": [*left, *map(str, (run / "libvirt").iterdir())]}


class SettingsOfCells:
    """The defaults."""

    cell: Setting = "auto"
    cell_off_as_root = False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(main(Path(name))), flush=True)
