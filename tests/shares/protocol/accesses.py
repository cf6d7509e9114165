# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs of the simulator do to blocks, whose content is a short value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shares.protocol.messages import FileId

Place = tuple[FileId, int]
VALUE = 12
"""Bytes of a block's content here."""

NOTHING = bytes(VALUE)


@dataclass(eq=False)
class Access:
    """What a program does: blocks of one file, read or written, block by block.

    whole: numbers of the blocks that are overwritten entirely. values: of the blocks read so far.
    failed: nobody knows whether it happened. logs: numbers of blocks by the token of the request
    that logs what was written to them
    """

    file: FileId
    numbers: list[int]
    value: bytes | None
    whole: range
    done: Callable[[Access], None]
    began: float
    left: list[int] = field(default_factory=list)
    logs: dict[int, int] = field(default_factory=dict)
    values: dict[int, bytes] = field(default_factory=dict)
    failed: bool = False

    @property
    def writes(self) -> bool:
        return self.value is not None
