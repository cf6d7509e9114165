# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The choice of the driver that makes the machines of this host."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from hypervisor.libvirt import LibvirtDriver, SessionDriver, lacking_packages
from hypervisor.machine import Driver, MachineUnsupported
from hypervisor.qemu import QemuDriver

PROBE_SECONDS = 60.0
"""How long libvirt may take for a small machine, before `auto` does without it."""


def choose_driver(
    setting: str, run: Path, libvirt: LibvirtDriver | None = None
) -> tuple[Driver, str]:
    """The driver, and one line that says which and why.

    setting: "qemu", "libvirt", or "auto": libvirt, where its daemon answers and has started and
    ended a small machine just now, or where domains of ours run: these go on without the daemon,
    and whoever took another driver would have to end them. For an ordinary user "auto" is "qemu".
    run: the folder below which machines have theirs. libvirt: the driver to try, by default that of
    this host's daemon.
    Raises MachineUnsupported where "libvirt" is wanted and cannot be had.
    """
    if setting == "qemu":
        return QemuDriver(), "machines are processes of QEMU, as the settings say"
    if libvirt is None and os.geteuid() != 0:
        return _of_user(setting, run)
    domains = libvirt or LibvirtDriver(run)
    reason = ", ".join(domains.lacking()) or _probe(domains)
    if not reason:
        return domains, "machines are domains of libvirt: see `virsh list`"
    if setting == "libvirt":
        raise MachineUnsupported([f"what machines under libvirt need: {reason}"])
    if count := domains.running():
        return domains, (
            f"machines are domains of libvirt, of which {count} run and go on; it starts none until"
            f" there is {reason}"
        )
    return QemuDriver(), f"machines are processes of QEMU; domains of libvirt would need {reason}"


def _of_user(setting: str, run: Path) -> tuple[Driver, str]:
    if setting == "auto":
        return QemuDriver(), "machines are processes of QEMU"
    session = SessionDriver(run)
    if lacking := session.lacking():
        raise MachineUnsupported([f"what machines under libvirt need: {', '.join(lacking)}"])
    return session, "machines are domains of libvirt: see `virsh list` as this user"


def missing_for_libvirt(setting: str, run: Path, data: Path) -> Iterator[tuple[str, str]]:
    """Yield each thing that machines under libvirt lack here, and its remedy. Yield nothing for
    another setting.

    run: as for `choose_driver`. data: a folder of the daemon's, whose owner the daemon is. Libvirt
    is asked only by the daemon's user.
    """
    if setting != "libvirt":
        return
    if packages := lacking_packages():
        names = " ".join(packages)
        yield f"machines under libvirt need the packages {names}", f"`sudo apt install {names}`"
    elif data.exists() and data.stat().st_uid == os.geteuid():
        driver = LibvirtDriver(run) if os.geteuid() == 0 else SessionDriver(run)
        for clause in driver.lacking():
            yield f"machines under libvirt need {clause}", 'mend it, or say `driver = "qemu"`'


def _probe(domains: LibvirtDriver) -> str:
    """Within PROBE_SECONDS; a call that hangs in libvirt is left to itself."""
    found = [f"a libvirt that starts a machine within {PROBE_SECONDS:g} s"]

    def probe() -> None:
        found[0] = domains.probe()

    thread = threading.Thread(target=probe, name="libvirt probe", daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return found[0]
