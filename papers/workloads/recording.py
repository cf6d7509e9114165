# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The recorded workloads: requests of guests to their volumes, in order.

`papers.workloads.record` records them, papers/README.md lists them, and docs/formats/trace.md
defines the file. A recording has what one surrogate would see: the lives of machines, one after the
other or side by side. It has a number in place of the content of each block. Equal numbers are
equal content, in every life, in memory and on a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from papers import columns

FOLDER = Path(__file__).parent / "traces"
SUFFIX = ".trace"
TRAINING = "training"
HELD_OUT = "held-out"
RUNS = (TRAINING, HELD_OUT)

MAGIC = b"SATTRACE"
VERSION = 1

RESUMED = "resumed"
"""The mark of the moment from which on a life's agent has answered."""

RESPONSE = "first "
"""What the mark of the end of the first operation of a kind begins with."""

IDLE = "idle"
STEADY = "steady"

LEAF_BLOCKS = 64
"""Blocks below one table page. A recording has the content of every page of which a machine touched
a block."""


@dataclass(frozen=True)
class Touch:
    """A miss: `gap` seconds after the one before was answered, for `count` blocks."""

    gap: float
    volume: str
    first: int
    count: int


@dataclass(frozen=True)
class Trace:
    """What a resumed machine touches, and when.

    volumes: the blocks of each. data: the blocks that have content. response: the number of touches
    before the first response.
    """

    service: str
    volumes: dict[str, int]
    data: dict[str, frozenset[int]]
    touches: tuple[Touch, ...]
    response: int


@dataclass(frozen=True)
class Life:
    """A machine from its boot or resume to its end.

    content: by volume, the number of what each block held when the life began, from 1 on; of all
    blocks that have any content and lie in a table page of which the machine touched a block. What
    is not there is zero.
    """

    service: str
    booted: bool
    volumes: dict[str, int]
    content: dict[str, dict[int, int]]


@dataclass(frozen=True)
class Access:
    """A request of `count` blocks, `gap` seconds after the end of the one before it."""

    gap: float
    life: int
    write: bool
    volume: str
    first: int
    count: int


@dataclass(frozen=True)
class Mark:
    """What `life` has come to before the access of this number."""

    at: int
    life: int
    what: str


@dataclass(frozen=True)
class Recording:
    """workload and run: which, of `RUNS`; marks in their order."""

    workload: str
    run: str
    lives: tuple[Life, ...]
    accesses: tuple[Access, ...]
    marks: tuple[Mark, ...]

    def save(self, folder: Path = FOLDER) -> Path:
        """As WORKLOAD.RUN.trace."""
        path = folder / f"{self.workload}.{self.run}{SUFFIX}"
        path.write_bytes(encode(self))
        return path

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Raises ValueError for what is none of this version."""
        return decode(path.read_bytes())

    def reads(self) -> Iterator[tuple[Access, list[int]]]:
        """The same as `read_blocks`, without the blocks' own numbers."""
        for access, blocks in self.read_blocks():
            yield access, [number for _, number in blocks]

    def read_blocks(self) -> Iterator[tuple[Access, list[tuple[int, int]]]]:
        """Every read of what stood there when its life began: blocks, and the numbers of their
        content. Blocks that are zero or that the machine has written since are left out."""
        dirty: list[dict[str, set[int]]] = [{n: set() for n in life.volumes} for life in self.lives]
        for access in self.accesses:
            written = dirty[access.life][access.volume]
            blocks = range(access.first, access.first + access.count)
            if access.write:
                written.update(blocks)
                continue
            content = self.lives[access.life].content[access.volume]
            numbers = [(b, content[b]) for b in blocks if b in content and b not in written]
            if numbers:
                yield access, numbers

    def touches(self, number: int) -> Iterator[tuple[int, Touch]]:
        """The first touches of a life, as misses of a machine of which nothing is present, each
        with the number of its access: of a request, the run from the first to the last block that
        is absent."""
        seen: dict[str, set[int]] = {name: set() for name in self.lives[number].volumes}
        gap = 0.0
        for at, access in enumerate(self.accesses):
            gap += access.gap
            if access.life != number:
                continue
            here = seen[access.volume]
            blocks = range(access.first, access.first + access.count)
            new = [block for block in blocks if block not in here]
            here.update(blocks)
            if new and not access.write:
                yield at, Touch(gap, access.volume, new[0], new[-1] - new[0] + 1)
                gap = 0.0

    def trace(self, number: int) -> Trace:
        """Return the trace of one life. Its first response is the end of its first operation."""
        life = self.lives[number]
        found = list(self.touches(number))
        answered = [m.at for m in self.marks if m.life == number and m.what.startswith(RESPONSE)]
        response = sum(at < min(answered) for at, _ in found) if answered else len(found)
        return Trace(
            service=life.service,
            volumes=life.volumes,
            data={name: frozenset(blocks) for name, blocks in life.content.items()},
            touches=tuple(touch for _, touch in found),
            response=response,
        )


