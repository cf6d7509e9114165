# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under which accelerator a machine runs on a host, and what is said where it cannot."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from hypervisor import (
    FakeDriver,
    HostOffer,
    LibvirtDriver,
    MachineSpec,
    MachineUnsupported,
    QemuDriver,
    choose_driver,
    place,
)
from hypervisor.libvirt.daemon import Daemon
from tests.hypervisor.site import LineGuest

TRAVELLER = MachineSpec(64, ("disk0",))
SETTLED = dataclasses.replace(TRAVELLER, portable=False)


def host(*accelerators: str) -> FakeDriver:
    return FakeDriver(LineGuest, accelerators=accelerators)


@pytest.mark.parametrize("ran", ["kvm", "tcg"])
@pytest.mark.parametrize(("here", "under"), [(("kvm", "tcg"), "kvm"), (("tcg",), "tcg")])
def test_a_portable_machine_takes_the_fastest_accelerator_that_there_is(
    ran: str, here: tuple[str, ...], under: str
) -> None:
    assert place(host(*here), TRAVELLER.under(ran)) == TRAVELLER.under(under)


def test_what_is_wished_for_is_taken_or_refused() -> None:
    assert place(host("kvm", "tcg"), TRAVELLER, "tcg").accelerator == "tcg"
    with pytest.raises(MachineUnsupported, match=r"lacks kvm in this test; .*accelerator auto"):
        place(host("tcg"), TRAVELLER, "kvm")


def test_a_machine_that_is_not_portable_stays_where_it_was() -> None:
    assert place(host("kvm", "tcg"), SETTLED).accelerator == "tcg"
    under_kvm = dataclasses.replace(SETTLED, accelerator="kvm")
    assert place(host("kvm", "tcg"), under_kvm).accelerator == "kvm"
    with pytest.raises(MachineUnsupported, match=r"lacks kvm.*use a host that runs it under KVM"):
        place(host("tcg"), under_kvm)
    with pytest.raises(MachineUnsupported, match=r"emulation, where this machine ran, to KVM"):
        place(host("kvm", "tcg"), SETTLED, "kvm")


def test_a_host_that_lacks_the_same_for_both_says_it_once() -> None:
    driver = host("kvm", "tcg")
    driver.lacking = ("a soul",)
    with pytest.raises(MachineUnsupported) as caught:
        place(driver, TRAVELLER)
    assert caught.value.lacking == ("a soul",)


def test_an_offer_is_one_line_with_the_reason() -> None:
    assert str(HostOffer.of(host("kvm", "tcg"))) == "runs machines under KVM"
    assert str(HostOffer.of(host("tcg"))) == "emulates machines: KVM lacks kvm in this test"
    nothing = HostOffer.of(host())
    assert nothing.accelerators == ()
    assert str(nothing).startswith("runs no machine: KVM lacks kvm in this test; emulation lacks")


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
"""What QEMU does with its pid file."""


def test_auto_keeps_to_libvirt_while_domains_run_that_it_started(short_path: Path) -> None:
    """No libvirt answers; a domain is known by its folder, and runs while its file is locked."""
    nobody = Daemon(f"qemu+unix:///system?socket={short_path}/none")
    libvirt = LibvirtDriver(short_path, nobody)
    folder = short_path / "r" / "notes-1"
    (folder / "machine").mkdir(parents=True)
    argv = [sys.executable, "-c", HOLDER, str(folder / "qemu.pid")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            driver, line = choose_driver("auto", short_path, libvirt)
        finally:
            holder.kill()
    assert driver is libvirt
    assert "of which 1 run and go on" in line
    driver, line = choose_driver("auto", short_path, libvirt)
    assert isinstance(driver, QemuDriver), line
