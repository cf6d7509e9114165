# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints go from this Debian's QEMU to the next one's, and back."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hypervisor import Boot, Machine
from hypervisor.qemu import abilities
from testbed import newer_qemu
from tests.hypervisor.handed import Traveller, hand_first
from tests.hypervisor.site import QemuSite
from tests.needs import requires

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.machine,
    pytest.mark.timeout(2400),
    requires("root", "mmdebstrap", "nbdkit", "nbdfuse", "fuse"),
]

Use = Callable[[bool], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Has machines that start from now on be those of the newer QEMU, or of this Debian's."""
    folder, path = newer_qemu.folder(), os.environ["PATH"]

    def choose(newer: bool) -> None:
        monkeypatch.setenv("PATH", f"{folder}:{path}" if newer else path)
        abilities.ask.cache_clear()

    return choose


def is_newer(machine: Machine) -> bool:
    return Path(f"/proc/{machine.pid}/exe").readlink().is_relative_to(newer_qemu.SYSTEM)


def passes_on(handed: Path, folder: Path, on: Path, words: str, *, newer: bool) -> None:
    """The guest of `handed` goes on here, works, and is left in `on`."""
    folder.mkdir()
    traveller = Traveller(handed, folder)
    try:
        assert is_newer(traveller.machine) is newer
        traveller.hand_on(on, words)
    finally:
        traveller.close()


def test_a_checkpoint_goes_to_the_newer_one_and_back(
    qemu_site: QemuSite, short_path: Path, use: Use
) -> None:
    hand_first(qemu_site, qemu_site.running(), short_path / "1", "of the older")
    use(True)
    passes_on(short_path / "1", short_path / "a", short_path / "2", "of the newer", newer=True)
    use(False)
    passes_on(short_path / "2", short_path / "b", short_path / "3", "the older again", newer=False)
    use(True)
    passes_on(short_path / "3", short_path / "c", short_path / "4", "the newer again", newer=True)


def test_a_machine_that_the_newer_one_booted_goes_on_under_the_older(
    boot_files: Boot, short_path: Path, use: Use
) -> None:
    (short_path / "first").mkdir()
    use(True)
    site = QemuSite(short_path / "first", None)
    try:
        machine = site.start(boot_files)
        assert is_newer(machine)
        hand_first(site, machine, short_path / "1", "booted by the newer")
    finally:
        site.close()
    use(False)
    passes_on(short_path / "1", short_path / "a", short_path / "2", "by the older", newer=False)
