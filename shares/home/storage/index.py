# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which file has which id, on disk: docs/formats/share.md.

An id stands for an inode: its number and the moment in which it was made, because file systems give
numbers of removed files to new ones. Names are kept to find a file by its id alone; they are where
it was last seen, and whoever goes there looks whether it is still the file.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.errors import IntegrityError, UnsupportedError
from shares.home.storage.system_calls import FileStatus
from shares.node import ROOT
from shares.protocol import FileId

log = logging.getLogger(__name__)

VERSION = 2

APPLICATION = 0x53415449
"""SQLite's application id: "SATI"."""

RESERVED = 1 << 16
"""Ids that are taken at once, durably: after a power cut those of them that were not given are
passed over."""

_SCHEMA = """
CREATE TABLE files (id INTEGER PRIMARY KEY, inode INTEGER NOT NULL, birth INTEGER NOT NULL,
                    UNIQUE (inode, birth));
CREATE TABLE names (parent INTEGER NOT NULL, name BLOB NOT NULL, file INTEGER NOT NULL,
                    PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE INDEX names_of_file ON names (file);
CREATE TABLE reserved (below INTEGER NOT NULL);
INSERT INTO reserved VALUES (2);
"""

_LEFT = "CREATE TABLE left_as (file INTEGER PRIMARY KEY, size INTEGER, modified TEXT);"
"""Since version 2. Times of files may have more than 64 bits."""


class ShareIndexDamaged(IntegrityError):
    """The index of a share cannot be read."""


