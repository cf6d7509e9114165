# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The record file of a mount's journal, and how it is read: docs/formats/mount-journal.md."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from pathlib import Path

from satchel.errors import IntegrityError
from satchel.record_file import Fields, RecordFile, RecordFormat
from shares.node.extent import BLOCK
from shares.node.hub import codec
from shares.node.hub.hub import PendingCreate
from shares.protocol import FileId

FORMAT = RecordFormat("journal of a mount", b"SATMOUNT", 1, struct.Struct("<IIQqQ"), 1 << 16)
"""Fields: kind, zero, file, number, grant."""

MOUNT, NAME, GONE, MAKING, MADE, CONTENT, DONE, CLOSED, ASIDE, COPIED = range(1, 11)
"""Kinds of records. MOUNT: data is JSON. NAME: number is the folder, data the path,
as far as it is known; its end is the name. GONE: a program
here has taken the name away. MAKING: data is the `PendingCreate`. MADE: home has answered it.
CONTENT: data is a block of content that was synced. DONE: nothing that was said of the file before
counts any more. CLOSED: all marks and content of before are durable. ASIDE: data is a block that
home refused. COPIED: what was set aside of the file is in a conflict copy."""

NO_EXTENT, BASE = -2, -3
"""Numbers of CONTENT that are no blocks: size and times that home has too; size and time that home
had."""

BASE_LAYOUT = struct.Struct("<Qq")

JOURNAL = "journal"
BLOCKS = "blocks"


@dataclass(frozen=True)
class MountNote:
    """Which mount a journal is of. home: where home is, as the client's settings have it; name: the
    node's; token: what home knows the node by; boot: the boot of this machine"""

    share: str
    mountpoint: str
    home: str
    name: str
    token: str
    boot: str

    def pack(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def unpack(cls, data: bytes) -> MountNote:
        """Raises IntegrityError."""
        try:
            found = json.loads(data)
            note = cls(**found)
        except (ValueError, TypeError) as error:
            raise IntegrityError("a journal does not say which mount it is of") from error
        if not all(isinstance(value, str) for value in found.values()):
            raise IntegrityError("a journal does not say which mount it is of")
        return note


@dataclass
class RefusedBlocks:
    """Blocks of a file that home refused; -1: size and times. name: folder and name, where known"""

    file: FileId
    name: tuple[FileId, bytes] | None
    blocks: dict[int, bytes] = field(default_factory=dict)


def this_boot() -> str:
    """A word for the boot of this machine, another one after each."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass
class JournalState:
    """What the record file of a journal says. names, gone, makings, made (with grants): by file;
    content: of each file, number, with grant and data; aside: what home refused; closed: whether
    all marks and content are durable"""

    note: MountNote | None = None
    names: dict[FileId, tuple[FileId, bytes]] = field(default_factory=dict)
    gone: set[FileId] = field(default_factory=set)
    makings: dict[FileId, PendingCreate] = field(default_factory=dict)
    made: dict[FileId, int] = field(default_factory=dict)
    content: dict[FileId, dict[int, tuple[int, bytes]]] = field(default_factory=dict)
    aside: dict[FileId, RefusedBlocks] = field(default_factory=dict)
    closed: bool = False

    def take(self, fields: Fields, _: int, data: bytes) -> bool:
        """The next record; whether it is one. As RecordFile wants it."""
        kind, zero, about, number, grant = (int(each) for each in fields)
        if zero or not MOUNT <= kind <= COPIED:
            return False
        file = FileId(about)
        self.closed = kind == CLOSED
        if kind == MOUNT:
            self.note = MountNote.unpack(data)
        elif kind == NAME:
            self.names[file] = FileId(number), data
            self.gone.discard(file)
        elif kind == GONE:
            self.gone.add(file)
        elif kind == MAKING:
            making = codec.typed(codec.decode_call(data)[1][0], PendingCreate)
            assert isinstance(making, PendingCreate)
            self.makings[file] = making
            self.names[file] = making.folder, making.name
        elif kind == MADE:
            self.makings.pop(file, None)
            self.made[file] = grant
        elif kind == DONE:
            self._over(file)
        else:
            self._take_content(kind, file, number, grant, data)
        return True

    def _take_content(self, kind: int, file: FileId, number: int, grant: int, data: bytes) -> None:
        if kind == CONTENT:
            self.content.setdefault(file, {})[number] = grant, data
        elif kind == ASIDE:
            aside = self.aside.setdefault(file, RefusedBlocks(file, self.names.get(file)))
            aside.blocks[number] = data.ljust(BLOCK, b"\0")
        elif kind == COPIED:
            self.aside.pop(file, None)

    def _over(self, file: FileId) -> None:
        self.names.pop(file, None)
        self.makings.pop(file, None)
        self.made.pop(file, None)
        self.content.pop(file, None)
        self.gone.discard(file)


def read_records(folder: Path) -> JournalState:
    """Of the journal in that folder, which nobody serves. Raises OSError, NoRecordFile,
    UnsupportedError, IntegrityError where it does not say which mount it is of."""
    kept = JournalState()
    path = folder / JOURNAL
    if not path.exists():
        raise IntegrityError(f"{folder} has no journal")
    RecordFile(path, FORMAT, kept.take).close()
    if kept.note is None:
        raise IntegrityError(f"{path} does not say which mount it is of")
    return kept
