# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A place where machines of one kind are started, stopped and broken: one class per driver.

The machines of both kinds have 128 MiB and one disk, and answer the lines of guest/init.
"""

import dataclasses
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Protocol

from hypervisor import (
    Boot,
    Driver,
    FakeDriver,
    FakeMachine,
    Machine,
    MachineSpec,
    MachineState,
    QemuDriver,
    RamMount,
    Wiring,
)
from tests.waiting import eventually

ACCELERATOR = os.environ.get("SATCHEL_TEST_ACCELERATOR", "tcg")
"""What these tests' machines run under: tests/kvm runs them under KVM too."""

SPEC = MachineSpec(memory_mib=128, disks=("disk0",)).under(ACCELERATOR)
WHOLE_DISK = dataclasses.replace(SPEC, firmware="bios")
SAID = b"from disk"
_SAYS = bytes.fromhex("be137c baf803 fc 2eac 84c0 7403 ee ebf7 f4 ebfd")
BOOT_SECTOR = (_SAYS + SAID).ljust(510, b"\0") + b"\x55\xaa"
"""Writes each byte of SAID to the serial port, and halts."""

DISK_BYTES = 16 << 20
ANSWER_SECONDS = 60.0
BOOT_SECONDS = 300.0
"""The kernel of Debian 13 takes a processor for 10 s, emulated; on a busy host it gets little."""


class Lines:
    """The host's end of the agent's port: one question, one answer, a line each."""

    def __init__(self, machine: Machine) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.connect(str(machine.wiring.agent_socket))

    def __call__(self, question: str) -> str:
        self.ask(question)
        return self.answer()

    def ask(self, question: str) -> None:
        self.send(question.encode() + b"\n")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self, seconds: float = ANSWER_SECONDS) -> str:
        self._socket.settimeout(seconds)
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._socket.recv(4096)
            if not piece:
                raise EOFError("the guest hung up")
            answer += piece
        return answer.decode().strip()

    def close(self) -> None:
        self._socket.close()


class Nbd:
    """An nbdkit that serves one export on a socket in `folder`; its log says what was asked."""

    def __init__(self, folder: Path, *plugin: str, name: str = "nbd") -> None:
        self.socket = folder / f"{name}.sock"
        self._log = folder / f"{name}.log"
        command = ["nbdkit", "-f", "-U", str(self.socket), "--filter=log", *plugin]
        self.process = subprocess.Popen([*command, f"logfile={self._log}"])
        assert eventually(self.socket.exists)

    @property
    def uri(self) -> str:
        return f"nbd+unix:///?socket={self.socket}"

    def count(self, verb: str) -> int:
        """How often that was asked: Read, WriteAccess, Flush ..."""
        return self._log.read_text().count(f" {verb} id=")

    def bytes_read(self) -> int:
        counts = re.findall(r" Read id=.* count=(0x[0-9a-f]+)", self._log.read_text())
        return sum(int(count, 16) for count in counts)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)


class Site(Protocol):
    """Keeps what a machine is attached to over its generations, and cleans up after the test."""

    wiring: Wiring

    @property
    def driver(self) -> Driver: ...
    def start(self, boot: Boot | None) -> Machine: ...
    def running(self) -> Machine:
        """A machine that has been resumed from a checkpoint, or booted where that is quick."""

    def from_disk(self) -> Machine:
        """A machine that has started from its disk; later ones start so too."""

    def kill(self, machine: Machine) -> None:
        """End it as a crash does."""

    def close(self) -> None: ...


class FakeSite:
    def __init__(self, folder: Path) -> None:
        self._driver = FakeDriver(LineGuest, accelerators=(ACCELERATOR,))
        self._spec = SPEC
        ram = folder / "ram"
        make_sparse(ram, SPEC.memory_bytes)
        self.wiring = Wiring(folder, ram, {"disk0": "nbd+unix:///disk0?socket=/none"})

    @property
    def driver(self) -> Driver:
        return self._driver

    def start(self, boot: Boot | None) -> Machine:
        return self._driver.start(self._spec, self.wiring, boot)

    def running(self) -> Machine:
        return self.start(Boot(Path("vmlinuz"), Path("initrd"), ""))

    def from_disk(self) -> Machine:
        self._spec = WHOLE_DISK
        return self.start(Boot())

    def kill(self, machine: Machine) -> None:
        assert isinstance(machine, FakeMachine)
        machine.crash()

    def close(self) -> None:
        for machine in self._driver.machines:
            machine.stop()


