# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Starts and finds machines that are QEMU processes."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from hypervisor.machine import (
    LOCK_FILE,
    PID_FILE,
    Boot,
    MachineFailed,
    MachineSpec,
    MachineUnsupported,
    Wiring,
    check_wiring,
)
from hypervisor.qemu import abilities, argv, launch
from hypervisor.qemu.guest import MONITOR_SOCKET, OUTPUT, IncomingState, QemuMachine
from hypervisor.qemu.stream import listening
from satchel.process import Process

_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of fcntl(2): type, whence, start, length, process."""


class QemuDriver:
    """See hypervisor.Driver."""

    name = "qemu"

    def lacks(self, accelerator: str) -> str:
        return abilities.lacks_accelerator(accelerator)

    def check(self, spec: MachineSpec) -> None:
        if lacking := abilities.lacking(spec):
            raise MachineUnsupported(lacking)

    def start(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> QemuMachine:
        self.check(spec)
        wiring, boot = absolute(wiring), absolute_boot(boot)
        check_wiring(spec, wiring)
        machine = None
        try:
            machine = launch_machine(spec, wiring, boot)
            machine.begin(incoming=boot is None)
        except BaseException:
            if machine is not None:
                machine.stop()
            raise
        return machine

    def adopt(self, spec: MachineSpec, wiring: Wiring) -> QemuMachine:
        wiring = absolute(wiring)
        held = LOCK_FILE if wiring.room.confined else PID_FILE
        machine = QemuMachine(wiring, running(wiring.run_dir, held))
        machine.join()
        return machine


def launch_machine(
    spec: MachineSpec, wiring: Wiring, boot: Boot | None, monitors: Sequence[int] = ()
) -> QemuMachine:
    """QEMU, started in the wiring's room, as an unborn machine: `begin` is its next call.

    The wiring has passed check_wiring, and all paths are absolute. monitors: listening sockets of
    others who want a monitor. Leaves nothing behind when it raises.
    """
    paths = {"monitor_fd": wiring.run_dir / MONITOR_SOCKET, "agent_fd": wiring.agent_socket}
    if spec.shares:
        paths["shares_fd"] = wiring.shares_socket
    if spec.streams:
        paths["streams_fd"] = wiring.streams_socket
    try:
        with contextlib.ExitStack() as stack:
            fds = {name: stack.enter_context(listening(paths[name])).fileno() for name in paths}
            incoming = _channel(stack) if wiring.room.confined and boot is None else None
            inherited = (*fds.values(), *monitors, *([incoming.theirs] if incoming else []))
            for path in paths.values():
                wiring.room.give(path)
            command = argv.command(spec, wiring, boot, **fds)
            for number in monitors:
                command += argv.monitor(number, f"monitor{number}")
            launcher = (sys.executable, "-I", "-S", launch.__file__, "--")
            process = wiring.room.start(
                command,
                wiring.run_dir / OUTPUT,
                launcher=launcher,
                inherited=inherited,
                machine=True,
            )
            machine = QemuMachine(wiring, process, incoming=incoming)
            if wiring.room.confined:
                (wiring.run_dir / PID_FILE).write_text(f"{process.pid}\n", encoding="ascii")
            return machine
    except BaseException:
        for path in paths.values():
            path.unlink(missing_ok=True)
        raise


def _channel(stack: contextlib.ExitStack) -> IncomingState:
    """A way for a device state into a machine that can make no socket. Their end lives as long as
    the stack, and in the machine."""
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    return IncomingState(ours, theirs.fileno())


def absolute(wiring: Wiring) -> Wiring:
    run_dir, ram = Path(wiring.run_dir).absolute(), Path(wiring.ram).absolute()
    return dataclasses.replace(wiring, run_dir=run_dir, ram=ram)


def absolute_boot(boot: Boot | None) -> Boot | None:
    if boot is None:
        return None
    return boot.moved(Path.absolute)


def running(run_dir: Path, held: str) -> Process:
    """Return the process that holds the lock of that file. Raises MachineFailed if none does."""
    pid = lock_holder(run_dir / held)
    process = Process.find(pid, run_dir / OUTPUT) if pid else None
    if process is None:
        raise MachineFailed(f"no machine runs in {run_dir}", fix="start another one")
    return process


def lock_holder(path: Path) -> int:
    """The process that holds a lock on that file, as QEMU does while it lives; 0: none."""
    try:
        with path.open("rb") as file:
            question = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, question)
    except OSError:
        return 0
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return 0 if kind == fcntl.F_UNLCK else int(pid)
