# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under which right to write home has the content of blocks: docs/formats/share.md.

What a node has given to home it brings again to a home that begins anew, if it does not know yet
that it came there. Others may have written the block since, and home may have that: by the numbers
of the grants it knows what is older than what it has.

    header    magic "SATSRGHT", version (4), zero (4)
    record    CRC-32 of the rest (4), zero (4), file (8), block (8, signed), count (8), grant (8)
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from math import inf
from pathlib import Path

from satchel.record_file import Fields, RecordFile, RecordFormat
from shares.protocol import FileId

log = logging.getLogger(__name__)

FORMAT = RecordFormat("record of rights", b"SATSRGHT", 1, struct.Struct("<QqQQ"), 0)

ALL = 0
"""As a count: all blocks from there on."""

RESERVED = 10**12
"""Numbers that one directory may give: a million a second for eleven days."""

_NUMBERS = FileId(0), 0, 0
"""The run of the record with the first number that directories have left: no file has the id 0."""

COMPACT_BYTES = 1 << 20

_Run = tuple[FileId, int, int]


class Grants:
    """Of one share. Survives the end of the process; what a power cut takes of it, it takes of the
    content as well. Thread-safe.
    """

    def __init__(self, path: Path, kept: float) -> None:
        """Open or make it. kept: seconds after which no node brings content again that it gave
        before. Raises OSError, UnsupportedError."""
        self._kept = kept
        self._lock = threading.Lock()
        self._noted: OrderedDict[_Run, tuple[int, float]] = OrderedDict()
        self._file = RecordFile.open_or_replace(path, FORMAT, self._take)

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def note(self, file: FileId, first: int, count: int, grant: int) -> None:
        """Home has the latest content of these blocks, which was written under that grant at the
        latest. Where that cannot be noted, an older one may be taken later: it is logged."""
        run = (file, first, count)
        with self._lock:
            known, _ = self._noted.pop(run, (0, 0.0))
            self._noted[run] = max(known, grant), time.monotonic()
            try:
                if known < grant:
                    self._file.append((*run, grant), b"")
            except OSError as error:
                log.error("%s: %s", self._file.path, error)

    def reserve(self, least: int) -> int:
        """Return a number from which on this directory gives grants and versions: greater than any
        that an earlier directory has given, wherever the clock was. least: by the clock."""
        with self._lock:
            first = max(least, *(grant for grant, _ in self._noted.values()), 0) + 1
            self._noted[_NUMBERS] = first + RESERVED, inf
            self._noted.move_to_end(_NUMBERS)
            try:
                self._file.append((*_NUMBERS, first + RESERVED), b"")
                self._file.sync()
            except OSError as error:
                log.error("%s: %s", self._file.path, error)
            return first

    def latest(self) -> dict[FileId, list[tuple[int, int, int]]]:
        """What is known: of each file, first block, count, and grant."""
        found: defaultdict[FileId, list[tuple[int, int, int]]] = defaultdict(list)
        with self._lock:
            for (file, first, count), (grant, _) in self._noted.items():
                if file:
                    found[file].append((first, count, grant))
        return dict(found)

    def look(self) -> None:
        """To be called now and then: forgets what is old, when the file is large."""
        with self._lock:
            if self._file.end < COMPACT_BYTES:
                return
            oldest = time.monotonic() - self._kept
            for run in [run for run, (_, at) in self._noted.items() if at < oldest]:
                del self._noted[run]
            try:
                self._file.rewrite(self._records())
            except OSError as error:
                log.error("%s: %s", self._file.path, error)

    def _records(self) -> Iterator[tuple[Fields, bytes]]:
        for run, (grant, _) in self._noted.items():
            yield (*run, grant), b""

    def _take(self, fields: tuple[int, int, int, int], _: int, data: bytes) -> bool:
        file, first, count, grant = fields
        run = (FileId(file), first, count)
        known, _at = self._noted.pop(run, (0, 0.0))
        self._noted[run] = max(known, grant), inf if run == _NUMBERS else time.monotonic()
        return not data
