# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A TOML file read into a frozen dataclass: one mechanism for every program's settings.

A program declares its settings as a frozen dataclass whose fields are str, int, float, bool,
Path, a Literal, a tuple or a dict of one of these, or a nested frozen dataclass, each with a
default. A missing file is an empty one. An unknown key and a value of the wrong type are errors
that name the file, the line and the key.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import math
import tomllib
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from satchel.errors import UsageError
from satchel.toml_lines import key_lines, line_of

T = TypeVar("T")

_IN_WORDS: dict[Any, str] = {
    str: "text in quotes",
    Path: "a path in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: 'a list, such as ["notes"]',
}
"""What people write for a value of a type; others are tables."""


class SettingsError(UsageError):
    """The settings file is wrong."""


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
    return _build(cls, table, _Source(path, key_lines(text)), "")


def place(path: Path, key: str) -> str:
    """Where in a file that `load` has read a key is, for people: FILE:LINE."""
    return _Source(path, key_lines(path.read_text(encoding="utf-8"))).place(key)


def changed(settings: T, changes: Sequence[str], source: str) -> T:
    """The same settings with other values: each change is KEY=VALUE, the value as in TOML or, where
    a string is wanted, bare.

    source: what errors name. Raises SettingsError, UsageError.
    """
    hints, said = typing.get_type_hints(type(settings)), _Source(Path(source), {})
    new: dict[str, Any] = {}
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator:
            raise UsageError(f"{source}: {change[:80]!r} is not a change", fix="write KEY=VALUE")
        name, value = key.replace("-", "_"), _value(text)
        if name not in hints:
            raise _unknown(said, key, list(hints))
        bare = hints[name] is str and not isinstance(value, str)
        new[name] = _convert(hints[name], text if bare else value, said, key)
    return typing.cast(T, dataclasses.replace(typing.cast(Any, settings), **new))


def from_table(cls: type[T], table: dict[str, Any], source: Path) -> T:
    """The same of a table that was read from `source` in some other way.

    Raises SettingsError.
    """
    return _build(cls, table, _Source(source, {}), "")


def require_numbers(
    settings: Any, *, positive: Sequence[str] = (), not_negative: Sequence[str] = ()
) -> None:
    """Raises SettingsError for the first of these fields that is too small."""
    for name in (*positive, *not_negative):
        value = getattr(settings, name)
        if value < 0 or (value == 0 and name in positive):
            wanted = "be positive" if name in positive else "not be negative"
            raise SettingsError(f"{name.replace('_', '-')} must {wanted}", why=f"it is {value}")


def require_service_url(url: str, *, password: bool, unencrypted: bool) -> None:
    """Raise SettingsError if `url` is not one of a service, or if a password would be sent to
    another host in clear. unencrypted: the person has allowed that."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise SettingsError("url must be https://HOST/FOLDER", why=str(error)) from error
    if parts.scheme not in ("http", "https") or not host or parts.query:
        raise SettingsError("url must be https://HOST/FOLDER", why=f"it is {url!r}")
    if password and parts.scheme == "http" and not unencrypted and not _is_loopback(host):
        raise SettingsError(
            f"the password for {host} would be sent in clear",
            why=f"url is {url!r}",
            fix="use https://; in a network that you trust, set unencrypted = true",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True)
class _Source:
    """What settings are read from. lines: of its keys, where that is known."""

    path: Path
    lines: dict[str, int]

    def place(self, key: str) -> str:
        line = line_of(self.lines, key)
        return f"{self.path}:{line}" if line else str(self.path)


def _build(cls: type[T], table: dict[str, Any], source: _Source, prefix: str) -> T:
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, cls))]
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in names:
            raise _unknown(source, prefix + key, names)
        if name in values:
            what = f"{source.place(prefix + key)}: {prefix}{key} is there twice"
            raise SettingsError(what, why="- and _ are the same")
        values[name] = _convert(hints[name], value, source, prefix + key)
    return cls(**values)


def _unknown(source: _Source, key: str, names: Sequence[str]) -> SettingsError:
    known = sorted(name.replace("_", "-") for name in names)
    near = difflib.get_close_matches(key.rpartition(".")[2].replace("_", "-"), known, 1)
    fix = f"did you mean {near[0]}? " if near else ""
    fix += f"known keys: {', '.join(known)}"
    return SettingsError(f"{source.place(key)}: unknown key {key}", fix=fix)


def _convert(hint: Any, value: Any, source: _Source, key: str) -> Any:
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _build(typing.cast(type[Any], hint), value, source, key + ".")
    if kind is tuple and isinstance(value, list):
        return tuple(
            _convert(inner[0], item, source, f"{key}[{n}]" if isinstance(item, dict) else key)
            for n, item in enumerate(value, 1)
        )
    if kind is dict and isinstance(value, dict):
        return {
            name: _convert(inner[1], item, source, f"{key}.{name}") for name, item in value.items()
        }
    if kind is typing.Literal and value in inner:
        return value
    if hint is Path and isinstance(value, str):
        return _path(value, source, key)
    if kind is None and _is_plain(hint, value):
        return hint(value)
    wanted = _IN_WORDS.get(kind or hint, "a table")
    if kind is typing.Literal:
        wanted = f"one of {', '.join(map(str, inner))}"
    raise SettingsError(f"{source.place(key)}: {key} must be {wanted}", why=f"it is {value!r}")


def _path(value: str, source: _Source, key: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        what = f"{source.place(key)}: {key} is not a path: {value!r}"
        raise SettingsError(what, why=str(error)) from error


def _value(text: str) -> Any:
    """What `KEY=text` says in TOML; the text itself where it says nothing there."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return text


def _is_plain(hint: Any, value: Any) -> bool:
    """Whether TOML's `value` stands for a str, int, finite float or bool."""
    accepted: Any = (int, float) if hint is float else hint
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, accepted) and isinstance(value, bool) == (hint is bool)