class LineGuest:
    """The twin of guest/init, as far as the contract suite asks."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = ""
        self._pending = b""

    def receive(self, data: bytes) -> bytes:
        *lines, self._pending = (self._pending + data).split(b"\n")
        return b"".join(self._answer(line.decode()) + b"\n" for line in lines)

    def freeze(self) -> bytes:
        return json.dumps([self._count, self._sum, self._pending.decode()]).encode()

    def thaw(self, memory: bytes) -> None:
        self._count, self._sum, pending = json.loads(memory)
        self._pending = pending.encode()

    def _answer(self, line: str) -> bytes:
        if line == "count":
            self._count += 1
            return str(self._count).encode()
        if line.startswith("fill "):
            self._sum = hashlib.sha256(os.urandom(16)).hexdigest() + "  -"
        return self._sum.encode()


class QemuSite:
    """checkpoint: a folder with `ram` and `device-state` of SPEC, booted and ready; or None.

    driver: of machines that are QEMU processes, whoever starts them.
    """

    def __init__(self, folder: Path, checkpoint: Path | None, driver: Driver | None = None) -> None:
        self.driver = driver or QemuDriver()
        self._checkpoint = checkpoint
        self._spec = SPEC
        self._machines: list[Machine] = []
        disk, ram = folder / "disk", folder / "ram"
        make_sparse(disk, DISK_BYTES)
        make_sparse(ram, SPEC.memory_bytes)
        self.disk = disk
        self.nbd = Nbd(folder, "file", str(disk))
        self.wiring = Wiring(folder, ram, {"disk0": self.nbd.uri})

    def start(self, boot: Boot | None) -> Machine:
        machine = self.driver.start(self._spec, self.wiring, boot)
        self._machines.append(machine)
        return machine

    def running(self) -> Machine:
        assert self._checkpoint is not None
        copy_sparse(self._checkpoint / "ram", self.wiring.ram)
        machine = self.start(None)
        machine.load(self._checkpoint / "device-state")
        machine.resume()
        return machine

    def from_disk(self) -> Machine:
        self._spec = WHOLE_DISK
        with self.disk.open("r+b") as file:
            file.write(BOOT_SECTOR)
        machine = self.start(Boot())
        assert eventually(lambda: SAID in self.wiring.console_log.read_bytes(), BOOT_SECONDS)
        return machine

    def kill(self, machine: Machine) -> None:
        os.kill(machine.pid, signal.SIGKILL)
        assert eventually(lambda: machine.state is MachineState.FAILED)

    def close(self) -> None:
        for machine in self._machines:
            machine.stop()
        self.nbd.stop()


class LazySite:
    """A QEMU site whose RAM file is served over NBD; the volume is the file `volume`."""

    def __init__(self, site: QemuSite, folder: Path, volume: Path) -> None:
        self._site = site
        self._folder = folder
        self._volume = volume
        self.attach()

    def attach(self) -> None:
        self.nbd = Nbd(self._folder, "file", str(self._volume), name="ramnbd")
        self.mount = RamMount.mount(self.nbd.uri, self._folder / "memory")
        self._site.wiring = dataclasses.replace(self._site.wiring, ram=self.mount.file)

    def start(self, boot: Boot | None) -> Machine:
        return self._site.start(boot)

    def detach(self) -> None:
        self.mount.unmount()
        self.nbd.stop()


def make_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def copy_sparse(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--sparse=always", str(source), str(target)], check=True)


def open_files(folder: Path) -> list[Path]:
    """The sockets and pid files in a run folder."""
    return [path for path in folder.iterdir() if path.is_socket() or path.suffix == ".pid"]
