# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The driver whose machines are domains of libvirt: libvirt starts, confines and shows them.

- domain: from a spec to the XML of a domain, and what may stand in it; pure
- daemon: libvirt's daemon, and Debian's binding to it
- emulator: the program that libvirt runs in QEMU's place, and that becomes QEMU or has it started
- driver: starts and finds domains of the host's libvirt, for a daemon that is root
- session: the same for the libvirt of an ordinary user, whose machines are in cells

A machine is spoken to as one of the driver `qemu` is, over a monitor of its own. So it goes on, and
can be frozen and ended, while libvirt's daemon is away.
"""

from hypervisor.libvirt.daemon import lacking_packages
from hypervisor.libvirt.driver import LibvirtDriver
from hypervisor.libvirt.session import SessionDriver

__all__ = ["LibvirtDriver", "SessionDriver", "lacking_packages"]
