# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Handles of open files, as numbers that mean the same at every node: the file's id, and what of
the open's flags matters later."""

from __future__ import annotations

import os

from shares.protocol import FileId

FLAG_BITS = 8
APPEND = 4


def number(file: FileId, flags: int) -> int:
    """The handle of an open with these flags."""
    return file << FLAG_BITS | flags & os.O_ACCMODE | (APPEND if flags & os.O_APPEND else 0)


def file_of(handle: int) -> FileId:
    return FileId(handle >> FLAG_BITS)


def reads_from(handle: int) -> bool:
    """Of a handle, or of the flags of an open."""
    return handle & os.O_ACCMODE != os.O_WRONLY


def writes_to(handle: int) -> bool:
    """Of a handle, or of the flags of an open."""
    return handle & os.O_ACCMODE != os.O_RDONLY


def appends(handle: int) -> bool:
    """Whether what is written goes to the end, wherever that is."""
    return bool(handle & APPEND)
