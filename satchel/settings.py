# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A TOML file read into a frozen dataclass: one mechanism for every program's settings.

A program declares its settings as a frozen dataclass whose fields are str, int, float, bool,
Path, a Literal, a tuple or a dict of one of these, or a nested frozen dataclass, each with a
default. A missing file is an empty one. An unknown key and a value of the wrong type are errors
that name the file and the key.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from satchel.errors import UsageError

T = TypeVar("T")


class SettingsError(UsageError):
    """A settings file that cannot be meant."""


def load(cls: type[T], path: Path) -> T:
    """Read `path` into an instance of the frozen dataclass `cls`.

    Raises SettingsError for a file that cannot be read, malformed TOML, an unknown key or a value
    of the wrong type.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return cls()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}", why=str(error)) from error
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"cannot read {path}", why=str(error)) from error
    return _build(cls, table, path, "")


def from_table(cls: type[T], table: dict[str, Any], source: Path) -> T:
    """The same of a table that was read from `source` in some other way.

    Raises SettingsError.
    """
    return _build(cls, table, source, "")


def require_numbers(
    settings: Any, *, positive: Sequence[str] = (), not_negative: Sequence[str] = ()
) -> None:
    """Raises SettingsError for the first of these fields that is too small."""
    for name in (*positive, *not_negative):
        value = getattr(settings, name)
        if value < 0 or (value == 0 and name in positive):
            wanted = "be positive" if name in positive else "not be negative"
            raise SettingsError(f"{name.replace('_', '-')} must {wanted}", why=f"it is {value}")


def _build(cls: type[T], table: dict[str, Any], path: Path, prefix: str) -> T:
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, cls))]
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in names:
            known = ", ".join(sorted(n.replace("_", "-") for n in names))
            raise SettingsError(f"{path}: unknown key {prefix}{key}", fix=f"known keys: {known}")
        if name in values:
            raise SettingsError(f"{path}: {prefix}{key} is there twice", why="- and _ are the same")
        values[name] = _convert(hints[name], value, path, prefix + key)
    return cls(**values)


def _convert(hint: Any, value: Any, path: Path, key: str) -> Any:
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _build(typing.cast(type[Any], hint), value, path, key + ".")
    if kind is tuple and isinstance(value, list):
        return tuple(_convert(inner[0], item, path, key) for item in value)
    if kind is dict and isinstance(value, dict):
        return {
            name: _convert(inner[1], item, path, f"{key}.{name}") for name, item in value.items()
        }
    if kind is typing.Literal and value in inner:
        return value
    if hint is Path and isinstance(value, str):
        return _path(value, path, key)
    if kind is None and _is_plain(hint, value):
        return hint(value)
    name = getattr(hint, "__name__", str(hint))
    if kind is typing.Literal:
        name = f"one of {', '.join(map(str, inner))}"
    raise SettingsError(f"{path}: {key} must be {name}", why=f"it is {value!r}")


def _path(value: str, path: Path, key: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"{path}: {key} is no path: {value!r}", why=str(error)) from error


def _is_plain(hint: Any, value: Any) -> bool:
    """Whether TOML's `value` stands for a str, int, finite float or bool."""
    accepted: Any = (int, float) if hint is float else hint
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, accepted) and isinstance(value, bool) == (hint is bool)
