# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The journal of a mount: what programs were told is written, and home has not confirmed.

The journal is a folder (docs/formats/mount-journal.md). It has the content of files as the buffer
keeps it, the marks that say which blocks of it are not at home (`written_marks`), and a record file
`journal` for the rest: which mount this is, names of files, files that home has not made yet, and
content that a program has synced while home was not reached.

A process that is killed leaves all of that to the page cache. After a power cut only what was
synced counts: the records. `recovery` sends home what a journal has.

Which content home has confirmed is counted in generations. Whoever reads content in order to send
it begins a new generation of that file first. What is marked with an older one was written before,
so it is in what was read, and is at home when home has answered.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from satchel.files import sync_folder
from satchel.record_file import Fields, RecordFile
from shares.node.extent import BLOCK, Extent
from shares.node.hub import codec
from shares.node.hub.hub import PendingCreate
from shares.node.journal.records import (
    ASIDE,
    BASE,
    BASE_LAYOUT,
    BLOCKS,
    CLOSED,
    CONTENT,
    COPIED,
    DONE,
    FORMAT,
    GONE,
    JOURNAL,
    MADE,
    MAKING,
    MOUNT,
    NAME,
    NO_EXTENT,
    MountNote,
    RefusedBlocks,
)
from shares.node.journal.written_marks import (
    BaseVersion,
    WrittenMarks,
    home_path,
    waiting,
    written_path,
)
from shares.node.operations import Window
from shares.protocol import ATTRIBUTES, FileId

log = logging.getLogger(__name__)

COMPACT_BYTES = 1 << 20

OPEN_MARKS = 64
"""Files whose marks are kept open; two descriptors each."""


@dataclass
class _File:
    """What the journal has in memory of a file that is open or was written."""

    generation: int = 1
    native: int = 0
    grants: dict[int, int] = field(default_factory=dict)
    marked: bool = False
    base: BaseVersion | None = None
    extent: Extent | None = None
    window: Window | None = None
    sent: deque[tuple[int, BaseVersion]] = field(default_factory=deque)
    name: tuple[FileId, bytes] | None = None
    recorded: bool = False
    synced: set[int] = field(default_factory=set)


