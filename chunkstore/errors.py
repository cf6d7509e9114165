# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The leaves of the error tree that the chunk store raises, and the one translator from the core.

NotFoundError      ChunkMissing  StoreNotFound  MediaNotFound  NameNotFound  FileMissing
ConflictError      StoreExists  StoreLocked  MediaExists  FileExists
IntegrityError     ChunkInvalid  StoreDamaged  MediaDamaged
CapacityError      StoreFull  MediaFull
UnavailableError   StoreFailed  MediaGone
AccessError        StoreDenied  MediaReadOnly
UnsupportedError   StoreVersion  MediaVersion
StateError         StoreState
UsageError         StoreUsage
"""

from __future__ import annotations

from satchel.errors import (
    AccessError,
    CapacityError,
    ConflictError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    StateError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from satchel.ids import CHUNK_REF_SIZE, ChunkRef


class ChunkMissing(NotFoundError):
    """A chunk or a table page is not in this store.

    ref: its reference
    """

    def __init__(self, what: str, *, ref: ChunkRef, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.ref = ref


class ChunkInvalid(IntegrityError):
    """A chunk does not match its reference. It was not stored or served.

    ref: the reference that it was found under, or that its record claims; zero if that is
        unreadable
    """

    def __init__(self, what: str, *, ref: ChunkRef, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.ref = ref


class StoreNotFound(NotFoundError):
    """The folder contains no store."""


class StoreExists(ConflictError):
    """The folder already contains a store or other files."""


class StoreLocked(ConflictError):
    """Another process, or another object of this process, has the store open.

    pid: the holder's process id, 0 if it is not known
    """

    def __init__(self, what: str, *, pid: int, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.pid = pid


class StoreDamaged(IntegrityError):
    """A file of the store, or a block map, is malformed."""


class StoreFull(CapacityError):
    """The disk of the store, or of the file being written, is full."""


class StoreFailed(UnavailableError):
    """The system refused to read, write or sync a file."""


class StoreDenied(AccessError):
    """This user may not read or write a file, or its file system is read-only."""


class StoreVersion(UnsupportedError):
    """The store was made by a newer version of Satchel."""


class StoreState(StateError):
    """The store is closed, or refuses writes after a failure."""


class StoreUsage(UsageError):
    """An argument is wrong."""


class FileMissing(NotFoundError):
    """A file to import or open does not exist."""


class FileExists(ConflictError):
    """A file to create already exists."""


class MediaNotFound(NotFoundError):
    """The path contains no Satchel medium."""


class MediaExists(ConflictError):
    """The path already contains a Satchel medium."""


class MediaDamaged(IntegrityError):
    """A file on a medium is malformed."""


class MediaFull(CapacityError):
    """The data does not fit on the medium. The previous content is intact."""


class MediaGone(UnavailableError):
    """The medium was pulled out, or does not answer."""


class MediaReadOnly(AccessError):
    """The medium cannot be written to."""


class MediaVersion(UnsupportedError):
    """The medium was made by a newer version of Satchel."""


class NameNotFound(NotFoundError):
    """The catalog has no volume of that name."""


_CLASSES: dict[str, dict[str, type[SatchelError]]] = {
    "store": {
        "not-found": StoreNotFound,
        "exists": StoreExists,
        "damaged": StoreDamaged,
        "full": StoreFull,
        "denied": StoreDenied,
        "gone": StoreFailed,
        "io": StoreFailed,
        "unsupported": StoreVersion,
        "usage": StoreUsage,
        "state": StoreState,
    },
    "file": {
        "not-found": FileMissing,
        "exists": FileExists,
        "damaged": StoreDamaged,
        "full": StoreFull,
        "denied": StoreDenied,
        "gone": StoreFailed,
        "io": StoreFailed,
        "usage": StoreUsage,
        "state": StoreState,
    },
    "media": {
        "not-found": MediaNotFound,
        "exists": MediaExists,
        "damaged": MediaDamaged,
        "full": MediaFull,
        "denied": MediaReadOnly,
        "gone": MediaGone,
        "io": MediaGone,
        "unsupported": MediaVersion,
        "usage": StoreUsage,
        "state": StoreState,
    },
}

_FIXES: dict[type[SatchelError], str] = {
    StoreNotFound: "make one with `satchel-home init`",
    StoreLocked: "stop that process, or use the daemon that has the store open",
    StoreDamaged: "look at it with `satchel-home verify`",
    StoreFull: "make room, then try again; nothing that was there is lost",
    StoreVersion: "use a newer version of Satchel",
    MediaNotFound: "check that it is mounted, or make it with `satchel-home media init`",
    MediaFull: "make room on it or take a larger one",
    MediaGone: "plug it in again",
    MediaReadOnly: "check its write-protect switch and how it is mounted; when it was pulled out "
    "while it was written, check its file system (fsck) first",
    MediaVersion: "use a newer version of Satchel",
}


def from_core(domain: str, kind: str, what: str, why: str, ref: bytes | None) -> SatchelError:
    """The exception for an error of the core. Called by the binding, and by who looks for a store
    without it."""
    named = ChunkRef(ref if ref is not None else bytes(CHUNK_REF_SIZE))
    if kind == "missing":
        return ChunkMissing(what, ref=named, why=why)
    if kind == "invalid":
        return ChunkInvalid(what, ref=named, why=why)
    if kind == "locked":
        pid = int(why) if why.isdigit() else 0
        holder = f"process {pid} has it open" if pid else "another process has it open"
        return StoreLocked(what, pid=pid, why=holder, fix=_FIXES[StoreLocked])
    made = _CLASSES[domain].get(kind, SatchelError)
    return made(what, why=why, fix=_FIXES.get(made, ""))
