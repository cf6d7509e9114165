# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program did to files: every read and write, by thread, with the procedure it was made in.

- use: what was done with which program; one trace each
- task: a thread that executes one program; its role is the program's name, or what the program said
- procedure: a part of what is done, which the use named when it began

docs/formats/trace.md is the page of the file, papers/ofs/README.md says how traces come
about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from papers.columns import packed, unpacked, unzigzag, zigzag
from satchel.ids import BLOCK_SIZE

FOLDER = Path(__file__).parent / "traces"
SUFFIX = ".calls"
MAGIC = b"SATTOUCH"
VERSION = 1

ABSENT = -1
"""The size of a file that was not there when the recording began."""

MICROSECONDS = 1_000_000


class Kind(IntEnum):
    """What is done to a file: RESIZE to `offset` bytes."""

    READ = 0
    WRITE = 1
    RESIZE = 2


@dataclass(frozen=True)
class File:
    """name: its first, below the shared folder. size: bytes at the beginning, or ABSENT."""

    name: str
    size: int


@dataclass(frozen=True)
class Access:
    """One call. at and took: microseconds, since the beginning and of the call; task, procedure and
    file are numbers of the trace's."""

    at: int
    took: int
    task: int
    procedure: int
    kind: Kind
    file: int
    offset: int
    length: int

    @property
    def blocks(self) -> range:
        """The blocks of the file that it touches; none of a RESIZE."""
        if not self.length:
            return range(0)
        return range(self.offset // BLOCK_SIZE, (self.offset + self.length - 1) // BLOCK_SIZE + 1)


@dataclass(frozen=True)
class Trace:
    """accesses: by the time at which they began. roles: of the tasks. procedures: names, the first
    one is empty: none."""

    use: str
    roles: tuple[str, ...]
    procedures: tuple[str, ...]
    files: tuple[File, ...]
    accesses: tuple[Access, ...]

    def save(self, folder: Path = FOLDER) -> Path:
        """As USE.calls."""
        path = folder / f"{self.use}{SUFFIX}"
        path.write_bytes(encode(self))
        return path

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Raises ValueError for what is none of this version."""
        return decode(path.read_bytes())


def traces() -> list[Trace]:
    """All of them, by name."""
    return [Trace.load(path) for path in sorted(FOLDER.glob(f"*{SUFFIX}"))]


def encode(trace: Trace) -> bytes:
    """The bytes of a file."""
    head = {
        "use": trace.use,
        "roles": trace.roles,
        "procedures": trace.procedures,
        "files": [[each.name, each.size] for each in trace.files],
    }
    return packed(MAGIC, VERSION, head, _columns(trace.accesses))


def decode(data: bytes) -> Trace:
    """The reverse. Raises ValueError."""
    head, columns = unpacked(MAGIC, VERSION, data)
    trace = Trace(
        use=head["use"],
        roles=tuple(head["roles"]),
        procedures=tuple(head["procedures"]),
        files=tuple(File(*fields) for fields in head["files"]),
        accesses=tuple(_accesses(list(columns))),
    )
    for access in trace.accesses:
        if (
            access.task >= len(trace.roles)
            or access.procedure >= len(trace.procedures)
            or not 0 <= access.file < len(trace.files)
            or access.offset < 0
        ):
            raise ValueError(f"an access of what the trace does not name: {access}")
    return trace


def _columns(accesses: tuple[Access, ...]) -> list[list[int]]:
    """Distances: in time from the access before, of files too; of offsets from the end of the last
    access to the same file."""
    rows: list[tuple[int, ...]] = []
    at = file = 0
    ends: dict[int, int] = {}
    for each in accesses:
        distance = zigzag(each.offset - ends.get(each.file, 0))
        changed = zigzag(each.file - file)
        gap = each.at - at
        rows.append(
            (gap, each.took, each.task, each.procedure, each.kind, changed, distance, each.length)
        )
        at, file = each.at, each.file
        ends[file] = each.offset + each.length
    return [list(column) for column in zip(*rows, strict=True)]


def _accesses(columns: list[list[int]]) -> Iterator[Access]:
    at = file = 0
    ends: dict[int, int] = {}
    for gap, took, task, procedure, kind, changed, distance, length in zip(*columns, strict=True):
        at += gap
        file += unzigzag(changed)
        offset = ends.get(file, 0) + unzigzag(distance)
        ends[file] = offset + length
        yield Access(at, took, task, procedure, Kind(kind), file, offset, length)


__all__ = ["ABSENT", "FOLDER", "SUFFIX", "Access", "File", "Kind", "Trace", "traces"]
