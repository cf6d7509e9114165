# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What reads and writes a medium: `_core.Media` in this process, or somebody who has it elsewhere.

What each call does is at the method of `Media` that uses it. References are passed as n * 52 bytes,
roots as pairs of a reference and a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from chunkstore._native import _core
from chunkstore.store import Buffer

Root = tuple[bytes, int]
Told = Callable[[int, int], None]
MediaRead = tuple[int, int, list[tuple[int, int, str]], bytes]
"""Records, bytes, bad places as (pack, offset, why), references of what is damaged."""

MadeGeneration = tuple[int, int, list[tuple[str, int, bytes]], int, int, str]
"""Number, nanoseconds, files as (path, bytes, SHA-256), packs, bytes of packs, what is lacking."""


class MediaEngine(Protocol):
    """One medium that is open. Thread-safe."""

    def close(self) -> None: ...
    def has(self, refs: Buffer) -> list[bool]: ...
    def records(self, refs: Buffer) -> tuple[bytes, bytes]: ...
    def add(self, store: _core.Store, refs: Buffer, again: int, progress: Told) -> int: ...
    def pieces(self, roots: Iterable[Root]) -> tuple[int, int]: ...
    def read_file(self, path: str) -> bytes: ...
    def put_file(self, path: str, data: Buffer) -> None: ...
    def commit(
        self,
        paths: Sequence[str],
        roots: Iterable[Root],
        carried: Iterable[Root],
        partial: Iterable[Root],
        chunks: Buffer,
        keep_packs: bool,
        created: int,
    ) -> tuple[int, int, bytes]: ...
    def generations(self) -> list[MadeGeneration]: ...
    def missing(self, roots: Iterable[Root]) -> bytes: ...
    def verify(self, progress: Told) -> MediaRead: ...
    def rebuild_indexes(self, progress: Told) -> MediaRead: ...
    def free_bytes(self) -> int: ...
    def chunks(self) -> int: ...


class MediaEngines(Protocol):
    """A way to have one. key: empty for a medium in clear"""

    def open(self, root: Path, key: bytes) -> MediaEngine: ...
    def redescribe(self, root: Path, uuid: str, key: bytes) -> None: ...


ENGINES_HERE = _core.Media
"""In this process."""
