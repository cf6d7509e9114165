# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machines: start, freeze, thaw and end guests whose RAM and disks live elsewhere.

- machine: one guest, from start to stop
- machine spec: what a guest needs of a host; part of a checkpoint
- boot: a first start, from a kernel
- device state: all of a paused machine but its RAM and disks; some hundred kilobytes
- wiring: the RAM file and the disks' NBD addresses that a machine is attached to on this host
- driver: what makes machines: `qemu`, `libvirt`, and their twin in memory, `fake`
- placement: under which accelerator a machine runs on a host; offer: what a host can run
- RAM mount: a RAM volume, served over NBD, as the file that a machine maps

A checkpoint of a machine is: pause, save, RamMount.sync, keep what the volumes hold now, resume.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from hypervisor.choice import choose_driver, missing_for_libvirt
    from hypervisor.fake import FakeDriver, FakeGuest, FakeMachine
    from hypervisor.libvirt import LibvirtDriver, SessionDriver
    from hypervisor.machine import (
        CONFINED_FILES,
        CONSOLE_LOG,
        FIRMWARES,
        LAUNCHER,
        Boot,
        DeviceStateRefused,
        Driver,
        Machine,
        MachineFailed,
        MachineSpec,
        MachineState,
        MachineStateError,
        MachineStuck,
        MachineUnsupported,
        SpecInvalid,
        Wiring,
    )
    from hypervisor.placement import AUTO, WISHES, HostOffer, place
    from hypervisor.qemu import QemuDriver
    from hypervisor.qemu.kvm import kvm_denied_to
    from hypervisor.ram import FIRST_BOOT_READ_AHEAD_KIB, READY, RamMount, RamMountFailed
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "AUTO",
    "CONFINED_FILES",
    "CONSOLE_LOG",
    "FIRMWARES",
    "FIRST_BOOT_READ_AHEAD_KIB",
    "LAUNCHER",
    "READY",
    "WISHES",
    "Boot",
    "DeviceStateRefused",
    "Driver",
    "FakeDriver",
    "FakeGuest",
    "FakeMachine",
    "HostOffer",
    "LibvirtDriver",
    "Machine",
    "MachineFailed",
    "MachineSpec",
    "MachineState",
    "MachineStateError",
    "MachineStuck",
    "MachineUnsupported",
    "QemuDriver",
    "RamMount",
    "RamMountFailed",
    "SessionDriver",
    "SpecInvalid",
    "Wiring",
    "choose_driver",
    "kvm_denied_to",
    "missing_for_libvirt",
    "place",
]
