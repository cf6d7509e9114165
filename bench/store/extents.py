# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What of a sparse file is not in holes. Imports nothing of the project: one_work.py does so."""

from __future__ import annotations

import os
from collections.abc import Iterator


def data_extents(file: int) -> Iterator[tuple[int, int]]:
    """(begin, end) in bytes of each, in ascending order. file: a descriptor."""
    at, end = 0, os.fstat(file).st_size
    while at < end:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # nothing but holes from there on
            return
        hole = os.lseek(file, at, os.SEEK_HOLE)
        yield at, hole
        at = hole
