# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A list that a client keeps in a file of its state: JSON of a version and rows.

Losing one costs convenience and nothing else: a file that is missing or damaged is an empty list.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from satchel.errors import IntegrityError
from satchel.files import write_durably

logger = logging.getLogger(__name__)

SIZE_LIMIT = 1 << 20

T = TypeVar("T")


def encode_rows(version: int, name: str, rows: Sequence[Any]) -> bytes:
    """name: what the rows are called in the file."""
    return json.dumps({"version": version, name: rows}, indent=1).encode() + b"\n"


def decode_rows(data: bytes, version: int, name: str) -> list[Any]:
    """The rows, unchecked. Raises ValueError, KeyError, TypeError or RecursionError."""
    if len(data) > SIZE_LIMIT:
        raise ValueError(f"it has more than {SIZE_LIMIT} bytes")
    value = json.loads(data)
    if not isinstance(value, dict) or value.get("version") != version:
        raise ValueError(f"it is not of version {version}")
    rows = value[name]
    if not isinstance(rows, list):
        raise TypeError(f"{name} are not a list")
    return rows


def load(path: Path, decode: Callable[[bytes], list[T]]) -> list[T]:
    """What `decode` makes of the file; nothing where it is missing or damaged, which is logged.

    decode: raises IntegrityError
    """
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        return []
    except (IntegrityError, OSError) as error:
        logger.warning("%s: %s", path, error)
        return []


def save(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Durably, with its folder. mode: as `write_durably` has it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(path, data, mode=mode)
