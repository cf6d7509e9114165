# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Plain values, as JSON has them, to what annotations say, strictly: taken exactly or refused.

Annotations are str, int, float, bool, None, bytes (a string as os.fsdecode makes it), Any (kept as
it is), an enum, an identity (NewType), a dataclass, list[T], tuple[T, ...], tuple[S, T],
dict[str, T] or T | None. Nothing is converted, except an int where a float is expected; refused are
unknown and missing keys, values of another type, integers out of range, and what is not finite.

Why not a library: cattrs converts ("5" becomes 5) unless each type is given a hook, msgspec refuses
unknown keys only for its own Struct classes, and what is needed is these few lines.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Any

from satchel.errors import UsageError


class TypeMismatch(ValueError):
    """A value has the wrong type. where: such as `ServiceStatus.lease`; why: one phrase"""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where, self.why = where, why


@dataclass(frozen=True)
class Form:
    """How dataclasses are written.

    lists: as the list of their fields' values, else as objects, in which what has a default may
    be missing. integers: those that are taken
    """

    lists: bool = False
    integers: range = range(-(1 << 63), 1 << 64)

    def plain(self, value: Any) -> Any:
        """Return the value as JSON can carry it."""
        if (names := _names(typing.cast("typing.Hashable", type(value)))) is not None:
            found = {name: self.plain(getattr(value, name)) for name in names}
            return list(found.values()) if self.lists else found
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if isinstance(value, tuple | list):
            return [self.plain(item) for item in value]
        if isinstance(value, dict):
            return {key: self.plain(item) for key, item in value.items()}
        return value

    def typed(self, value: object, hint: Any, where: str) -> Any:
        """What `plain` made, as the annotation says. Raises TypeMismatch.

        A UsageError of a dataclass's own `__post_init__` is TypeMismatch as well.
        """
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if isinstance(hint, typing.NewType):
            return self.typed(value, hint.__supertype__, where)
        if origin in (types.UnionType, typing.Union):
            (other,) = [option for option in arguments if option is not types.NoneType]
            return None if value is None else self.typed(value, other, where)
        if dataclasses.is_dataclass(hint):
            return self._instance(value, typing.cast("type[Any]", hint), where)
        if origin in (tuple, list):
            return self._sequence(value, hint, where)
        if origin is dict:
            _require(isinstance(value, dict), where, "an object", value)
            pairs = typing.cast("dict[str, object]", value).items()
            return {key: self.typed(x, arguments[1], f"{where}.{key[:40]}") for key, x in pairs}
        return self._scalar(value, hint, where)

    def _instance(self, value: object, cls: type[Any], where: str) -> Any:
        hints = _hints(typing.cast("typing.Hashable", cls))
        fields = dataclasses.fields(cls)
        if self.lists:
            count = len(fields)
            _require(isinstance(value, list), where, "an array", value)
            items = typing.cast("list[object]", value)
            if len(items) != count:
                raise TypeMismatch(where, f"must have {count} values, it has {len(items)}")
            given = {field.name: item for field, item in zip(fields, items, strict=True)}
        else:
            _require(isinstance(value, dict), where, "an object", value)
            given = typing.cast("dict[str, object]", value)
            required = {f.name for f in fields if (f.default, f.default_factory) == _MISSING}
            if unknown := sorted(str(key)[:40] for key in given.keys() - hints.keys()):
                raise TypeMismatch(where, f"has unknown keys: {', '.join(unknown[:5])}")
            if missing := sorted(required - given.keys()):
                raise TypeMismatch(where, f"lacks keys: {', '.join(missing)}")
        found = {key: self.typed(x, hints[key], f"{where}.{key}") for key, x in given.items()}
        try:
            return cls(**found)
        except UsageError as error:
            raise TypeMismatch(where, str(error)) from error

    def _sequence(self, value: object, hint: Any, where: str) -> Any:
        _require(isinstance(value, list), where, "an array", value)
        items, arguments = typing.cast("list[object]", value), typing.get_args(hint)
        if typing.get_origin(hint) is list or arguments[-1] is ...:
            wanted = [arguments[0]] * len(items)
        elif len(arguments) == len(items):
            wanted = list(arguments)
        else:
            raise TypeMismatch(where, f"must have {len(arguments)} values, it has {len(items)}")
        found = [
            self.typed(item, each, f"{where}[{i}]")
            for i, (item, each) in enumerate(zip(items, wanted, strict=True))
        ]
        return found if typing.get_origin(hint) is list else tuple(found)

    def _scalar(self, value: object, hint: Any, where: str) -> Any:
        if hint is Any:
            return value
        if hint is bytes:
            _require(isinstance(value, str), where, "str", value)
        try:
            if hint is bytes:
                return typing.cast(str, value).encode("utf-8", "surrogateescape")
            if isinstance(hint, type) and issubclass(hint, Enum):
                return hint(value)
        except ValueError as error:
            raise TypeMismatch(where, str(error)) from error
        if hint is float:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            _require(number and abs(typing.cast(float, value)) < 2**64, where, _FINITE, value)
            return float(typing.cast(float, value))
        _require(type(value) is hint, where, getattr(hint, "__name__", str(hint)), value)
        if type(value) is int and value not in self.integers:
            raise TypeMismatch(where, f"must be an integer of {_bits(self.integers)} bits")
        return value


_MISSING = (dataclasses.MISSING, dataclasses.MISSING)
_FINITE = "a finite number"


@functools.cache
def _names(cls: typing.Hashable) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields, or None for another class."""
    if not dataclasses.is_dataclass(cls):
        return None
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _hints(cls: typing.Hashable) -> dict[str, Any]:
    return typing.get_type_hints(typing.cast("type[Any]", cls))


def _bits(integers: range) -> int:
    return (integers.stop - 1).bit_length()


def _require(holds: bool, where: str, wanted: str, value: object) -> None:
    if not holds:
        raise TypeMismatch(where, f"must be {wanted}, it is {_kind(value)}")


def _kind(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    return type(value).__name__
