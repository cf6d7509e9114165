# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session's file: records are appended, and now and then it is written anew, shorter."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from satchel.errors import ConflictError, IntegrityError
from satchel.files import claimed, write_durably
from shares.session.records import Record, pack_all, unpack_at

COMPACT_BYTES = 1 << 20
"""So long it gets at least before it is written anew."""


class Store:
    """One process at a time; not thread-safe. What `append` returned from survives the process;
    what `sync` did, a power cut as well."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it. Raises ConflictError where another process has it, IntegrityError
        where it is damaged. A record that was being appended when the power went is cut off."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as claim:
            if not claim.enter_context(claimed(path.with_name(path.name + ".lock"))):
                raise ConflictError(
                    f"the session {path} is in use", fix="end the program that has it"
                )
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            claim.callback(lambda: os.close(self._file))
            self.records, end = _read(path.read_bytes())
            os.ftruncate(self._file, end)
            self._claim = claim.pop_all()
        self._size, self._least = end, COMPACT_BYTES

    def append(self, *records: Record) -> None:
        """Raises OSError where the disk is full; then none of them is there."""
        data = pack_all(records)
        try:
            at = 0
            while at < len(data):
                at += os.write(self._file, data[at:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    @property
    def long(self) -> bool:
        """Whether it had better be written anew."""
        return self._size > self._least

    def replace(self, records: Iterable[Record]) -> None:
        """Have these in it and no others. Durable."""
        data = pack_all(records)
        write_durably(self.path, data)
        os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        self._size, self._least = len(data), max(COMPACT_BYTES, 2 * len(data))

    def sync(self) -> None:
        os.fdatasync(self._file)

    def close(self, *, remove: bool = False) -> None:
        if remove:
            self.path.unlink(missing_ok=True)
        self._claim.close()


def _read(data: bytes) -> tuple[list[Record], int]:
    """The records, and where the last whole one ends. Raises IntegrityError where a damaged one has
    a whole one behind it: that is no append which did not end."""
    records: list[Record] = []
    at = 0
    while at < len(data):
        try:
            record, after = unpack_at(data, at)
        except IntegrityError:
            if _any_behind(data, at):
                raise
            break
        records.append(record)
        at = after
    return records, at


def _any_behind(data: bytes, at: int) -> bool:
    for place in range(at + 1, min(len(data), at + (1 << 16))):
        try:
            unpack_at(data, place)
        except IntegrityError:
            continue
        return True
    return False
