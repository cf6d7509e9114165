# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The daemon with `driver = "libvirt"`, and without the libvirt that it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from satchel.errors import UnsupportedError
from tests.hypervisor.libvirtd import LIBVIRT, Libvirtd
from tests.leftovers import below
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.surrogate.test_take_over import PATIENCE, REPLICA, Spot, note
from tests.waiting import eventually

PROGRAM = str(Path(sys.executable).parent / "satchel-surrogate")


def test_serve_without_the_libvirt_that_is_wanted_says_what_lacks(short_path: Path) -> None:
    """The folder that the run folder is in is private, so no domain's user gets there."""
    places = f'data = "{short_path}/data"\nrun = "{short_path}/run"\n'
    (short_path / "satchel").mkdir()
    (short_path / "satchel" / "surrogate.toml").write_text(f'{places}driver = "libvirt"\n')
    done = subprocess.run(
        [PROGRAM, "serve"],
        env=os.environ | {"XDG_CONFIG_HOME": str(short_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 10, done.stderr
    assert "what machines under libvirt need" in done.stderr
    wanted = f"a way for other users into {short_path}" if os.geteuid() == 0 else "libvirt"
    assert wanted in done.stderr


@pytest.mark.nightly
@pytest.mark.machine
@requires(*MACHINE, *LIBVIRT)
def test_a_daemon_that_is_killed_finds_its_domains(
    notes_checkpoint: NotesCheckpoint, libvirtd: Libvirtd
) -> None:
    """It runs where the tests' libvirt is the host's, and is told no more than the driver."""
    folder = libvirtd.runs / "spot"
    folder.mkdir()
    spot = Spot(folder, notes_checkpoint)
    settings = folder / "satchel" / "surrogate.toml"
    settings.write_text(settings.read_text() + 'driver = "libvirt"\n')
    serve = [*libvirtd.within, PROGRAM, "serve"]
    try:
        spot.start(*serve)
        assert "machines are domains of libvirt" in (folder / "log").read_text()
        status = spot.create()
        assert status.state == "ready", status.error
        last = status.last_operation
        assert [answer.number for answer in spot.execute(note(last + 1))] == [last + 1]
        assert f"satchel-{REPLICA}-" in libvirtd.virsh("list")
        pids = spot.pids()
        spot.kill()
        libvirtd.kill()
        libvirtd.start()
        spot.start(*serve)
        assert spot.pids() == pids
        assert [answer.number for answer in spot.execute(note(last + 2))] == [last + 2]
        _without_libvirt(spot, libvirtd, serve)
        assert [answer.number for answer in spot.execute(note(last + 3))] == [last + 3]
        spot.http.delete(f"/v1/replicas/{REPLICA}", timeout=PATIENCE)
        assert below(spot.run / "r") == []
        assert eventually(lambda: "satchel-" not in libvirtd.virsh("list"))
        spot.end()
    finally:
        spot.close()


def _without_libvirt(spot: Spot, libvirtd: Libvirtd, serve: list[str]) -> None:
    """With `auto`, a daemon that starts while there is no libvirt keeps its domain, and starts no
    other machine until libvirt is back."""
    settings = spot.folder / "satchel" / "surrogate.toml"
    settings.write_text(settings.read_text().replace('"libvirt"', '"auto"'))
    pids = spot.pids()
    spot.kill()
    libvirtd.kill()
    spot.start(*serve)
    assert "of which 1 run and go on" in (spot.folder / "log").read_text()
    assert spot.pids() == pids
    with pytest.raises(UnsupportedError, match="a libvirt that answers"):
        spot.create("r2")
    libvirtd.start()
