# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Real guests, recorded: what nbdkit's log filter saw of every request becomes a recording.

nbdkit is started through a program of the same name in front of it in PATH, which adds the filter.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from chunkstore import Store, TableRoot
from hypervisor import MachineSpec, QemuDriver
from images import BuiltImage
from papers.workloads.recording import LEAF_BLOCKS, RESPONSE, RESUMED, Access, Life, Mark, Recording
from replay import Operation
from replay.adapters import http
from replica import MachineSnapshot, Replica
from satchel.ids import BLOCK_SIZE, ZERO_REF, OperationNumber, ReplicaId
from testbed import built
from volumes import local_resolver

DISK = "disk0"
RAM = "ram"

TASK_SECONDS = 600.0

_LINE = re.compile(r"(\S+ \S+) connection=(\d+) (\.\.\.)?(Connect|Read|Write|Zero|Trim) ?(.*)")
_FIELD = re.compile(r"(\w+)=(\"[^\"]*\"|\S+)")
_ZERO = bytes(BLOCK_SIZE)


@dataclass
class GuestRequest:
    """A request: when it came and when it was answered; offset and length in bytes."""

    began: float
    ended: float
    write: bool
    volume: str
    offset: int
    length: int


class Guest:
    """One life of a machine, running. Made by a `Surrogate`."""

    def __init__(
        self, image: BuiltImage, replica: Replica, log: Path, roots: Mapping[str, TableRoot] | None
    ) -> None:
        self.image = image
        self.replica = replica
        self.log = log
        self.roots = dict(roots or {})
        self.booted = roots is None
        self.marks: list[tuple[float, str]] = []
        self.ended = 0.0
        self._kinds: set[str] = set()

    def mark(self, what: str) -> None:
        """From here on it does that."""
        self.marks.append((time.time(), what))

    def operate(
        self, kind: str, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> None:
        """One operation of its service."""
        headers = [("Content-Type", content_type or "application/json")]
        number, now = OperationNumber(self.replica.last + 1), time.time_ns()
        payload = http.encode(method, path, headers, body, number=number, time_ns=now, seed=1)
        self.replica.execute(Operation(number, now, 1, payload), TASK_SECONDS)
        self._did(kind)

    def run(self, kind: str, script: str) -> None:
        """A shell script in it, as root. Raises RuntimeError when that fails."""
        status, output = self.replica.run(["/bin/sh", "-ec", script], TASK_SECONDS)
        if status != 0:
            raise RuntimeError(f"{kind} in the guest: status {status}: {output[-2000:]!r}")
        self._did(kind)

    def _did(self, kind: str) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.mark(RESPONSE + kind)

    def stop(self) -> None:
        """End of what is recorded, and of the machine."""
        self._end()
        self.replica.stop()

    def freeze(self) -> MachineSnapshot:
        """The same, with a checkpoint to go on from."""
        self._end()
        try:
            return self.replica.checkpoint()
        finally:
            self.replica.stop()

    def _end(self) -> None:
        self.ended = self.ended or time.time()


class Surrogate:
    """Where guests run, in a folder of its own that is to be removed after it. What is recorded
    are the lives that were begun with `recorded`, in that order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = Store.create(folder / "store")
        self._guests: list[Guest] = []
        self._begun = 0
        self._put_in_front()

    def boot(self, image: str, memory_mib: int = 0, *, recorded: bool = False) -> Guest:
        """The first boot of a built image."""
        found = BuiltImage.load(built.cache_folder() / image)
        guest = self._guest(found, memory_mib or found.recipe.memory_mib, None, recorded=recorded)
        disk = self.store.import_file(found.disk)
        memory = TableRoot(ref=ZERO_REF, size=guest.replica.spec.memory_bytes)
        guest.roots = {RAM: memory, DISK: disk}
        guest.replica.boot({DISK: disk}, found.boot(guest.replica.spec), local_resolver(self.store))
        guest.mark(RESUMED)
        return guest

    def resume(self, after: Guest, frozen: MachineSnapshot) -> Guest:
        """Another life of a guest, recorded."""
        memory = after.replica.spec.memory_mib
        guest = self._guest(after.image, memory, frozen.volumes, recorded=True)
        guest.replica.resume(frozen, local_resolver(self.store), self.store.read)
        guest.mark(RESUMED)
        return guest

    def close(self) -> None:
        """End what still runs."""
        for guest in self._guests:
            guest.stop()
        self.store.close()

    def recording(self, workload: str, run: str) -> Recording:
        """What the guests did, once they have ended."""
        seen = [
            (life, one)
            for life, guest in enumerate(self._guests)
            for one in seen_by_nbdkit(guest.log, guest.ended)
        ]
        seen.sort(key=lambda pair: pair[1].began)
        accesses, begins = [], []
        last = seen[0][1].began
        for life, one in seen:
            first = one.offset // BLOCK_SIZE
            count = -(-(one.offset + one.length) // BLOCK_SIZE) - first
            gap = max(0.0, one.began - last)
            accesses.append(Access(gap, life, one.write, one.volume, first, count))
            begins.append(one.began)
            last = max(last, one.ended)
        marks = [
            Mark(sum(begin < when for begin in begins), life, what)
            for life, guest in enumerate(self._guests)
            for when, what in guest.marks
        ]
        numbers: dict[bytes, int] = {}
        lives = [
            self._life(guest, [a for a in accesses if a.life == life], numbers)
            for life, guest in enumerate(self._guests)
        ]
        marks.sort(key=lambda mark: mark.at)
        return Recording(workload, run, tuple(lives), tuple(accesses), tuple(marks))

    def _life(self, guest: Guest, accesses: list[Access], numbers: dict[bytes, int]) -> Life:
        content = {}
        for name, root in guest.roots.items():
            leaves = {
                block // LEAF_BLOCKS
                for a in accesses
                if a.volume == name
                for block in range(a.first, a.first + a.count)
            }
            zero = root.ref == ZERO_REF
            content[name] = {} if zero else self._content(root, sorted(leaves), numbers)
        volumes = {name: root.blocks for name, root in guest.roots.items()}
        return Life(guest.image.recipe.name, guest.booted, volumes, content)

    def _content(
        self, root: TableRoot, leaves: list[int], numbers: dict[bytes, int]
    ) -> dict[int, int]:
        found = {}
        for leaf in leaves:
            start = leaf * LEAF_BLOCKS * BLOCK_SIZE
            length = min(LEAF_BLOCKS * BLOCK_SIZE, root.size - start)
            data = self.store.read(root, start, length)
            for at in range(0, length, BLOCK_SIZE):
                block = data[at : at + BLOCK_SIZE]
                if block != _ZERO:
                    name = hashlib.sha1(block, usedforsecurity=False).digest()
                    found[(start + at) // BLOCK_SIZE] = numbers.setdefault(name, len(numbers) + 1)
        return found

    def _guest(
        self,
        image: BuiltImage,
        memory_mib: int,
        roots: Mapping[str, TableRoot] | None,
        *,
        recorded: bool,
    ) -> Guest:
        self._begun += 1
        log = self._folder / f"{self._begun}.log"
        os.environ["SATCHEL_ACCESS_LOG"] = str(log)
        contract = image.recipe.contract_spec()
        replica = Replica(
            ReplicaId(f"workload-{self._begun}"),
            MachineSpec(memory_mib=memory_mib, disks=(DISK,)),
            self.store,
            QemuDriver(),
            self._folder / f"r{self._begun}",
            adapter=contract.adapter,
            stateful=contract.stateful,
        )
        guest = Guest(image, replica, log, roots)
        if recorded:
            self._guests.append(guest)
        return guest

    def _put_in_front(self) -> None:
        nbdkit = shutil.which("nbdkit")
        assert nbdkit is not None
        front = self._folder / "bin" / "nbdkit"
        front.parent.mkdir()
        front.write_text(
            f'#!/bin/sh\nexec {nbdkit} --filter=log "$@" logfile="$SATCHEL_ACCESS_LOG"\n',
            encoding="ascii",
        )
        front.chmod(0o700)
        os.environ["PATH"] = f"{front.parent}:{os.environ['PATH']}"


def seen_by_nbdkit(log: Path, until: float) -> Iterator[GuestRequest]:
    """The requests in a log that came before that time."""
    names: dict[str, str] = {}
    open_: dict[tuple[str, str, str], GuestRequest] = {}
    seen: list[GuestRequest] = []
    for line in log.read_text(encoding="ascii", errors="replace").splitlines():
        if not (match := _LINE.match(line)):
            continue
        when = datetime.fromisoformat(match[1]).timestamp()
        fields = {name: value.strip('"') for name, value in _FIELD.findall(match[5])}
        connection, verb = match[2], match[4]
        if verb == "Connect":
            names[connection] = fields["export"]
            continue
        key = (connection, verb, fields["id"])
        if match[3]:
            if one := open_.pop(key, None):
                one.ended = when
            continue
        volume, write = names[connection], verb != "Read"
        offset, length = int(fields["offset"], 16), int(fields["count"], 16)
        one = GuestRequest(when, when, write, volume, offset, length)
        if when < until:
            seen.append(one)
            open_[key] = one
    yield from seen
