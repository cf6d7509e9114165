# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A clean root on a disk, booted by a kernel of its own in a machine that QEMU emulates.

What namespaces on this host cannot show is real here: udev, control groups with all controllers,
devices that a unit may not open, people's own service managers. A small program in the machine runs
what it is told over a virtio port, and answers there.
"""

import contextlib
import json
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.debian_kernel import FIRST
from tests.package.clean_root import BOOT_SECONDS, SECONDS, CleanRoot, Machine
from tests.waiting import eventually

KERNEL = ["linux-image-cloud-amd64", "udev", "dbus", "dbus-user-session", "libpam-systemd"]
"""Packages of Debian, beside what boots in namespaces."""

DISK_MIB = 6144
MEMORY = "4G"

ANSWER = """
import json, subprocess
with open("/dev/virtio-ports/satchel", "r+b", buffering=0) as port:
    for line in port:
        done = subprocess.run(json.loads(line), stdin=subprocess.DEVNULL, capture_output=True)
        said = [done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")]
        rest = json.dumps([done.returncode, *said]).encode() + b"\\n"
        while rest:  # a port takes 32 KiB at a time
            rest = rest[port.write(rest):]
"""
UNIT = r"""
[Unit]
BindsTo=dev-virtio\x2dports-satchel.device
After=dev-virtio\x2dports-satchel.device
[Service]
ExecStart=/usr/bin/python3 -I /usr/local/lib/answer.py
[Install]
WantedBy=multi-user.target
"""
SLOW = "[Manager]\nDefaultTimeoutStartSec=600\n"
"""For systemd: beside a guest a daemon takes longer to start than on a real machine."""


class Emulated(Machine):
    """See the module. connection: to its port."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("r")

    def run(self, *argv: str, user: str = "root", seconds: float = SECONDS) -> str:
        code, said, complaint = self.tries(*argv, user=user, seconds=seconds)
        assert code == 0, f"{shlex.join(argv)} ended with {code}: {said}{complaint}"
        return said

    def tries(
        self, *argv: str, user: str = "root", seconds: float = SECONDS
    ) -> tuple[int, str, str]:
        """The exit code, what went to standard output, and what to standard error."""
        command = ["su", "-", user, "-c", shlex.join(argv)]
        self._connection.settimeout(seconds)
        self._connection.sendall(json.dumps(command).encode() + b"\n")
        code, said, complaint = json.loads(self._answers.readline())
        return code, said, complaint


def disk_of(root: CleanRoot, disk: Path) -> None:
    """Write that root, which has KERNEL, to a disk that `booted` takes."""
    folder = root.folder
    (folder / "etc/fstab").write_text("/dev/vda / ext4 noatime 0 1\n")
    (folder / "etc/hostname").write_text("emulated\n")
    (folder / "etc/machine-id").write_text("")
    (folder / "usr/local/lib/answer.py").write_text(ANSWER)
    (folder / "etc/systemd/system/answer.service").write_text(UNIT)
    for manager in ("system", "user"):
        limits = folder / f"etc/systemd/{manager}.conf.d/slow.conf"
        limits.parent.mkdir()
        limits.write_text(SLOW)
    root.run("systemctl", "enable", "answer")
    argv = ["mke2fs", "-q", "-t", "ext4", "-d", str(folder), str(disk), f"{DISK_MIB}M"]
    subprocess.run(argv, check=True)


@contextlib.contextmanager
def booted(root: CleanRoot, disk: Path, socket_at: Path) -> Iterator[Emulated]:
    """That disk's machine, once all its units are up or have failed. What is written to the disk
    goes with the machine. socket_at: a short path."""
    log = disk.with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen(
            _argv(root.folder, disk, socket_at), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        assert eventually(socket_at.exists), log.read_text()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(socket_at))
            machine = Emulated(connection)
            began = time.monotonic()
            machine.tries("systemctl", "is-system-running", "--wait", seconds=BOOT_SECONDS)
            print(f"systemd is up after {time.monotonic() - began:.0f} s")
            yield machine
    finally:
        process.kill()
        process.wait()


def _argv(root: Path, disk: Path, socket_at: Path) -> Sequence[str]:
    """One processor: two hang in QEMU 7.2 when a machine runs in them (docs/results.md)."""
    argv = [*FIRST, "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot"]
    argv += ["-display", "none", "-monitor", "none", "-serial", "stdio"]
    argv += ["-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", MEMORY]
    argv += ["-drive", f"if=virtio,format=raw,snapshot=on,file={disk}"]
    argv += ["-device", "virtio-rng-pci", "-device", "virtio-serial"]
    argv += ["-chardev", f"socket,id=port,path={socket_at},server=on,wait=off"]
    argv += ["-device", "virtserialport,chardev=port,name=satchel"]
    argv += ["-kernel", str(root / "vmlinuz"), "-initrd", str(root / "initrd.img")]
    words = "root=/dev/vda rw console=ttyS0 quiet mitigations=off systemd.show_status=no"
    return [*argv, "-append", words]
