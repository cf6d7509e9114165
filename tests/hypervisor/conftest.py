# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sites for machines. A QEMU guest boots once per run; tests resume copies of its checkpoint."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypervisor import Boot
from hypervisor.libvirt import SessionDriver
from tests.hypervisor.guest import CMDLINE, make_guest
from tests.hypervisor.libvirtd import Libvirtd
from tests.hypervisor.site import BOOT_SECONDS, FakeSite, Lines, QemuSite, Site
from tests.leftovers import SHORT_PREFIX
from tests.needs import lacking

NEEDS = ("qemu-system-x86_64", "nbdkit", "busybox", "apt-get")

HANDED = "SATCHEL_HANDED_GUEST"
"""For a run of an ordinary user, who cannot make the test guest: the folder in which root has put
its kernel, its RAM disk and its checkpoint. Then there are the machines of that user's libvirt."""


@pytest.fixture(scope="session")
def boot_files() -> Boot:
    """Kernel and initial RAM disk of the test guest; skips where there can be no machine."""
    if reasons := [reason for need in NEEDS if (reason := lacking(need))]:
        pytest.skip("; ".join(reasons))
    if handed := os.environ.get(HANDED):
        return Boot(Path(handed, "kernel"), Path(handed, "initrd"), CMDLINE)
    return make_guest()


@pytest.fixture(scope="session")
def checkpoint(boot_files: Boot) -> Iterator[Path]:
    """A folder with `ram` and `device-state` of a guest that has booted and counted to 1."""
    if handed := os.environ.get(HANDED):
        yield Path(handed)
        return
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    site = QemuSite(folder, None)
    try:
        machine = site.start(boot_files)
        agent = Lines(machine)
        try:
            agent.ask("count")
            assert agent.answer(BOOT_SECONDS) == "1"
        except OSError:
            pytest.fail(f"the test guest does not answer: {machine.state} {machine.failure()}")
        agent.close()
        machine.pause()
        machine.save(folder / "device-state")
    finally:
        site.close()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def qemu_site(checkpoint: Path, short_path: Path) -> Iterator[QemuSite]:
    site = QemuSite(short_path, checkpoint)
    yield site
    site.close()


@pytest.fixture
def libvirt_site(checkpoint: Path, libvirtd: Libvirtd, short_path: Path) -> Iterator[QemuSite]:
    """Its machines are domains; the checkpoint is that of a machine of the driver `qemu`."""
    site = QemuSite(short_path, checkpoint, libvirtd.driver(short_path))
    yield site
    site.close()


@pytest.fixture
def session_site(checkpoint: Path, short_path: Path) -> Iterator[QemuSite]:
    """Its machines are domains of this user's libvirt."""
    site = QemuSite(short_path, checkpoint, SessionDriver(short_path))
    yield site
    site.close()


MACHINES = {"qemu": [pytest.mark.machine], "libvirt": [pytest.mark.machine, pytest.mark.nightly]}
if HANDED in os.environ:
    MACHINES = {"session": [pytest.mark.machine]}


@pytest.fixture(params=["fake", *(pytest.param(n, marks=m) for n, m in MACHINES.items())])
def site(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Site]:
    """Each test asks the machines of every driver for the same."""
    if request.param in MACHINES:
        yield request.getfixturevalue(f"{request.param}_site")
        return
    fake = FakeSite(short_path)
    yield fake
    fake.close()
