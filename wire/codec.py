# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses to JSON and back, strictly: what a peer sends is taken exactly or refused.

Fields are str, int, float, bool, an identity (NewType), Any (a JSON value kept as it is), a nested
dataclass, tuple[T, ...], dict[str, T] or T | None. Refused by `decode`: unknown and missing keys,
values of another type (no conversion, except an int where a float is expected), integers beyond
64 bits, numbers that are not finite; refused by `loads`: malformed, too deep, repeated
keys, strings that are no Unicode.

Why not a library: cattrs converts ("5" becomes 5) unless each type is given a hook, msgspec refuses
unknown keys only for its own Struct classes, and what is needed is these few lines.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, TypeVar

from satchel.errors import UsageError
from wire.errors import RemoteProtocolError

T = TypeVar("T")

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


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
    return typing.cast("dict[str, Any]", _plain(value))


def decode(cls: type[T], value: object) -> T:
    """An instance of the dataclass `cls` from a JSON value of a peer. Raises RemoteProtocolError.

    A UsageError from the dataclass's own `__post_init__` becomes a RemoteProtocolError as well.
    """
    return typing.cast(T, _message(cls, value, cls.__name__))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


@functools.cache
def _hints(cls: typing.Hashable) -> dict[str, Any]:
    return typing.get_type_hints(typing.cast("type[Any]", cls))


def _message(cls: type[Any], value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _refusal(where, f"must be an object, it is {_kind(value)}")
    hints = _hints(typing.cast("typing.Hashable", cls))
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if unknown := sorted(str(key)[:40] for key in value.keys() - hints.keys()):
        raise _refusal(where, f"has unknown keys: {', '.join(unknown[:5])}")
    if missing := sorted(required - value.keys()):
        raise _refusal(where, f"lacks keys: {', '.join(missing)}")
    fields = {key: _field(hints[key], item, f"{where}.{key}") for key, item in value.items()}
    try:
        return cls(**fields)
    except UsageError as error:
        raise _refusal(where, str(error)) from error


def _field(hint: Any, value: object, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, typing.NewType):
        return _field(hint.__supertype__, value, where)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _field(arguments[0], value, where)
    if dataclasses.is_dataclass(hint):
        return _message(typing.cast("type[Any]", hint), value, where)
    if origin is tuple:
        _require(isinstance(value, list), where, "an array", value)
        items = typing.cast("list[object]", value)
        return tuple(_field(arguments[0], x, f"{where}[{i}]") for i, x in enumerate(items))
    if origin is dict:
        _require(isinstance(value, dict), where, "an object", value)
        pairs = typing.cast("dict[str, object]", value).items()
        return {key: _field(arguments[1], item, f"{where}.{key[:40]}") for key, item in pairs}
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: object, where: str) -> Any:
    if hint is Any:
        return value
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _require(number and abs(typing.cast(float, value)) < 2**64, where, "a finite number", value)
        return float(typing.cast(float, value))
    _require(type(value) is hint, where, getattr(hint, "__name__", str(hint)), value)
    if type(value) is int:
        _require(_INT_MIN <= value <= _INT_MAX, where, "an integer of 64 bits", value)
    return value


def _require(holds: bool, where: str, wanted: str, value: object) -> None:
    if not holds:
        raise _refusal(where, f"must be {wanted}, it is {_kind(value)}")


def _refusal(where: str, why: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the peer sent a {where} that cannot be accepted", why=why)


def _kind(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    return type(value).__name__


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("an object repeats a key")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