def recordings(run: str) -> list[Recording]:
    """All of TRAINING or of HELD_OUT, by name."""
    return [Recording.load(path) for path in sorted(FOLDER.glob(f"*.{run}{SUFFIX}"))]


def encode(recording: Recording) -> bytes:
    """The bytes of a file."""
    head = {
        "workload": recording.workload,
        "run": recording.run,
        "lives": [
            {"service": life.service, "booted": life.booted, "volumes": life.volumes}
            for life in recording.lives
        ],
        "marks": [[mark.at, mark.life, mark.what] for mark in recording.marks],
        "accesses": len(recording.accesses),
    }
    return columns.packed(MAGIC, VERSION, head, [*_columns(recording), *_contents(recording.lives)])


def decode(data: bytes) -> Recording:
    """The reverse. Raises ValueError."""
    head, parts = columns.unpacked(MAGIC, VERSION, data)
    of_accesses = [next(parts) for _ in range(4)]
    lives = tuple(
        Life(
            life["service"],
            life["booted"],
            life["volumes"],
            {name: _content(next(parts)) for name in sorted(life["volumes"])},
        )
        for life in head["lives"]
    )
    return Recording(
        workload=head["workload"],
        run=head["run"],
        lives=lives,
        accesses=tuple(_accesses(lives, of_accesses)),
        marks=tuple(Mark(*fields) for fields in head["marks"]),
    )


def _columns(recording: Recording) -> tuple[list[int], list[int], list[int], list[int]]:
    """Who and how, gaps in microseconds, distance from the end of the last of the same, counts."""
    ports = _ports(recording.lives)
    who, gaps, firsts, counts = [], [], [], []
    ends = [0] * (2 * len(ports))
    for access in recording.accesses:
        port = 2 * ports.index((access.life, access.volume)) + access.write
        who.append(port)
        gaps.append(round(access.gap * 1e6))
        firsts.append(columns.zigzag(access.first - ends[port]))
        counts.append(access.count)
        ends[port] = access.first + access.count
    return who, gaps, firsts, counts


def _accesses(lives: Sequence[Life], of_accesses: Sequence[list[int]]) -> Iterator[Access]:
    ports = _ports(lives)
    ends = [0] * (2 * len(ports))
    for port, gap, distance, count in zip(*of_accesses, strict=True):
        life, volume = ports[port // 2]
        first = ends[port] + columns.unzigzag(distance)
        ends[port] = first + count
        yield Access(gap / 1e6, life, bool(port % 2), volume, first, count)


def _ports(lives: Sequence[Life]) -> list[tuple[int, str]]:
    return [(number, name) for number, life in enumerate(lives) for name in sorted(life.volumes)]


def _contents(lives: Iterable[Life]) -> Iterator[list[int]]:
    """Of each volume of each life: pairs of distances, from the block and the number before."""
    for life in lives:
        for name in sorted(life.volumes):
            column = []
            block = number = 0
            for at, held in sorted(life.content[name].items()):
                column += [at - block, columns.zigzag(held - number - 1)]
                block, number = at, held
            # Apart they compress better.
            yield column[::2] + column[1::2]


def _content(column: list[int]) -> dict[int, int]:
    half = len(column) // 2
    found = {}
    block = number = 0
    for distance, change in zip(column[:half], column[half:], strict=True):
        block += distance
        number += columns.unzigzag(change) + 1
        found[block] = number
    return found


__all__ = [
    "FOLDER",
    "HELD_OUT",
    "IDLE",
    "LEAF_BLOCKS",
    "RESPONSE",
    "RESUMED",
    "RUNS",
    "STEADY",
    "TRAINING",
    "Access",
    "Life",
    "Mark",
    "Recording",
    "Touch",
    "Trace",
    "recordings",
]
