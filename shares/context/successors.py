# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which file programs open after which, and how often: the file context of CAFIO (Section III.A).

For example, `make` opens `a.c`, then `a.h`, then `b.h`. After the second run `a.c` has the
successor `a.h` with count 2. A successor is *hot* when it has at least half of what came after its
file. The hot successors of a file form a chain: `a.h`, `b.h`.

An edge is a pair of files with two counts: opens to read, and opens to write. A file has at most
EDGES edges, and a table at most LIMIT files. The least recently used go first. When a count reaches
MOST, all counts of that file are halved: what programs do today outweighs what they did long ago.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from satchel.errors import IntegrityError
from shares.protocol import FileId

LIMIT = 16384
EDGES = 4
MOST = 64

HOT = 0.5
"""The part of what came after a file that a hot successor has."""

SEEN = 1
"""How often a successor was seen before it is fetched."""

MAGIC = b"SATCTEXT"
VERSION = 1
_HEADER = struct.Struct("<8sII")
_EDGE = struct.Struct("<QQII")


class SuccessorsInvalid(IntegrityError):
    """The bytes are not a table of successors."""


@dataclass(frozen=True)
class Succession:
    """`after` was opened after `before`: so often to read, and so often to write."""

    before: FileId
    after: FileId
    reads: int
    writes: int


class Successors:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[FileId, dict[FileId, list[int]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, edge: Succession) -> None:
        """Count it. The edge with the lowest counts goes where a file has too many."""
        if edge.before == edge.after or edge.reads + edge.writes <= 0:
            return
        edges = self._files.setdefault(edge.before, {})
        self._files.move_to_end(edge.before)
        counts = edges.setdefault(edge.after, [0, 0])
        counts[0] += min(edge.reads, MOST)
        counts[1] += min(edge.writes, MOST)
        if sum(counts) >= MOST:
            for others in edges.values():
                others[:] = [count // 2 for count in others]
        if len(edges) > EDGES:
            rarest = min((key for key in edges if key != edge.after), key=lambda k: sum(edges[k]))
            del edges[rarest]
        if len(self._files) > LIMIT:
            self._files.popitem(last=False)

    def hot(self, file: FileId) -> FileId | None:
        """What is usually opened to read after the file."""
        edges = self._files.get(file)
        if not edges:
            return None
        after, (reads, writes) = max(edges.items(), key=lambda item: item[1][0])
        enough = reads >= SEEN and reads >= writes
        return after if enough and reads >= HOT * sum(map(sum, edges.values())) else None

    def chain(self, file: FileId, most: int) -> list[FileId]:
        """The hot successors, one after the other."""
        found: list[FileId] = []
        at = self.hot(file)
        while at is not None and at != file and at not in found and len(found) < most:
            found.append(at)
            at = self.hot(at)
        return found

    def edges(self, most: int | None = None) -> Iterator[Succession]:
        """All of them, those of the most recently used files first; `most`: of so many files."""
        for count, (before, edges) in enumerate(reversed(self._files.items())):
            if most is not None and count >= most:
                return
            for after, (reads, writes) in edges.items():
                yield Succession(before, after, reads, writes)

    def encode(self) -> bytes:
        """docs/formats/share.md."""
        packed = [
            _EDGE.pack(before, after, *counts)
            for before, edges in self._files.items()
            for after, counts in edges.items()
        ]
        return _HEADER.pack(MAGIC, VERSION, len(packed)) + b"".join(packed)

    @classmethod
    def decode(cls, data: bytes) -> Successors:
        """Raises SuccessorsInvalid."""
        try:
            magic, version, count = _HEADER.unpack_from(data)
        except struct.error as error:
            raise SuccessorsInvalid("no file context", why=str(error)) from error
        if magic != MAGIC or version != VERSION:
            raise SuccessorsInvalid("no file context", why=f"{magic!r}, version {version}")
        if len(data) != _HEADER.size + count * _EDGE.size or count > LIMIT * EDGES:
            raise SuccessorsInvalid("a file context is cut short", why=f"{count} edges")
        found = cls()
        for before, after, reads, writes in _EDGE.iter_unpack(data[_HEADER.size :]):
            if reads + writes > 2 * MOST:
                raise SuccessorsInvalid("a file context has counts that none can have")
            found._files.setdefault(FileId(before), {})[FileId(after)] = [reads, writes]
        return found
