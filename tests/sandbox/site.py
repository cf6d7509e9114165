# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cell without a machine, and programs in a machine's place."""

import contextlib
import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

from sandbox import Cell, CellMounts, Cells
from satchel.confinement import HOST, Confinement
from satchel.process import Process

ATTACKER = Path(__file__).with_name("attacker.py")
MIB = 1 << 20
GUEST_MEMORY = 64 * MIB


class Site:
    """A replica's folder with a cell around it, and a host with things in it that others want: a
    key that only its owner may read, and a process of his that has it open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "replica"
        self.folder.mkdir(mode=0o700)
        self.own = self.folder / "ram.overlay"
        self.own.write_bytes(bytes(3 * 4096))
        self.secret = folder / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text("a key")
        self.drop = folder / "drop"
        self.drop.mkdir()
        (self.drop / "there").touch()
        self._decoys = contextlib.ExitStack()
        self.socket = folder / "other.sock"
        self._decoy(str(self.socket))
        self.abstract = f"satchel-decoy-{folder.name}"
        self._decoy("\0" + self.abstract)
        port = self._decoys.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = port.getsockname()[1]
        holds = f"exec sleep 600 < {shlex.quote(str(self.secret))}"
        self.neighbour = HOST.start(["/bin/sh", "-c", holds], folder / "neighbour.log")
        seen = CellMounts(self.folder, readable=[ATTACKER], volumes=[self.own])
        made = Cells().room(seen, memory=GUEST_MEMORY, processors=1, kvm=False)
        assert isinstance(made, Cell)
        self.cell = made

    def _decoy(self, address: str) -> None:
        one = self._decoys.enter_context(socket.socket(socket.AF_UNIX))
        one.bind(address)
        one.listen(16)

    def targets(self) -> dict[str, Any]:
        return {
            "files": [str(self.secret), "/etc/shadow", "/etc/passwd", "/proc/1/status"],
            "own": [str(self.own)],
            "folders": [str(self.drop), "/root", "/var/tmp"],
            "sockets": [str(self.socket)],
            "processes": [self.neighbour.pid],
            "abstract": self.abstract,
            "port": self.port,
            "variable": "SATCHEL_TEST_RUN",
            "descriptors": [0, 1, 2],
        }

    def attack(self, mode: str, room: Confinement | None = None, *, machine: bool = True) -> str:
        """What a program that attacks says before it ends or is ended."""
        process = self.begin(mode, room or self.cell, machine=machine)
        assert process.ended(120.0), f"{mode} does not end"
        return (self.folder / f"{mode}.log").read_text()

    def begin(self, mode: str, room: Confinement, *, machine: bool = True) -> Process:
        output = self.folder / f"{mode}.log"
        output.unlink(missing_ok=True)
        python = str(Path(sys.executable).resolve())
        command = [python, "-I", "-S", str(ATTACKER), json.dumps(self.targets()), mode]
        return room.start(command, output, machine=machine)

    def close(self) -> None:
        self.cell.end()
        self.neighbour.end(0.0)
        self._decoys.close()


def processes_of(folder: Path) -> list[str]:
    """Processes whose arguments name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if bytes(folder) in words:
            found.append(words.decode(errors="replace"))
    return found
