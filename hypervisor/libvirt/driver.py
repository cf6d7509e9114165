# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Starts and finds machines that are domains of libvirt."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from functools import partial
from pathlib import Path

from hypervisor.libvirt.access import group_of_kvm, let_in
from hypervisor.libvirt.daemon import Daemon, LibvirtUnavailable, Limits
from hypervisor.libvirt.domain import FOLDER, DomainIdentity, domain_xml
from hypervisor.libvirt.tools import installed
from hypervisor.machine import (
    PID_FILE,
    Boot,
    MachineFailed,
    MachineSpec,
    MachineUnsupported,
    Wiring,
    check_wiring,
)
from hypervisor.qemu import QemuDriver, argv
from hypervisor.qemu.driver import absolute, lock_holder, running
from hypervisor.qemu.guest import OUTPUT, QemuMachine
from satchel.errors import SatchelError
from satchel.process import printable_tail

logger = logging.getLogger(__name__)

BOOT_FILES = ("kernel", "initrd")

_PROBE = MachineSpec(memory_mib=16, disks=())

OVERHEAD_MIB = 320
"""What a machine may have beside its guest's memory: translated code, and QEMU itself."""


class LibvirtDriver:
    """See hypervisor.Driver. Needs root, and libvirt's daemon of the system.

    run: machines' run folders are below it. Their users must get into it, so it and what is between
        are opened for that; what is above must be open to others already.
    daemon: libvirt's, by default the one of this host. tools: where the programs are put that
    libvirt runs, by default a folder in `run`; libvirt asks what QEMU can do once for each.
    """

    name = "libvirt"

    def __init__(self, run: Path, daemon: Daemon | None = None, tools: Path | None = None) -> None:
        self._run = run.absolute()
        self._daemon = daemon or Daemon()
        self._tools = (tools or run / "tools").absolute()
        self._host = QemuDriver()

    def lacking(self) -> list[str]:
        """What this host lacks for domains of ours, one clause each. Asks the daemon, and starts
        nothing."""
        if os.geteuid() != 0:
            return ["root, without which no domain has a user of its own"]
        found = [
            f"a way for other users into {folder} (chmod o+x)"
            for folder in self._run.parents
            if folder.exists() and not folder.stat().st_mode & 0o001
        ]
        held = next(folder for folder in (self._tools, *self._tools.parents) if folder.exists())
        if os.statvfs(held).f_flag & os.ST_NOEXEC:
            found.append(f"a way to run programs from {self._tools} (it is mounted noexec)")
        try:
            self._daemon.version()
        except LibvirtUnavailable as error:
            found.append(f"a libvirt that answers ({error.why or error})")
        return found

    def lacks(self, accelerator: str) -> str:
        return self._host.lacks(accelerator)

    def check(self, spec: MachineSpec) -> None:
        self._host.check(spec)
        if lacking := self.lacking():
            raise MachineUnsupported(lacking)

    def start(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> QemuMachine:
        self.check(spec)
        wiring = absolute(wiring)
        check_wiring(spec, wiring)
        who = DomainIdentity.of(wiring)
        machine = None
        try:
            self._daemon.destroy(who.uuid)  # what is left of an earlier machine in this folder
            boot = self._prepare(wiring, boot, who.uid)
            self._create(spec, wiring, boot)
            machine = self._found(wiring)
            machine.begin(incoming=boot is None)
            for path in (wiring.run_dir / name for name in BOOT_FILES):
                path.unlink(missing_ok=True)  # QEMU has read them
        except BaseException as error:
            with contextlib.suppress(SatchelError):
                self._daemon.destroy(who.uuid)
            said = printable_tail(wiring.run_dir / OUTPUT)
            if machine is not None:
                machine.stop()
            _clear(wiring)
            if isinstance(error, LibvirtUnavailable | OSError):
                why = getattr(error, "why", "") or str(error)
                why += f"\noutput: {said or '(none)'}"
                raise MachineFailed(f"cannot start the domain {who.name}", why=why) from error
            raise
        return machine

    def adopt(self, spec: MachineSpec, wiring: Wiring) -> QemuMachine:
        machine = self._found(absolute(wiring))
        machine.join()
        return machine

    def running(self) -> int:
        """How many domains of ours run in folders of replicas, whether libvirt answers or not."""
        folders = self._run.glob(f"*/*/{FOLDER}")
        return sum(lock_holder(folder.with_name(PID_FILE)) != 0 for folder in folders)

    def probe(self) -> str:
        """Start a small machine and end it; what went wrong, empty if nothing did. So everything
        that libvirt does for a machine was done once: its user, its labels, its log."""
        run = self._run / "probe"  # always the same: what one that was killed leaves is found
        run.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with (run / "ram").open("wb") as file:
                file.truncate(_PROBE.memory_bytes)
            self.start(_PROBE, Wiring(run, run / "ram"), None).stop()
        except SatchelError as error:
            return "; ".join(str(error).splitlines())
        finally:
            shutil.rmtree(run, ignore_errors=True)
        return ""

    def _create(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> None:
        limits = Limits(spec.memory_mib + OVERHEAD_MIB, spec.vcpus + 1)
        group = group_of_kvm() if spec.accelerator == "kvm" else None
        program = installed(self._tools)
        xml = domain_xml(spec, wiring, boot, program, group=group)
        lacking = self._daemon.create(xml, limits)
        if lacking:
            logger.warning("libvirt sets no limits to machines here: %s", lacking)

    def _prepare(self, wiring: Wiring, boot: Boot | None, uid: int) -> Boot | None:
        """Let that user in, as far as the machine needs it: it can make files in one folder, write
        to two that are there, and use the volumes. Kernel and RAM disk are copied for it."""
        run = wiring.run_dir
        for folder in run.parents:
            if folder.is_relative_to(self._run):
                folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)
        let_in(run, uid)
        (run / FOLDER).mkdir(exist_ok=True)
        given = [run / FOLDER, run / OUTPUT, run / PID_FILE]
        for path in given[1:]:
            path.unlink(missing_ok=True)
            path.touch(0o600, exist_ok=False)
        given += [Path(argv.parse_uri(uri)[1]) for uri in wiring.disks.values()]
        given += [wiring.ram]
        if boot is not None:
            names = iter(BOOT_FILES)
            boot = boot.moved(lambda path: _copied(path, run / next(names)))
            given += boot.files
        device = run.stat().st_dev
        for path in given:
            if path.is_relative_to(run) and path.stat().st_dev == device:  # no RAM mount
                os.chown(path, uid, uid)
                path.chmod(0o700 if path.is_dir() else 0o600)
        return boot

    def _found(self, wiring: Wiring) -> QemuMachine:
        """The machine whose QEMU holds the lock there. Raises MachineFailed."""
        process = running(wiring.run_dir, PID_FILE)
        weigh = partial(self._weigh, DomainIdentity.of(wiring))
        return QemuMachine(wiring, process, wiring.run_dir / FOLDER, weigh=weigh)

    def _weigh(self, who: DomainIdentity, weight: int) -> None:
        """A thread asks libvirt: no operation waits for a libvirt that does not answer."""

        def ask() -> None:
            try:
                self._daemon.weigh(who.uuid, weight)
            except LibvirtUnavailable as error:
                logger.info("%s keeps its part of the processors: %s", who.name, error.why)

        threading.Thread(target=ask, name="libvirt weight", daemon=True).start()


def _copied(source: Path, target: Path) -> Path:
    shutil.copyfile(source, target)
    return target


def _clear(wiring: Wiring) -> None:
    """Remove what a failed start leaves."""
    sockets = (wiring.agent_socket, wiring.shares_socket, wiring.streams_socket)
    for path in (*sockets, wiring.run_dir / PID_FILE):
        path.unlink(missing_ok=True)
    shutil.rmtree(wiring.run_dir / FOLDER, ignore_errors=True)
