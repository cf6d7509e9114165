# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How often a guest has asked the same of its shares in one operation.

A process that is killed leaves its machines running, and the next one goes on with them. So that it
counts on, each call is noted in a file beside the machine before it is passed on; who dies with the
host needs none of it. What the guest has no answer to it asks again, with the kernel's number.

    record    kind (4), zero (4), operation (8), kernel's number (8), digest (32)
    kind 1    a call; kind 2: a read begins; kind 3: a read is over
"""

from __future__ import annotations

import os
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guestshares.digests import call_digest
from guestshares.kernel import KernelRequest

RECORD = struct.Struct("<IIQQ32s")
_CALL, _READ, _READ_OVER = 1, 2, 3
_NO_DIGEST = bytes(32)


@dataclass(frozen=True)
class CallName:
    """What a call is known by at every replica. operation: in which it was made, from 1 on; count:
    how often the same was asked before in it; digest: guestshares.digests."""

    operation: int
    count: int
    digest: bytes


class CallCounts:
    """The calls of the operation that a guest is at. Thread-safe."""

    def __init__(self, path: Path | None) -> None:
        """Go on with what is in that file, or begin anew. Raises OSError."""
        self._lock = threading.Lock()
        self._operation = 0
        self._reading = False
        self._counts: Counter[bytes] = Counter()
        self._names: dict[int, tuple[bytes, int]] = {}
        self._file: int | None = None
        if path:
            for kind, operation, unique, digest in _records(path):
                self._take(kind, operation, unique, digest)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            whole = os.fstat(self._file).st_size // RECORD.size * RECORD.size
            os.ftruncate(self._file, whole)

    def close(self) -> None:
        """The file stays."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def reading(self, *, on: bool) -> None:
        """From now on calls are part of no operation; or they are again."""
        with self._lock:
            self._note(_READ if on else _READ_OVER, 0, 0, _NO_DIGEST)

    def name(self, request: KernelRequest, operation: int) -> CallName | None:
        """Of a request whose `refusal` is 0; None where it is part of no operation. operation: what
        the agent says. A call that the guest had no answer to has the same name again."""
        with self._lock:
            if self._reading or operation < self._operation or operation == 0:
                return None
            digest = call_digest(request)
            known = self._names.get(request.unique) if operation == self._operation else None
            if known and known[0] == digest:
                return CallName(operation, known[1], digest)
            self._note(_CALL, operation, request.unique, digest)
            return CallName(operation, self._counts[digest] - 1, digest)

    def _note(self, kind: int, operation: int, unique: int, digest: bytes) -> None:
        if self._file is not None:
            if kind == _CALL and operation > self._operation:
                os.ftruncate(self._file, 0)
            os.write(self._file, RECORD.pack(kind, 0, operation, unique, digest))
        self._take(kind, operation, unique, digest)

    def _take(self, kind: int, operation: int, unique: int, digest: bytes) -> None:
        if kind != _CALL:
            self._reading = kind == _READ
            return
        if operation > self._operation:
            self._operation = operation
            self._counts.clear()
            self._names.clear()
        self._names[unique] = digest, self._counts[digest]
        self._counts[digest] += 1


def _records(path: Path) -> Iterator[tuple[int, int, int, bytes]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for offset in range(0, len(data) // RECORD.size * RECORD.size, RECORD.size):
        kind, _, operation, unique, digest = RECORD.unpack_from(data, offset)
        yield kind, operation, unique, digest
