# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which blocks a resumed machine touches first, in that order: found out by a rehearsal at home,
carried with the checkpoint, used by a surrogate to fetch ahead of the machine.

    blob   := magic "SATW" (4)  version u8  volumes u8  zero u16  name*  run*
    name   := length u8  bytes
    run    := volume u8  first u32  count u16

All integers are little-endian; docs/formats/working-set.md. It is a hint: a wrong one costs
traffic, never a wrong byte. (REAP, ASPLOS 2021, section 4: record the first invocation's pages.)
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from chunkstore import TableRoot
from overlay import Resolver, Volume
from satchel.errors import IntegrityError

MAGIC = b"SATW"
VERSION = 1
RUN_LIMIT = 32768
"""Runs in a working set: 224 KiB."""

_HEADER = struct.Struct("<4sBBH")
_RUN = struct.Struct("<BIH")
_COUNT_LIMIT = 0xFFFF
_FIRST_LIMIT = 0xFFFFFFFF


class WorkingSetInvalid(IntegrityError):
    """The bytes are no working set."""


@dataclass(frozen=True)
class Run:
    """`count` blocks of a volume from block `first` on."""

    volume: str
    first: int
    count: int


def encode(runs: list[Run]) -> bytes:
    """The blob. Runs beyond RUN_LIMIT are left out, and those too far up in a volume for a u32."""
    runs = [run for run in runs if run.first <= _FIRST_LIMIT][:RUN_LIMIT]
    names = sorted({run.volume for run in runs})
    parts = [_HEADER.pack(MAGIC, VERSION, len(names), 0)]
    for name in names:
        parts += [bytes([len(name)]), name.encode("ascii")]
    parts += [_RUN.pack(names.index(r.volume), r.first, r.count) for r in runs]
    return b"".join(parts)


def decode(blob: bytes, volumes: Mapping[str, TableRoot]) -> list[Run]:
    """The runs in a blob from anybody, within `volumes`. Raises WorkingSetInvalid."""
    try:
        magic, version, count, _ = _HEADER.unpack_from(blob)
        if magic != MAGIC or version != VERSION:
            raise WorkingSetInvalid("not a working set of this version")
        names, start = [], _HEADER.size
        for _ in range(count):
            end = start + 1 + blob[start]
            names.append(blob[start + 1 : end].decode("ascii"))
            start = end
        size = len(blob) - start
        if size < 0 or size % _RUN.size or size > RUN_LIMIT * _RUN.size:
            raise WorkingSetInvalid("not a working set", why="its runs are not whole, or too many")
        runs = [Run(names[v], first, n) for v, first, n in _RUN.iter_unpack(blob[start:])]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WorkingSetInvalid("not a working set", why=str(error)) from error
    for run in runs:
        if run.volume not in volumes or run.first + run.count > volumes[run.volume].blocks:
            raise WorkingSetInvalid("not a working set", why="it names blocks that are not there")
    return runs


class Recorder:
    """A resolver that notes what it is asked for before it asks another one. Thread-safe."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._lock = threading.Lock()
        self._runs: list[Run] = []

    def __call__(self, volume: Volume, first: int, count: int) -> None:
        with self._lock:
            for start in range(first, first + count, _COUNT_LIMIT):
                size = min(_COUNT_LIMIT, first + count - start)
                self._runs.append(Run(volume.name, start, size))
        self._resolver(volume, first, count)

    @property
    def runs(self) -> list[Run]:
        """What was asked for so far, in that order."""
        with self._lock:
            return list(self._runs)
