# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files of the chunk store in words, for a person who looks for what is wrong."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from chunkstore._native import _core
from chunkstore.errors import StoreDamaged


@dataclass(frozen=True)
class DumpedPart:
    """`size` bytes from `offset` of a file on: what they are (`kind`), and what they say."""

    offset: int
    size: int
    kind: str
    text: str


def dump(path: Path) -> tuple[DumpedPart, ...]:
    """The parts of a pack, a batch of records, a pack's index, a block map or a table page; of the
    index of a store, which is a folder, the entries.

    Read as the engine reads them; damage inside of the file is a part called "garbage". Raises
    StoreDamaged if it is none of these, FileMissing or StoreNotFound if it is not there.
    """
    if path.is_dir():
        return _index(path)
    return tuple(DumpedPart(*part) for part in _core.dump(str(path)))


def _index(path: Path) -> tuple[DumpedPart, ...]:
    """Of a copy: LevelDB cannot be opened without writing, nor beside the store's owner."""
    if not (path / "CURRENT").exists():
        raise StoreDamaged(f"cannot show {path}", why="it is not an index of a store")
    with tempfile.TemporaryDirectory(prefix="satchel-dump-") as folder:
        copy = shutil.copytree(path, Path(folder) / "index", ignore=shutil.ignore_patterns("LOCK"))
        return tuple(DumpedPart(*part) for part in _core.dump(str(copy), index=True))
