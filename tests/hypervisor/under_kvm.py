# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a host whose KVM works. tests/kvm has it run there, with SATCHEL_HANDED, a
folder that stays: `tcg` in it is a machine that the host beside has emulated. Left to that host are
`left/kvm`, the same machine later, and `left/booted`, another one, which booted here."""

import os
from pathlib import Path

import pytest

from hypervisor import HostOffer, QemuDriver
from hypervisor.qemu import kvm
from tests.hypervisor.handed import Traveller, hand_first
from tests.hypervisor.site import QemuSite

pytestmark = [pytest.mark.kvm, pytest.mark.machine]

HANDED = Path(os.environ["SATCHEL_HANDED"])


def test_the_probe_finds_a_kvm_that_runs_guests() -> None:
    assert kvm.lacking() == ""
    offer = HostOffer.of(QemuDriver())
    assert offer.accelerators == ("kvm", "tcg")
    assert str(offer) == "runs machines under KVM"


def test_a_machine_that_booted_here_is_handed_on(qemu_site: QemuSite) -> None:
    hand_first(qemu_site, qemu_site.running(), HANDED / "left" / "booted", "under KVM")


def test_an_emulated_machine_goes_on_here_and_is_handed_back(short_path: Path) -> None:
    traveller = Traveller(HANDED / "tcg", short_path)
    try:
        traveller.hand_on(HANDED / "left" / "kvm", "back from KVM")
    finally:
        traveller.close()