class MountJournal:
    """Of one mount that is served. Its node calls with its content's lock held, but for what is
    about names: that is thread-safe by itself.

    refused: is set when something was set aside
    """

    def __init__(self, folder: Path) -> None:
        """Make it; the folder is nobody else's, and empty. Raises OSError."""
        self.folder = folder
        self.blocks = folder / BLOCKS
        self.blocks.mkdir(parents=True, exist_ok=True)
        self.name_of: Callable[[FileId], tuple[FileId, bytes] | None] = lambda _: None
        self._lock = threading.Lock()
        self._records = RecordFile(folder / JOURNAL, FORMAT, lambda *_: True)
        self._files: dict[FileId, _File] = {}
        self._open: OrderedDict[FileId, WrittenMarks] = OrderedDict()
        self._recalled: deque[tuple[int, FileId, tuple[int, ...], int]] = deque()
        self._making: dict[FileId, PendingCreate] = {}
        self._aside: dict[FileId, RefusedBlocks] = {}
        self._note: MountNote | None = None
        self._bringing = False
        self.refused = threading.Event()

    def mounted(self, note: MountNote) -> None:
        """Home has taken the node in. Durable on return. Raises OSError."""
        self._note = note
        self._record(MOUNT, FileId(0), data=note.pack())
        self._records.sync()
        for folder in (self.folder, self.folder.parent):
            sync_folder(folder)

    # What is written.

    def opened(self, file: FileId, extent: Extent) -> None:
        """Home has this size and time of the file."""
        known = self._file(file)
        known.base = BaseVersion(extent.size, extent.modified)
        if known.marked:
            self._marks(file).base(known.base)

    def watch(self, file: FileId, window: Window, extent: Extent) -> None:
        """The window may be granted writes from now on. Raises OSError."""
        known = self._file(file)
        if known.window is window and known.extent == extent:
            return
        self.sized(file, extent, grows=False)
        if known.window is not window:
            window.mark_in(self._marks(file).written)
            window.generation(known.generation)
            known.window = window

    def unwatch(self, file: FileId) -> None:
        """The file has no window any more."""
        if file in self._files:
            self._files[file].window = None

    def native(self, file: FileId, grant: int) -> None:
        """The node may write all of the file under this grant. Raises OSError."""
        known = self._file(file)
        if known.marked and known.native != grant:
            self._marks(file).native(grant)
        known.native = grant

    def begin(self, file: FileId, extent: Extent) -> None:
        """Something of the file is going to be written. Raises OSError."""
        self._begin(file, self._file(file), extent)

    def granted(self, file: FileId, grants: dict[int, int]) -> None:
        """These blocks may be written under these grants. Raises OSError."""
        known = self._file(file)
        new = {n: grant for n, grant in grants.items() if known.grants.get(n) != grant}
        if new:
            self._marks(file).grants(new)
            known.grants.update(new)

    def wrote(self, file: FileId, first: int, count: int) -> None:
        """These blocks have been written, and the grants are noted. Raises OSError."""
        self._marks(file).mark(first, count, self._file(file).generation)

    def sized(self, file: FileId, extent: Extent, *, grows: bool) -> None:
        """Size and times here. grows: a window may be making the file longer just now. Raises
        OSError."""
        known = self._file(file)
        self._begin(file, known, extent)
        if known.extent != extent or not grows:
            self._marks(file).extent(extent, None if grows else extent.size)
            known.extent = extent

    def cut(
        self, file: FileId, extent: Extent, at_home: Extent, stays: Callable[[int], bool]
    ) -> None:
        """Home has made the file shorter, and had the block that is cut before: what was written to
        it and behind it is over. extent: as it is here by now; stays: whether a block was written
        after that."""
        known = self._files.get(file)
        if known is None:
            return
        known.base = BaseVersion(at_home.size, at_home.modified)
        if known.marked:
            marks = self._marks(file)
            marks.base(known.base)
            marks.extent(extent, extent.size)
            marks.cut(at_home.size // BLOCK, self._bump(known), stays)
            known.extent = extent

    def discarded(self, file: FileId, numbers: Iterable[int]) -> None:
        """Another node has these blocks now, and nobody wants what was written to them here."""
        known = self._files.get(file)
        if known is not None and known.marked:
            self._marks(file).at_home(numbers, self._bump(known))

    # What home has.

    def giving(self, file: FileId, numbers: Iterable[int], extent: Extent | None) -> int:
        """Content is about to be read for home: the generation that is at home when it has
        answered. extent: where -1 is one of them."""
        known = self._files.get(file)
        if known is None or not known.marked:
            return 0
        generation = self._bump(known)
        if extent is not None and ATTRIBUTES in numbers:
            known.sent.append((generation, BaseVersion(extent.size, extent.modified)))
        return generation

    def at_home(self, file: FileId, numbers: Iterable[int], generation: int) -> None:
        """Home has the content of that generation. What cannot be noted is sent once more."""
        known = self._files.get(file)
        if known is None or not generation:
            return
        marks = self._marks(file)
        marks.at_home(numbers, generation)
        if ATTRIBUTES in numbers:
            while known.sent and known.sent[0][0] <= generation:
                known.base = known.sent.popleft()[1]
                marks.base(known.base)
        if known.synced:
            known.synced -= set(numbers)
            if not known.synced:
                self._record(DONE, file)
                self._note_name(file, known)
                self._records.sync()

    def recalled(self, mark: int, file: FileId, numbers: Iterable[int], generation: int) -> None:
        """The content was given in an answer; home has it when `confirmed` says so of the mark."""
        if generation:
            self._recalled.append((mark, file, tuple(numbers), generation))

    def confirmed(self, mark: int) -> None:
        """Home has had what was given before that mark."""
        while self._recalled and self._recalled[0][0] <= mark:
            _, file, numbers, generation = self._recalled.popleft()
            self.at_home(file, numbers, generation)

    def rejoined(self) -> None:
        """A new membership: what was not confirmed is sent again. What is set aside meanwhile is
        told when all of that is answered (`brought`)."""
        self._bringing = True
        self._recalled.clear()
        for known in self._files.values():
            known.sent.clear()

    def brought(self) -> None:
        """Home has answered all of it, or that membership is over as well."""
        self._bringing = False
        if self._aside:
            self.refused.set()

    def forget(self, file: FileId) -> None:
        """Nothing of the file is kept here any more."""
        known = self._files.pop(file, None)
        if known is None or not (known.marked or known.recorded):
            return
        marks = self._open.pop(file, None)
        if marks is not None:
            marks.close()
        if known.marked:
            written_path(self.blocks, file).unlink(missing_ok=True)
            home_path(self.blocks, file).unlink(missing_ok=True)
        if known.recorded:
            self._record(DONE, file)

    # Names.

    def named(self, file: FileId, *, again: bool = False) -> None:
        """The file has another name, or (again) one that was not taken away after all. Noted where
        something of it waits."""
        known, name = self._files.get(file), self.name_of(file)
        if known is not None and known.marked and (again or known.name != name):
            known.name = name
            self._note_name(file, known)

    def gone(self, file: FileId) -> None:
        """A program here takes the name away. Where home has no such file then, nothing of it is
        missed."""
        known = self._files.get(file)
        if known is not None and known.marked:
            known.recorded = True
            self._record(GONE, file)

    def making(self, making: PendingCreate) -> None:
        """The node has made a file, and home is about to be told. Raises OSError."""
        known = self._file(making.file)
        known.recorded, known.name = True, (making.folder, making.name)
        self._making[making.file] = making
        self._record(MAKING, making.file, data=codec.encode_call("making", [making]))

    def made(self, file: FileId, grant: int) -> None:
        """Home has made it too; what was written to it was written under that grant."""
        self._making.pop(file, None)
        self.native(file, grant)
        self._record(MADE, file, grant=grant)

    # What lasts.

    def sync(self, file: FileId, read: Callable[[int], bytes]) -> None:
        """On return what of the file is not at home is durable here. read: the content of a block.
        Raises OSError."""
        known = self._files.get(file)
        found = waiting(self.blocks, file) if known is not None and known.marked else None
        if known is not None and found is not None:
            for number in sorted(found.grants):
                data = read(number) if number != ATTRIBUTES else found.extent.pack()
                about = {"number": number, "grant": found.grants[number]}
                self._record(CONTENT, file, data=data.rstrip(b"\0"), **about)
            if ATTRIBUTES not in found.grants:
                size = found.extent.pack().rstrip(b"\0")
                self._record(CONTENT, file, number=NO_EXTENT, data=size)
            if known.base is not None:
                base = BASE_LAYOUT.pack(known.base.size, known.base.modified)
                self._record(CONTENT, file, number=BASE, data=base)
            known.synced |= set(found.grants)
            known.recorded = True
        self._records.sync()

    def close(self, *, keep: bool) -> None:
        """Nothing is written any more. keep: something waits for home; it is durable on return.
        Raises OSError."""
        for marks in self._open.values():
            marks.close()
        self._open.clear()
        if keep:
            for path in [*self.blocks.iterdir(), self.blocks, self.folder]:
                _sync(path)
            self._record(CLOSED, FileId(0))
            sync_folder(self.folder.parent)
        self._records.close()

    @property
    def waits(self) -> bool:
        """Whether anything of it is not at home."""
        if self._making or self._aside:
            return True
        files = [file for file, known in list(self._files.items()) if known.marked]
        # Where nothing waits, the buffer's folder is emptied in the end.
        there = (file for file in files if written_path(self.blocks, file).exists())
        return any(waiting(self.blocks, file) is not None for file in there)

    # What home refused.

    def set_aside(self, file: FileId, blocks: dict[int, bytes]) -> None:
        """Home went on without these blocks: they are kept until they are in a conflict copy. Where
        that cannot be noted they are kept in memory."""
        known = self._file(file)
        aside = self._aside.setdefault(file, RefusedBlocks(file, self.name_of(file) or known.name))
        aside.blocks.update(blocks)
        try:
            if aside.name is not None:
                self._record(NAME, file, number=aside.name[0], data=aside.name[1])
            for number, data in blocks.items():
                self._record(ASIDE, file, number=number, data=data.rstrip(b"\0"))
        except OSError as error:
            log.error("the journal: %s", error)
        if not self._bringing:
            self.refused.set()

    def unmade(self, file: FileId, blocks: dict[int, bytes]) -> None:
        """Home has not made the file, and never will. blocks: what was written to it."""
        self._making.pop(file, None)
        self._record(DONE, file)
        if any(number != ATTRIBUTES for number in blocks):
            self.set_aside(file, blocks)

    def asides(self) -> list[RefusedBlocks]:
        """What was set aside, as far as it is complete."""
        return [] if self._bringing else list(self._aside.values())

    def copied(self, aside: RefusedBlocks) -> None:
        """It is in a conflict copy, or at home after all."""
        if self._aside.get(aside.file) is aside:
            del self._aside[aside.file]
            self._record(COPIED, aside.file)

    # Inside.

    def _file(self, file: FileId) -> _File:
        return self._files.setdefault(file, _File())

    def _begin(self, file: FileId, known: _File, extent: Extent) -> None:
        """Before anything of the file is written."""
        if known.marked:
            return
        marks = self._marks(file)
        marks.extent(extent, extent.size)
        if known.base is not None:
            marks.base(known.base)
        if known.native:
            marks.native(known.native)
        known.marked, known.extent = True, extent
        known.name = self.name_of(file) or known.name
        if not known.recorded:
            self._note_name(file, known)

    def _note_name(self, file: FileId, known: _File) -> None:
        if known.name is not None:
            known.recorded = True
            folder, name = known.name
            self._record(NAME, file, number=folder, data=name)

    def _marks(self, file: FileId) -> WrittenMarks:
        marks = self._open.get(file)
        if marks is None:
            marks = self._open[file] = WrittenMarks(self.blocks, file)
            if len(self._open) > OPEN_MARKS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(file)
        return marks

    @staticmethod
    def _bump(known: _File) -> int:
        generation, known.generation = known.generation, known.generation + 1
        if known.window is not None:
            known.window.generation(known.generation)
        return generation

    def _record(
        self, kind: int, file: FileId, *, number: int = 0, grant: int = 0, data: bytes = b""
    ) -> None:
        with self._lock:
            self._records.append((kind, 0, file, number, grant), data)
            if self._records.end > COMPACT_BYTES and self._note is not None:
                self._compact(self._note)

    def _compact(self, note: MountNote) -> None:
        """Leave out what is over. Not while content is among the records."""
        files = list(self._files.items())
        if self._aside or any(known.synced for _, known in files):
            return
        records: list[tuple[Fields, bytes]] = [((MOUNT, 0, 0, 0, 0), note.pack())]
        for file, known in files:
            if known.recorded and known.name is not None:
                records.append(((NAME, 0, file, known.name[0], 0), known.name[1]))
        for file, making in self._making.items():
            records.append(((MAKING, 0, file, 0, 0), codec.encode_call("making", [making])))
        self._records.rewrite(records)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
