# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The checks that every field of a manifest passes. Each raises ManifestInvalid, with the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from satchel.errors import IntegrityError

STRING_LIMIT = 200
LIST_LIMIT = 64
PORT_LIMIT = (1 << 16) - 1


class ManifestInvalid(IntegrityError):
    """The bytes are not a manifest. field: the wrong one, or empty."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"not a manifest: {field}" if field else "not a manifest", why=why)
        self.field = field


def json_object(field: str, value: object) -> dict[str, Any]:
    """Return `value`, a JSON object."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ManifestInvalid(field, "it is not a JSON object")
    return value


def exactly(field: str, value: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuse an object that lacks one of `keys` or has another one."""
    for key in set(value) ^ set(keys):
        shown = f"{key[:STRING_LIMIT]!r}"
        raise ManifestInvalid(field, f"{shown} is {'unknown' if key in value else 'missing'}")


def matching(field: str, value: object, pattern: re.Pattern[str]) -> str:
    """Return `value`, a string of at most STRING_LIMIT characters that the pattern matches."""
    if not isinstance(value, str) or len(value) > STRING_LIMIT or not pattern.fullmatch(value):
        raise ManifestInvalid(field, "it is malformed")
    return value


def number(field: str, value: object, limit: int) -> int:
    """Return `value`, a whole number from 0 to `limit`."""
    if type(value) is not int or not 0 <= value <= limit:
        raise ManifestInvalid(field, f"it is not a number from 0 to {limit}")
    return value


def port(field: str, value: object, *, least: int = 1) -> int:
    """Return `value`, a TCP port, or 0 where `least` is 0."""
    if type(value) is not int or not least <= value <= PORT_LIMIT:
        raise ManifestInvalid(field, "it is not a port")
    return value


def items(field: str, value: object, *, least: int = 1) -> list[Any]:
    """Return `value`, a list of `least` to LIST_LIMIT items."""
    if not isinstance(value, list) or not least <= len(value) <= LIST_LIMIT:
        raise ManifestInvalid(field, f"it is not a list of {least} to {LIST_LIMIT} items")
    return value
