# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of operations that home's log no longer has: docs/formats/home.md.

A medium or a laptop that comes back late has operations below the cut of home's log. Their digests
show whether two clients wrote to one service meanwhile.

    header    magic "SATCUTOP", version (4), zero (4)
    record    CRC-32 of the rest (4), zero (4), number (8), digest (8)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from replay import Operation
from satchel.ids import OperationNumber
from satchel.record_file import RecordFile, RecordFormat

FORMAT = RecordFormat("digests of cut operations", b"SATCUTOP", 1, struct.Struct("<Q8s"), 0)
KEPT = 65_536
"""Digests of the newest operations stay."""


class LogFollower(Protocol):
    """Goes by what the log of a service has; `homeserver.guests`."""

    def logged(self, service: str) -> None:
        """There are more operations."""

    def cut(self, service: str, operation: int) -> None:
        """Those up to that one are there no more."""


class CutOperations:
    """The digests of one service. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. A damaged one is kept aside. Raises OSError, UnsupportedError."""
        self._known: dict[OperationNumber, bytes] = {}
        self._file = RecordFile.open_or_replace(path, FORMAT, self._take)

    def close(self) -> None:
        self._file.close()

    def add(self, operations: Iterable[Operation]) -> None:
        """Keep the digests of operations that are about to be cut. Durable on return. Raises
        OSError."""
        new = {operation.number: operation.digest for operation in operations}
        self._file.extend((each, b"") for each in new.items())
        self._known |= new
        if len(self._known) > 2 * KEPT:
            self._known = dict(sorted(self._known.items())[-KEPT:])
            self._file.rewrite((each, b"") for each in self._known.items())
        self._file.sync()

    def get(self, number: OperationNumber) -> bytes | None:
        """Return the digest of that operation; None if it is not kept."""
        return self._known.get(number)

    def _take(self, fields: tuple[int, bytes], _: int, data: bytes) -> bool:
        self._known[OperationNumber(fields[0])] = fields[1]
        return not data
