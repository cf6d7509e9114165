# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a refused condition means, and where a conflict copy goes.

The condition of an upload fails in two cases. Somebody else has changed the file: then the upload
goes beside it, under a name that says so. Or an earlier try of ours came through, and only its
answer was lost: then the service has our bytes, or the first part of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from urllib.parse import quote

from satchel.targets import normal_path
from uplink.policy import Upload

PIECE = 1 << 16


class RemoteState(Enum):
    """What a service has at an upload's path."""

    OURS = "ours"  # all of it
    TORN = "torn"  # its first part, and perhaps nothing of it
    OTHER = "other"


def compare(theirs: Iterable[bytes], upload: Upload, body: Path) -> RemoteState:
    """Reads no more of `theirs` than is needed. Raises OSError, and what `theirs` raises."""
    size = 0
    with body.open("rb") as file:
        for piece in theirs:
            size += len(piece)
            if file.read(len(piece)) != piece:
                return RemoteState.OTHER
    return RemoteState.OURS if size == upload.size else RemoteState.TORN


def copy_path(upload: Upload, who: str, attempt: int) -> str:
    """The path of its conflict copy: the same for the same upload and attempt.

    who: names this device. For example `/notes (conflict, laptop, 2026-11-26 0412).txt`.
    """
    folder, _, name = normal_path(upload.path.partition("?")[0]).rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    moment = time.strftime("%Y-%m-%d %H%M%S", time.gmtime(upload.accepted))
    word = f", {attempt + 1}" if attempt else ""
    return f"{folder}/{stem}{quote(f' (conflict, {who}, {moment}{word})')}{dot}{suffix}"


def same_bytes(upload: Upload, body: Path) -> bool:
    """Whether the spool still has what the program sent. Raises OSError."""
    with body.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == upload.sha256
