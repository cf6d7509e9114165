# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a mount that is no more has left in its journal.

Marks and content are trusted where they must be as the mount left them: the machine has not been
started since, or the mount has synced them at its end. After a power cut the disk may have a mark
and not the content that it is about. Then only what a program synced is brought home, from the
records; what else there is becomes a conflict copy, for people to look at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from satchel.errors import IntegrityError
from shares.node.extent import BLOCK, Extent
from shares.node.hub.hub import PendingCreate
from shares.node.journal.records import (
    BASE,
    BASE_LAYOUT,
    BLOCKS,
    NO_EXTENT,
    JournalState,
    MountNote,
    RefusedBlocks,
    read_records,
    this_boot,
)
from shares.node.journal.written_marks import BaseVersion, PendingWrites, marked_files, waiting
from shares.protocol import ATTRIBUTES, FileId

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class LeftFile:
    """Of one file: what waits, and the content of its blocks, each of 4096 bytes. name: its folder
    and its path, where known. gone: a program had taken its name away"""

    waiting: PendingWrites
    read: Read
    name: tuple[FileId, bytes] | None = None
    gone: bool = False

    @property
    def file(self) -> FileId:
        return self.waiting.file

    @property
    def size(self) -> int:
        """Bytes of content that wait."""
        size = self.waiting.extent.size
        return sum(max(0, min(BLOCK, size - n * BLOCK)) for n in self.waiting.blocks)


@dataclass(frozen=True)
class JournalLeftovers:
    """All of it. doubtful: what the disk has besides after a power cut. making: files that home has
    perhaps not made. unreadable: files of the journal of which nothing can be told, and why"""

    folder: Path
    note: MountNote
    making: list[PendingCreate]
    files: list[LeftFile]
    doubtful: list[LeftFile]
    asides: list[RefusedBlocks]
    unreadable: dict[Path, str] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether anything of it may not be at home."""
        found = self.making or self.files or self.doubtful or self.asides or self.unreadable
        return bool(found)

    @property
    def count(self) -> int:
        """Files."""
        files = {each.file for each in (*self.files, *self.doubtful)}
        files |= {each.file for each in self.asides} | {each.file for each in self.making}
        return len(files) + len(self.unreadable)

    @property
    def blocks(self) -> int:
        found = sum(len(each.waiting.blocks) for each in (*self.files, *self.doubtful))
        return found + sum(number >= 0 for aside in self.asides for number in aside.blocks)

    @property
    def size(self) -> int:
        """Bytes of content."""
        found = sum(each.size for each in (*self.files, *self.doubtful))
        return found + sum(BLOCK for aside in self.asides for n in aside.blocks if n >= 0)


def read_left(folder: Path) -> JournalLeftovers:
    """Of the mount whose journal is in that folder, which nobody serves. Raises OSError, and
    IntegrityError or UnsupportedError where the journal cannot be read."""
    kept = read_records(folder)
    assert kept.note is not None
    trusted = kept.closed or kept.note.boot == this_boot()
    blocks = folder / BLOCKS
    unreadable: dict[Path, str] = {}
    marked = _marked(blocks, kept, unreadable)
    synced = [] if trusted else _synced(kept)
    doubtful = [] if trusted else _doubtful(marked, synced)
    makings = list(kept.makings.values())
    files = marked if trusted else synced
    return JournalLeftovers(
        folder, kept.note, makings, files, doubtful, list(kept.aside.values()), unreadable
    )


def _marked(blocks: Path, kept: JournalState, unreadable: dict[Path, str]) -> list[LeftFile]:
    found = []
    for file in marked_files(blocks):
        try:
            waits = waiting(blocks, file)
        except (OSError, IntegrityError) as error:
            unreadable[blocks / f"{file:016x}"] = str(error)
            continue
        if waits is not None:
            name, gone = kept.names.get(file), file in kept.gone
            found.append(LeftFile(waits, _reader(blocks / f"{file:016x}", waits), name, gone))
    return found


def _reader(path: Path, waits: PendingWrites) -> Read:
    def read(number: int) -> bytes:
        if number == ATTRIBUTES:
            return waits.extent.pack()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return bytes(BLOCK)  # the process was killed before it made it
        try:
            return os.pread(descriptor, BLOCK, number * BLOCK).ljust(BLOCK, b"\0")
        finally:
            os.close(descriptor)

    return read


def _synced(kept: JournalState) -> list[LeftFile]:
    """What programs have synced while home was not reached."""
    found = []
    for file, parts in kept.content.items():
        base = (
            BaseVersion(*BASE_LAYOUT.unpack(parts[BASE][1].ljust(16, b"\0")))
            if BASE in parts
            else None
        )
        extent = parts.get(ATTRIBUTES) or parts[NO_EXTENT]
        grants = {number: grant for number, (grant, _) in parts.items() if number >= ATTRIBUTES}
        waits = PendingWrites(file, grants, Extent.unpack(extent[1].ljust(BLOCK, b"\0")), base)
        content = {number: data.ljust(BLOCK, b"\0") for number, (_, data) in parts.items()}
        found.append(LeftFile(waits, content.__getitem__, kept.names.get(file), file in kept.gone))
    return found


def _doubtful(marked: list[LeftFile], synced: list[LeftFile]) -> list[LeftFile]:
    """What the disk has beyond that."""
    known = {each.file: each for each in synced}
    found = []
    for each in marked:
        sure = known.get(each.file)
        numbers = [
            n
            for n in each.waiting.blocks
            if sure is None or n not in sure.waiting.grants or sure.read(n) != each.read(n)
        ]
        # Zeros are what the disk has of content that never came to it.
        if not each.gone and any(each.read(n).strip(b"\0") for n in numbers):
            found.append(each)
    return found
