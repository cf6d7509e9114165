# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files of the chunk store in words, for a person who looks for what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chunkstore._native import _core


@dataclass(frozen=True)
class DumpedPart:
    """`size` bytes from `offset` of a file on: what they are (`kind`), and what they say."""

    offset: int
    size: int
    kind: str
    text: str


def dump(path: Path) -> tuple[DumpedPart, ...]:
    """The parts of a pack, a batch of records, a pack's index, a block map or a table page.

    Read as the engine reads them; damage inside of the file is a part called "garbage". Raises
    StoreDamaged if it is none of these, FileMissing or StoreNotFound if it is not there.
    """
    return tuple(DumpedPart(*part) for part in _core.dump(str(path)))
