# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A test guest that goes from host to host in a folder: its RAM, its device state, its disk, and
what it must remember. Each host resumes it lazily, from RAM that comes over NBD and FUSE."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hypervisor import Machine
from tests.hypervisor.site import LazySite, Lines, QemuSite, copy_sparse

FILLED = 3_000_000
"""Bytes of noise that the guest keeps in its memory, by their sum."""


@dataclass(frozen=True)
class Memory:
    """What a guest knows: how often it has counted, the sum of its noise, its disk's content."""

    count: int
    sum: str
    disk: str

    @classmethod
    def made(cls, machine: Machine, disk: str) -> Memory:
        """Have the guest count, write that to its disk, and fill some memory anew."""
        agent = Lines(machine)
        assert agent(f"write {disk}") == "ok"
        filled = agent(f"fill {FILLED}")
        made = cls(int(agent("count")), filled, disk)
        agent.close()
        return made

    def check(self, machine: Machine) -> None:
        """The guest knows this, and has counted once more."""
        agent = Lines(machine)
        assert agent("sum") == self.sum
        assert agent("read") == self.disk
        assert int(agent("count")) == self.count + 1
        agent.close()


class Traveller:
    """The guest of the checkpoint in `handed`, resumed in `folder`, which is empty and short."""

    def __init__(self, handed: Path, folder: Path) -> None:
        self._site = QemuSite(folder, None)
        self._volume = folder / "volume"
        copy_sparse(handed / "ram", self._volume)
        copy_sparse(handed / "disk", self._site.disk)
        self._lazy = LazySite(self._site, folder, self._volume)
        self.machine = self._lazy.start(None)
        self.machine.load(handed / "device-state")
        self.machine.resume()
        Memory(**json.loads((handed / "memory.json").read_text())).check(self.machine)

    def hand_on(self, handed: Path, disk: str) -> None:
        """Let it work, and leave a checkpoint there for the next host. It is stopped."""
        memory = Memory.made(self.machine, disk)
        self.machine.pause()
        handed.mkdir()
        self.machine.save(handed / "device-state")
        self._lazy.mount.sync()
        keep(handed, self._volume, self._site.disk, memory)

    def close(self) -> None:
        self._lazy.mount.abort()
        self._site.close()
        self._lazy.detach()


def hand_first(site: QemuSite, machine: Machine, handed: Path, disk: str) -> None:
    """Of a running machine of that site, whose RAM is a plain file."""
    memory = Memory.made(machine, disk)
    machine.pause()
    handed.mkdir()
    machine.save(handed / "device-state")
    keep(handed, site.wiring.ram, site.disk, memory)


def keep(handed: Path, ram: Path, disk: Path, memory: Memory) -> None:
    copy_sparse(ram, handed / "ram")
    copy_sparse(disk, handed / "disk")
    (handed / "memory.json").write_text(json.dumps(asdict(memory)))
