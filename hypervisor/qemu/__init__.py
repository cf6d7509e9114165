# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The driver whose machines are QEMU processes.

- argv: from a spec to QEMU's arguments, and why each is as it is; pure
- launch: the small program that becomes QEMU after giving up what QEMU does not need
- monitor (qmp): QEMU's control socket
- stream: how a device state travels between QEMU and us
- guest: one such machine
- abilities, kvm: what this host's QEMU can be
"""

from hypervisor.qemu.driver import QemuDriver

__all__ = ["QemuDriver"]
