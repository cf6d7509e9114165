# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses to JSON and back, strictly: what a peer sends is taken exactly or refused.

What `decode` refuses is in satchel/typed.py; refused by `loads`: malformed, too deep, repeated
keys, strings that are no Unicode.
"""

from __future__ import annotations

import json
import typing
from typing import Any, TypeVar

from satchel.typed import Form, TypeMismatch
from wire.errors import RemoteProtocolError

T = TypeVar("T")

_OBJECTS = Form()


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON with sorted keys: one value has one encoding."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def loads(data: bytes) -> Any:
    """The JSON value in `data`. Raises RemoteProtocolError."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair cannot
        return value
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("the peer sent malformed JSON", why=str(error)[:200]) from error


def encode(value: Any) -> dict[str, Any]:
    """The JSON object for an instance of a dataclass."""
    return typing.cast("dict[str, Any]", _OBJECTS.plain(value))


def decode(cls: type[T], value: object) -> T:
    """An instance of the dataclass `cls` from a JSON value of a peer. Raises RemoteProtocolError.

    A UsageError from the dataclass's own `__post_init__` becomes a RemoteProtocolError as well.
    """
    try:
        return typing.cast(T, _OBJECTS.typed(value, cls, cls.__name__))
    except TypeMismatch as error:
        what = f"the peer sent a {error.where} that cannot be accepted"
        raise RemoteProtocolError(what, why=error.why) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("an object repeats a key")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
