# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The driver whose machines are domains of libvirt: libvirt starts, confines and shows them.

- domain: from a spec to the XML of a domain, and what may stand in it; pure
- daemon: libvirt's daemon, and Debian's binding to it
- emulator: the program that libvirt runs in QEMU's place, and that becomes QEMU
- driver: starts and finds domains

A machine is spoken to as one of the driver `qemu` is, over a monitor of its own. So it goes on, and
can be frozen and ended, while libvirt's daemon is away.
"""

from hypervisor.libvirt.driver import LibvirtDriver

__all__ = ["LibvirtDriver"]