class Index:
    """Ids, inodes and names of one share. Not thread-safe: its tree has a lock.

    Survives the end of the process at every moment; after a power cut the last seconds may be
    missing, and their files get other ids. What cannot be noted raises OSError. What is no more
    need not be: who looks at a place, or for the id of an inode, finds another inode there.
    """

    def __init__(self, path: Path, root: FileStatus) -> None:
        """Open or make the index at `path`. Raises ShareIndexDamaged, UnsupportedError, OSError."""
        self._path = path
        try:
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._open()
            self.move(ROOT, root)
            self._next = self._below = 0
            self._reserve()
        except sqlite3.DatabaseError as error:
            raise ShareIndexDamaged(
                f"cannot read the index {path}",
                why=str(error),
                fix="remove it with `satchel-home share rm` and add the share again",
            ) from error

    def close(self) -> None:
        self._base.close()

    def of(self, status: FileStatus) -> FileId:
        """The id of that inode, a new one where it has none."""
        key = _key(status)
        row = self._base.execute("SELECT id FROM files WHERE inode=? AND birth=?", key).fetchone()
        if row:
            return FileId(row[0])
        file = self.take(1)
        self.give(file, status)
        return file

    def take(self, count: int) -> FileId:
        """The first of so many ids, which are nobody's else from now on."""
        if self._next + count > self._below:
            self._reserve()
        file = FileId(self._next)
        self._next += count
        return file

    def give(self, file: FileId, status: FileStatus) -> None:
        """Note that the inode, a new one, has this id, which was taken. Raises OSError where it was
        not, or is another's."""
        if not 0 < file < self._next or self.has(file):
            raise OSError(errno.EINVAL, f"{file} is not an id for a new file")
        key = _key(status)
        old = self._base.execute("SELECT id FROM files WHERE inode=?", key[:1]).fetchall()
        for (other,) in old:
            if other != ROOT:
                self.forget(FileId(other))
        self._write("INSERT INTO files VALUES (?, ?, ?)", (file, *key))

    def has(self, file: FileId) -> bool:
        """Whether an inode has it."""
        row = self._base.execute("SELECT 1 FROM files WHERE id=?", (file,)).fetchone()
        return row is not None

    def matches(self, file: FileId, status: FileStatus) -> bool:
        """Whether that is the inode of this id."""
        row = self._base.execute("SELECT inode, birth FROM files WHERE id=?", (file,)).fetchone()
        return row is not None and tuple(row) == _key(status)

    def places(self, file: FileId) -> list[tuple[FileId, bytes]]:
        """Where the file was last seen: folder and name."""
        if not 0 < file < 1 << 63:
            return []  # no id of ours; the database knows no such number
        rows = self._base.execute("SELECT parent, name FROM names WHERE file=?", (file,))
        return [(FileId(parent), bytes(name)) for parent, name in rows]

    def named(self, parent: FileId, name: bytes) -> FileId | None:
        """Return the file that last had the name."""
        about = parent, name
        row = self._base.execute("SELECT file FROM names WHERE parent=? AND name=?", about)
        found = row.fetchone()
        return FileId(found[0]) if found else None

    def found(self, parent: FileId, name: bytes, file: FileId) -> None:
        """Note that the name stands for this file now."""
        self._write(
            "INSERT INTO names VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET file=excluded.file"
            " WHERE file!=excluded.file",
            (parent, name, file),
        )

    def lost(self, parent: FileId, name: bytes) -> None:
        """Note that the name is no more."""
        with self._room_or_not():
            self._write("DELETE FROM names WHERE parent=? AND name=?", (parent, name))

    def forget(self, file: FileId) -> None:
        """Note that the file is no more. Its id is never given again."""
        with self._room_or_not():
            self._write("DELETE FROM files WHERE id=?", (file,))
            self._write("DELETE FROM names WHERE file=?", (file,))

    def begin(self) -> None:
        """Collect changes until `commit`: many are much faster as one."""
        self._base.execute("BEGIN")

    def commit(self) -> None:
        if self._base.in_transaction:  # else there was no room for it, and nothing of it is noted
            self._write("COMMIT")

    def _write(self, what: str, values: tuple[object, ...] = ()) -> None:
        try:
            self._base.execute(what, values)
        except sqlite3.OperationalError as error:
            full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error

    @contextmanager
    def _room_or_not(self) -> Iterator[None]:
        """For what need not be noted."""
        try:
            yield
        except OSError as error:
            log.warning("%s: %s", self._path, error)

    def _open(self) -> None:
        base = self._base
        base.execute("PRAGMA journal_mode=WAL")
        (version,) = base.execute("PRAGMA user_version").fetchone()
        (application,) = base.execute("PRAGMA application_id").fetchone()
        if version > VERSION and application == APPLICATION:
            raise UnsupportedError(
                f"cannot read the index {self._path} of version {version}",
                why=f"this program knows version {VERSION}",
                fix="use the Satchel that wrote it",
            )
        if (version, application) == (0, 0):
            base.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} {_LEFT}"
                f"PRAGMA user_version={VERSION}; PRAGMA application_id={APPLICATION}; COMMIT;"
            )
        elif application != APPLICATION:
            raise sqlite3.DatabaseError("it is not an index of a share")
        elif version < VERSION:
            base.executescript(f"BEGIN IMMEDIATE; {_LEFT} PRAGMA user_version={VERSION}; COMMIT;")

    def leave(self, files: Iterable[tuple[FileId, int, int]]) -> None:
        """Note size and time of the last write of files, as home leaves them."""
        rows = [(file, size, str(modified)) for file, size, modified in files]
        with self._room_or_not():
            self._write("BEGIN")
            self._base.executemany("INSERT OR REPLACE INTO left_as VALUES (?, ?, ?)", rows)
            self._write("COMMIT")

    def take_left(self) -> dict[FileId, tuple[int, int]]:
        """Return what the previous home has left, and forget it."""
        rows = self._base.execute("SELECT file, size, modified FROM left_as").fetchall()
        with self._room_or_not():
            self._write("DELETE FROM left_as")
        return {FileId(file): (size, int(modified)) for file, size, modified in rows}

    def move(self, file: FileId, status: FileStatus) -> None:
        """Note that this inode has the id from now on, and no other one has."""
        key = _key(status)
        self._write("DELETE FROM files WHERE inode=? AND birth=? AND id!=?", (*key, file))
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (file, *key))

    def _reserve(self) -> None:
        collecting = self._base.in_transaction
        if collecting:
            self.commit()
        self._base.execute("PRAGMA synchronous=FULL")  # not within a transaction
        self._write("UPDATE reserved SET below = below + ?", (RESERVED,))
        self._base.execute("PRAGMA synchronous=NORMAL")
        (below,) = self._base.execute("SELECT below FROM reserved").fetchone()
        self._below = int(below)
        self._next = self._below - RESERVED
        if collecting:
            self.begin()


def _key(status: FileStatus) -> tuple[int, int]:
    """SQLite's integers have 64 bits and a sign."""
    return _signed(status.inode), _signed(status.birth)


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
