# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a resumed guest touches, and when: recorded once from a real one, replayed by `bench fetch`.

    python -m bench.fetch.trace SERVICE FILE     boots, checkpoints, resumes, operates, records

The trace of a resume: each miss with the time that the machine ran since the one before, and which
blocks near it have any content. Not the content: a replay makes that up, half of it compressible.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import click

from bench.notes import add_note
from chunkstore import Store
from console import run_program
from homeserver import Home, HomeSettings
from hypervisor import MachineSpec, QemuDriver
from images import Manifest
from overlay import Resolver, Volume, local_resolver
from replica import Frozen, Replica
from satchel.ids import BLOCK_SIZE, ReplicaId
from testbed import built

FOLDER = Path(__file__).parent.parent / "traces"

LEAF_BLOCKS = 64
"""Blocks below one table page: what lies in the same page as a touched block is in the trace."""

OPERATIONS = 3


@dataclass(frozen=True)
class Touch:
    """A miss: `gap` seconds after the one before was answered, for `count` blocks."""

    gap: float
    volume: str
    first: int
    count: int


@dataclass(frozen=True)
class Trace:
    """volumes: blocks of each; data: which blocks near touched ones have content; response: how
    many touches there were before the first response."""

    service: str
    volumes: dict[str, int]
    data: dict[str, frozenset[int]]
    touches: tuple[Touch, ...]
    response: int

    def save(self, path: Path) -> None:
        """As JSON: gaps in microseconds, data as a compressed bitmap."""
        names = sorted(self.volumes)
        value = {
            "service": self.service,
            "volumes": self.volumes,
            "response": self.response,
            "data": {name: _bitmap(self.data[name], self.volumes[name]) for name in names},
            "touches": [
                [round(t.gap * 1e6), names.index(t.volume), t.first, t.count] for t in self.touches
            ],
        }
        path.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="ascii")

    @classmethod
    def load(cls, path: Path) -> Trace:
        value = json.loads(path.read_text(encoding="ascii"))
        names = sorted(value["volumes"])
        return cls(
            service=value["service"],
            volumes=value["volumes"],
            data={name: _blocks(value["data"][name]) for name in names},
            touches=tuple(Touch(g / 1e6, names[v], f, n) for g, v, f, n in value["touches"]),
            response=value["response"],
        )


class _Clock:
    """A resolver that notes when it is asked. Thread-safe."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self.touches: list[Touch] = []

    def __call__(self, volume: Volume, first: int, count: int) -> None:
        gap = max(0.0, time.monotonic() - self._last)
        self._resolver(volume, first, count)
        with self._lock:
            self.touches.append(Touch(gap, volume.name, first, count))
            self._last = time.monotonic()


def record(service: str) -> Trace:
    """Boot a service, checkpoint it, resume it with nothing present, and operate it. Takes minutes
    and a built image."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        built.built_image(service)
        settings = HomeSettings(
            data=folder / "data", run=folder / "run", images=built.cache_folder()
        )
        Home.init(settings)
        home = Home(settings, QemuDriver())
        try:
            home.add_service(service, service)
            home.service(service).launch()
            manifest = home.service(service).checkpoint().manifest
            home.service(service).stop()
            return _resume(home.store, manifest, folder / "r")
        finally:
            home.close()


def _resume(store: Store, manifest: Manifest, folder: Path) -> Trace:
    replica = Replica(
        ReplicaId("bench"),
        MachineSpec.from_json(manifest.machine),
        store,
        QemuDriver(),
        folder,
        adapter=manifest.adapter["kind"],
        stateful=manifest.adapter["stateful"],
    )
    frozen = Frozen(manifest.operation, manifest.device_state, manifest.volumes)
    clock = _Clock(local_resolver(store))
    try:
        replica.resume(frozen, clock, store.read)
        replica.execute(add_note(replica.last + 1))
        response = len(clock.touches)
        for _ in range(OPERATIONS):
            replica.execute(add_note(replica.last + 1))
        touches = tuple(clock.touches)
    finally:
        replica.stop()
    return Trace(
        service=manifest.service,
        volumes={name: root.blocks for name, root in manifest.volumes.items()},
        data={name: _data(store, manifest, name, touches) for name in manifest.volumes},
        touches=touches,
        response=response,
    )


def _data(
    store: Store, manifest: Manifest, name: str, touches: tuple[Touch, ...]
) -> frozenset[int]:
    root = manifest.volumes[name]
    leaves = {
        block // LEAF_BLOCKS
        for touch in touches
        if touch.volume == name
        for block in range(touch.first, touch.first + touch.count)
    }
    found = set()
    for leaf in leaves:
        first = leaf * LEAF_BLOCKS
        length = min(LEAF_BLOCKS * BLOCK_SIZE, root.size - first * BLOCK_SIZE)
        content = store.read(root, first * BLOCK_SIZE, length)
        for number in range(-(-length // BLOCK_SIZE)):
            if any(content[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]):
                found.add(first + number)
    return frozenset(found)


def _bitmap(blocks: frozenset[int], count: int) -> str:
    bits = bytearray(-(-count // 8))
    for block in blocks:
        bits[block // 8] |= 1 << block % 8
    return base64.b85encode(zlib.compress(bytes(bits), 9)).decode("ascii")


def _blocks(text: str) -> frozenset[int]:
    bits = zlib.decompress(base64.b85decode(text))
    return frozenset(
        number * 8 + bit for number, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1
    )


@click.command()
@click.argument("service")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def program(service: str, file: Path) -> None:
    """Record the trace of SERVICE into FILE."""
    trace = dataclasses.replace(record(service), service=service)
    trace.save(file)
    click.echo(f"{len(trace.touches)} touches, {trace.response} before the first response")


if __name__ == "__main__":
    run_program(program, "bench.fetch.trace")
