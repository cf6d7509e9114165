# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A delta of a carried service comes to home piece by piece, so that a link may break."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from satchel.errors import ConflictError, IntegrityError, UsageError

SIZE_LIMIT = 1 << 30
"""Bytes of a delta that home takes."""


class DeltaRefused(IntegrityError):
    """The delta does not lead to the state that it names."""


class IncomingDelta:
    """The delta that is coming in for one service, in a file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._digest = ""

    def have(self, digest: str) -> int:
        """Bytes of that delta that are here."""
        with self._lock:
            if digest != self._digest or not self._path.exists():
                return 0
            return self._path.stat().st_size

    def add(self, digest: str, offset: int, data: bytes) -> int:
        """Take a piece; how many bytes are here now. Raises ConflictError where others are due."""
        with self._lock:
            if offset == 0:
                self._path.unlink(missing_ok=True)
                self._digest = digest
            size = self._path.stat().st_size if self._path.exists() else 0
            if digest != self._digest or offset != size:
                why = f"{size} bytes of {self._digest[:16] or 'none'} are here"
                raise ConflictError("this piece of a delta is not due", why=why)
            if size + len(data) > SIZE_LIMIT:
                raise UsageError(f"a delta has at most {SIZE_LIMIT} bytes")
            with self._path.open("ab") as file:
                file.write(data)
            return size + len(data)

    def whole(self, digest: str) -> bytes:
        """All of it. Raises DeltaRefused where it is another."""
        with self._lock:
            data = self._path.read_bytes() if self._path.exists() else b""
            if digest != self._digest or hashlib.sha256(data).hexdigest() != digest:
                raise DeltaRefused("a delta came in damaged", fix="send it again from its start")
            return data

    def clear(self) -> None:
        """Forget it."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._digest = ""
