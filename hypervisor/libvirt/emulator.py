#!/usr/bin/python3 -BIS
# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a domain's <emulator> is: libvirt runs it in QEMU's place, and it becomes QEMU.

Standard library only; it runs as the domain's user, under the domain's labels. So the driver puts
it where that user gets at it, with the launcher of the driver `qemu` beside it, which is all of
Satchel that it imports. In the run folder that the variable
SATCHEL_RUN_FOLDER names there are two files that this user may write to:

- `qemu.log` gets what QEMU says; libvirt's own log of the domain has only the command line.
- `qemu.pid` gets its number, and a lock that lasts as long as QEMU does. Who finds the lock has
  found the machine, however old the number is.

Under a user's libvirt it does not become QEMU. The daemon whose socket the variable SATCHEL_DOOR
names starts QEMU in a cell, with the monitor that libvirt made. This program waits for QEMU's end,
and hands on libvirt's SIGTERM.

Without either variable libvirt asks what QEMU can do, and QEMU answers.
"""

import fcntl
import importlib.util
import os
import select
import signal
import socket
import sys

BINARY = "qemu-system-x86_64"
FOLDER_VARIABLE = "SATCHEL_RUN_FOLDER"
DOOR_VARIABLE = "SATCHEL_DOOR"
SETUP_FAILED = 120

MONITOR = "socket,id=charmonitor,fd="
"""How libvirt's argument for its monitor begins."""

_LAUNCHER = "launch.py"


def _enter(folder: str) -> None:
    """Take over the log and the lock; both descriptors stay open in QEMU."""
    log = os.open(os.path.join(folder, "qemu.log"), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)  # noqa: PTH118
    os.dup2(log, 1)
    os.dup2(log, 2)
    lock = os.open(os.path.join(folder, "qemu.pid"), os.O_RDWR | os.O_NOFOLLOW)  # noqa: PTH118
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    os.set_inheritable(lock, True)


def _attend(door: str, argv: list[str]) -> int:
    """Have QEMU started with libvirt's monitor; return when QEMU has ended."""
    (monitor,) = (one[len(MONITOR) :].split(",")[0] for one in argv if one.startswith(MONITOR))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
        daemon.connect(door)
        socket.send_fds(daemon, [b"monitor"], [int(monitor)])
        started = daemon.recv(32)  # empty if QEMU has not been started
    os.close(int(monitor))
    if not started:
        return SETUP_FAILED
    machine = os.pidfd_open(int(started))
    signal.signal(signal.SIGTERM, lambda *_: signal.pidfd_send_signal(machine, signal.SIGTERM))
    ended = select.poll()
    ended.register(machine, select.POLLIN)
    ended.poll()
    return 0


def main(argv: list[str]) -> int:
    """Become QEMU with these arguments; returns only on failure, or when its QEMU has ended."""
    if door := os.environ.pop(DOOR_VARIABLE, ""):
        return _attend(door, argv)
    folder = os.environ.pop(FOLDER_VARIABLE, "")
    if not folder:
        os.execvp(BINARY, [BINARY, *argv])
    try:
        _enter(folder)
    except OSError as error:
        print(f"cannot use {folder}: {error}", file=sys.stderr)
        return SETUP_FAILED
    launcher = os.path.join(os.path.dirname(__file__), _LAUNCHER)  # noqa: PTH118, PTH120
    spec = importlib.util.spec_from_file_location("launch", launcher)
    assert spec is not None and spec.loader is not None
    launch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    return int(launch.main(["--", BINARY, *argv]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
