# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a replay has to know of a workload beforehand: blocks of each access, and who comes next.

Reads touch the file's block of attributes as well, for its size; writes touch it where they make
the file longer. `optimal` is told from here whether a block is read on the other node before it is
written again.

Traces have neither opens nor closes: a task opens a file before its first access to it, to write if
it is ever going to, and closes it behind its last one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from papers.ofs.splits import Workload
from papers.ofs.trace import Access, Kind
from shares.protocol import ATTRIBUTES, BLOCK, FileId


@dataclass(frozen=True)
class Step:
    """One access. numbers: blocks, ascending, without the attributes. whole: those that are written
    without a look at what they held. changes: whether the attributes are written. size: of the file
    before it, in blocks. bytes: of the file after it. cut: at how many bytes the file ends; None
    where it is not cut. opens, closes: whether the task opens the file before it, and closes it
    after it; opened_to_write: whether it writes it at any time."""

    access: Access
    away: bool
    numbers: tuple[int, ...]
    whole: range
    size: int
    bytes: int
    changes: bool = False
    cut: int | None = None
    opens: bool = False
    closes: bool = False
    opened_to_write: bool = False

    @property
    def file(self) -> FileId:
        return FileId(self.access.file + 1)

    @property
    def write(self) -> bool:
        return self.access.kind is not Kind.READ


class Plan:
    """A workload's steps."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.steps = tuple(_opened(list(_steps(workload))))
        self._next: defaultdict[tuple[FileId, int], list[int]] = defaultdict(list)
        for at, step in enumerate(self.steps):
            for number in (ATTRIBUTES, *step.numbers):
                self._next[step.file, number].append(at)

    def elsewhere(self, file: FileId, number: int, at: int, away: bool) -> bool:
        """Whether, from step `at` on, a node reads the block before anybody writes it, which is not
        the one that is told by `away`."""
        found = self._next[file, number]
        for place in range(bisect_left(found, at), len(found)):
            step = self.steps[found[place]]
            if step.changes if number == ATTRIBUTES else step.write:
                return False
            if step.away != away:
                return True
        return False

    def before(self) -> Iterator[tuple[FileId, int]]:
        """The files that were there, and how many bytes each has."""
        for number, file in enumerate(self.workload.trace.files):
            if file.size >= 0:
                yield FileId(number + 1), file.size


def _steps(workload: Workload) -> Iterator[Step]:
    sizes = [max(0, file.size) for file in workload.trace.files]
    for access, away in zip(workload.trace.accesses, workload.away, strict=True):
        size, blocks = sizes[access.file], -(-sizes[access.file] // BLOCK)
        if access.kind is Kind.RESIZE:
            sizes[access.file] = access.offset
            cut = access.offset if access.offset < size else None
            yield Step(access, away, (), range(0), blocks, access.offset, changes=True, cut=cut)
            continue
        end = access.offset + access.length
        if access.kind is Kind.READ:
            yield Step(access, away, tuple(access.blocks), range(0), blocks, size)
            continue
        sizes[access.file] = max(size, end)
        whole = _whole(access.offset, end, size)
        about = (blocks, max(size, end))
        yield Step(access, away, tuple(access.blocks), whole, *about, changes=end > size)


def _opened(steps: list[Step]) -> Iterator[Step]:
    """With what their tasks open and close. What one task does on both nodes is two tasks'."""
    users = [(step.away, step.access.task, step.access.file) for step in steps]
    last = {user: at for at, user in enumerate(users)}
    first = {user: at for at, user in reversed(list(enumerate(users)))}
    writers = {user for user, step in zip(users, steps, strict=True) if step.write}
    for at, (user, step) in enumerate(zip(users, steps, strict=True)):
        yield replace(
            step,
            opens=first[user] == at,
            closes=last[user] == at,
            opened_to_write=user in writers,
        )


def _whole(begin: int, end: int, size: int) -> range:
    """Blocks that a write leaves nothing of, in a file of that size: those that begin behind its
    end are empty before."""
    first = -(-begin // BLOCK)
    if begin >= size and begin // BLOCK * BLOCK >= size:
        first = begin // BLOCK
    last = end // BLOCK if end < size else -(-end // BLOCK)
    return range(first, max(first, last))


__all__ = ["Plan", "Step"]
