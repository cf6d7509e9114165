# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real replica, RAM and disk fetched as they are touched, as a domain of a real libvirt."""

from pathlib import Path

import pytest

from chunkstore import Store
from hypervisor import Driver, LibvirtDriver, QemuDriver
from replica import MachineSnapshot
from tests.hypervisor.libvirtd import LIBVIRT, Libvirtd
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.machine import check_file_system, resumed
from tests.replica.notebook import http, notebook
from tests.replica.test_generations import bring, lazy

OPERATIONS = 3
"""In each generation."""


@pytest.mark.nightly
@requires(*MACHINE, *LIBVIRT)
@pytest.mark.machine
def test_generations_under_both_drivers_are_as_one(
    notes_checkpoint: NotesCheckpoint, libvirtd: Libvirtd, tmp_path: Path
) -> None:
    drivers: dict[str, Driver] = {
        "domain": LibvirtDriver(libvirtd.runs, libvirtd.daemon, libvirtd.tools),
        "process": QemuDriver(),
    }
    state = list(notes_checkpoint.manifest.contract.state)
    last = OPERATIONS * len(drivers)
    there = Store.open(notes_checkpoint.copy_store(tmp_path / "store"))
    with resumed(notes_checkpoint, there, libvirtd.runs / "control") as control:
        expected = [control.execute(notebook(number)).payload for number in range(1, last + 1)]
        expected.append(control.execute(http(last + 1, "GET", "/export")).payload)
        digest = control.digest(state)
    frozen: MachineSnapshot = notes_checkpoint.frozen
    seen: list[bytes] = []
    for name, driver in drivers.items():
        here = Store.create(tmp_path / name)
        bring(there, here, there.reachable([frozen.device_state]))
        run_dir, resolver = libvirtd.runs / name, lazy(there, here)
        with resumed(notes_checkpoint, here, run_dir, frozen, resolver, driver) as replica:
            for _ in range(OPERATIONS):
                seen.append(replica.execute(notebook(len(seen) + 1)).payload)
            shown = f"satchel-notes-{name}-" in libvirtd.virsh("list")
            assert shown == (name == "domain")
            bring(there, here, there.reachable(frozen.volumes.values()))
            frozen = replica.checkpoint()
            if len(seen) == last:
                seen.append(replica.execute(http(last + 1, "GET", "/export")).payload)
                assert replica.digest(state) == digest
            check_file_system(replica)
        there.close()
        there = here
    there.close()
    assert seen == expected
