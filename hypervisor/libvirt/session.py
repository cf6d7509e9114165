# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machines that are domains of the libvirt of an ordinary user, `qemu:///session`.

This libvirt has no more rights than the daemon, and confines and limits nothing. So QEMU runs in
the machine's cell, as it does without libvirt, with the same arguments. Libvirt starts the
emulator. The emulator hands libvirt's monitor to this driver, which starts QEMU with it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hypervisor.libvirt.daemon import SESSION, Daemon, LibvirtUnavailable
from hypervisor.libvirt.domain import DomainIdentity, session_xml
from hypervisor.libvirt.tools import session_emulator
from hypervisor.machine import (
    Boot,
    MachineFailed,
    MachineSpec,
    MachineState,
    MachineUnsupported,
    Wiring,
    check_wiring,
)
from hypervisor.qemu import QemuDriver
from hypervisor.qemu.driver import absolute, absolute_boot, launch_machine
from hypervisor.qemu.guest import QemuMachine
from hypervisor.qemu.stream import listening
from satchel.errors import SatchelError

DOORS = "libvirt"
"""In the run folder, where no cell sees it: the sockets at which emulators find this driver."""

_SLICE_SECONDS = 0.2


class SessionDriver:
    """See hypervisor.Driver. Needs no rights; its machines can have cells.

    run: machines' run folders are below it. daemon: libvirt's, by default that of this user.
    """

    name = "libvirt-session"

    def __init__(self, run: Path, daemon: Daemon | None = None) -> None:
        self._doors = run.absolute() / DOORS
        self._daemon = daemon or Daemon(SESSION)
        self._host = QemuDriver()

    def lacking(self) -> list[str]:
        """Return one clause for each thing that domains lack here. Libvirt's daemon is started."""
        try:
            self._daemon.version()
        except LibvirtUnavailable as error:
            return [f"a libvirt that answers ({error.why or error.what})"]
        return []

    def lacks(self, accelerator: str) -> str:
        return self._host.lacks(accelerator)

    def check(self, spec: MachineSpec) -> None:
        self._host.check(spec)
        if lacking := self.lacking():
            raise MachineUnsupported(lacking, 'start libvirt, or say driver = "qemu"')

    def start(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> QemuMachine:
        self.check(spec)
        wiring, boot = absolute(wiring), absolute_boot(boot)
        check_wiring(spec, wiring)
        who = DomainIdentity.of(wiring)
        machine = None
        try:
            self._daemon.destroy(who.uuid)  # an earlier machine's in this folder
            with self._creating(spec, wiring) as (door, created):
                with _asked(door, created) as (emulator, monitor):
                    machine = launch_machine(spec, wiring, boot, [monitor])
                    emulator.sendall(f"{machine.pid}\n".encode())
                created.result()
            machine.begin(incoming=boot is None)
        except BaseException as error:
            why = self._undo(who, machine)
            if isinstance(error, LibvirtUnavailable):
                what = f"cannot start the domain {who.name}"
                raise MachineFailed(what, why=why or error.why) from error
            raise
        return machine

    def adopt(self, spec: MachineSpec, wiring: Wiring) -> QemuMachine:
        return self._host.adopt(spec, wiring)

    @contextlib.contextmanager
    def _creating(
        self, spec: MachineSpec, wiring: Wiring
    ) -> Iterator[tuple[socket.socket, Future[str]]]:
        """The socket to which the emulator comes, and what becomes of the domain."""
        self._doors.mkdir(mode=0o700, exist_ok=True)
        path = self._doors / DomainIdentity.of(wiring).uuid.hex[:12]
        xml = session_xml(spec, wiring, session_emulator(), path)
        try:
            with listening(path) as door, ThreadPoolExecutor(1, "libvirt") as pool:
                yield door, pool.submit(self._daemon.create, xml)
        finally:
            path.unlink(missing_ok=True)

    def _undo(self, who: DomainIdentity, machine: QemuMachine | None) -> str:
        """Leave nothing of a failed start. Return why the machine failed, if it did."""
        why = ""
        if machine is not None:
            if machine.state is MachineState.FAILED:
                why = machine.failure() or ""
            machine.stop()
        with contextlib.suppress(SatchelError):
            self._daemon.destroy(who.uuid)
        return why


@contextlib.contextmanager
def _asked(door: socket.socket, created: Future[str]) -> Iterator[tuple[socket.socket, int]]:
    """The emulator, which waits for a process number, and the descriptor of libvirt's monitor.
    Raises LibvirtUnavailable if libvirt gives up before the emulator has come."""
    door.settimeout(_SLICE_SECONDS)
    while True:
        try:
            emulator, _ = door.accept()
            break
        except TimeoutError:
            if created.done():
                created.result()
                raise LibvirtUnavailable("libvirt did not start the emulator") from None
    with emulator:
        emulator.settimeout(None)
        _, (monitor,), _, _ = socket.recv_fds(emulator, 16, 1)
        try:
            yield emulator, monitor
        finally:
            os.close(monitor)
