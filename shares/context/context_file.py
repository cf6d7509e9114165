# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Successors on disk. They are a hint: a file that cannot be read is begun anew."""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

from satchel.files import write_durably
from shares.context.successors import Successors, SuccessorsInvalid

log = logging.getLogger(__name__)


def load_successors(path: Path) -> Successors:
    """What is in the file. Empty where there is none, or where it is damaged, which is logged."""
    try:
        data = path.read_bytes()
        if len(data) < 4 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise SuccessorsInvalid("a file context is damaged", why="its checksum is another")
        return Successors.decode(data[:-4])
    except FileNotFoundError:
        return Successors()
    except (OSError, SuccessorsInvalid) as error:
        log.warning("cannot read %s, and learn anew: %s", path, error)
        return Successors()


def save_successors(path: Path, successors: Successors) -> None:
    """Replace the file. Raises OSError."""
    data = successors.encode()
    write_durably(path, data + zlib.crc32(data).to_bytes(4, "little"))
