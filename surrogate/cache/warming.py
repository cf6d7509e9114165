# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What many services have in common, as blocks for a cache.

A file of a package lies in whole blocks on the disk of each service that has it, and in the page
cache in each one's memory: the same chunks. So a cache that has the files of a Debian release has
part of every service that is built on it.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from satchel.errors import NotFoundError
from satchel.ids import BLOCK_SIZE

PIECE = 192 * BLOCK_SIZE
"""Bytes that are sent at once: below what a daemon takes of a request."""

_ZERO = bytes(BLOCK_SIZE)


def files_of(source: Path) -> Iterator[IO[bytes]]:
    """The regular files in a folder or a tar archive; any other file is one itself, such as a disk.

    Links are not followed. Raises NotFoundError, and OSError for what cannot be read.
    """
    if source.is_dir():
        for folder, _, names in os.walk(source):
            for path in (Path(folder, name) for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    with path.open("rb") as file:
                        yield file
    elif not source.is_file():
        raise NotFoundError(f"no file or folder {source}")
    elif tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            for member in archive:
                if member.isreg() and (inside := archive.extractfile(member)):
                    yield inside
    else:
        with source.open("rb") as file:
            yield file


def pieces_of(files: Iterable[IO[bytes]]) -> Iterator[bytes]:
    """Their blocks, at most PIECE bytes at a time. What a last block lacks is zeros, as on a disk;
    blocks of zeros are left out."""
    piece = bytearray()
    for file in files:
        while block := file.read(BLOCK_SIZE):
            block = block.ljust(BLOCK_SIZE, b"\0")
            if block != _ZERO:
                piece += block
            if len(piece) == PIECE:
                yield bytes(piece)
                piece.clear()
    if piece:
        yield bytes(piece)
