# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks of settled content, kept as they were before they were compressed.

Settled chunks are compressed several together, so that to read one takes 20 us; kept here, the next
read of it takes 2. The file has no name and is gone with the last process that has it open; what it
is inside is told by `volumes/plugin/unpacked.h`.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

logger = logging.getLogger(__name__)

UNPACKED_BYTES = 1 << 30
"""At most so much is kept."""

SPARE = 16
"""And at most one part in so many of what is free on the file system."""

LEAST_BYTES = 1 << 20
"""Less than this is not worth a file."""


class RawBlocks:
    """What the volume servers of one program keep of one store. Thread-safe.

    It must not be given to servers of another store: blocks go by their places in the packs.
    """

    def __init__(self, folder: Path, limit: int = UNPACKED_BYTES) -> None:
        """An empty file in `folder`, of at most `limit` bytes, which it takes up bit by bit. Where
        there is no room nothing is kept; that is logged, and `path` is None."""
        self._file = None
        try:
            size = min(limit, shutil.disk_usage(folder).free // SPARE)
            if size < LEAST_BYTES:
                return
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115, closed below
            self._file.truncate(size)
        except OSError as error:
            logger.warning("nothing is kept unpacked in %s: %s", folder, error)
            self.close()

    @property
    def path(self) -> Path | None:
        """By which other processes open it as long as this one has it open."""
        if self._file is None:
            return None
        return Path(f"/proc/{os.getpid()}/fd/{self._file.fileno()}")

    def close(self) -> None:
        """New servers get none of it; those that run keep what they have. Harmless twice."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
