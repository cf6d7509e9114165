# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""client.toml as commands change it: everything else in it, comments too, stays as it is."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from client.platform.settings import ClientSettings
from satchel.errors import NotFoundError, UsageError
from satchel.files import write_durably
from satchel.paths import config_dir
from satchel.settings import SettingsError, from_table

NAME = "client.toml"
MANUAL = "`man satchel` lists the settings"


def configuration(context: click.Context) -> Configuration:
    """The file that this program's settings are from."""
    named = context.find_root().params.get("config")
    return Configuration(named or config_dir() / NAME)


class Configuration:
    """One file, which need not exist. Each change is durable, and one that cannot be meant is
    refused and changes nothing: raises SettingsError, BadName."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> Any:
        """What the file says at a key such as `surrogates.cafe.port`. Raises NotFoundError."""
        found: Any = self._document().unwrap()
        for word in _words(key):
            if not isinstance(found, dict) or word not in found:
                raise NotFoundError(f"{self.path} does not say {key}", fix=MANUAL)
            found = found[word]
        return found

    def in_force(self, key: str, settings: ClientSettings) -> Any:
        """The same, or what counts without it, as TOML would have it. settings: of this file.

        Raises NotFoundError for a key that is none.
        """
        try:
            return self.get(key)
        except NotFoundError:
            found = _plain(settings)
        for word in key.split("."):
            name = word if isinstance(found, dict) and word in found else word.replace("_", "-")
            if not isinstance(found, dict) or name not in found:
                raise NotFoundError(f"there is no setting {key}", fix=MANUAL)
            found = found[name]
        return found

    def set(self, key: str, text: str) -> Any:
        """Put a value there, as TOML has it or bare; what it is then."""
        *tables, last = _words(key)
        document = self._document()
        _table(document, tables)[last] = _value(text)
        try:
            self._write(document)
        except SettingsError:
            _table(document, tables)[last] = text  # a bare word that looks like another type
            self._write(document)
        return self.get(key)

    def merge(self, key: str, values: Mapping[str, Any]) -> None:
        """Put these values into the table at `key`, which is made where it is not there."""
        document = self._document()
        table = _table(document, _words(key))
        for name, value in values.items():
            table[name] = value
        self._write(document)

    def remove(self, key: str) -> None:
        """Take a key or a table out. Raises NotFoundError."""
        self.get(key)
        *tables, last = _words(key)
        document = self._document()
        _table(document, tables).remove(last)
        self._write(document)

    def _document(self) -> tomlkit.TOMLDocument:
        try:
            return tomlkit.parse(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return tomlkit.document()
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise SettingsError(f"cannot read {self.path}", why=str(error)) from error

    def _write(self, document: tomlkit.TOMLDocument) -> None:
        text = tomlkit.dumps(document)
        from_table(ClientSettings, tomllib.loads(text), self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(self.path, text.encode("utf-8"), mode=0o600)


def _table(document: tomlkit.TOMLDocument, words: list[str]) -> Any:
    """The table at these words, made where there is none. Raises UsageError."""
    found: Any = document
    for depth, word in enumerate(words):
        if word not in found:
            found[word] = tomlkit.table(is_super_table=depth < len(words) - 1)
        found = found[word]
        if not isinstance(found, dict | Table):
            raise UsageError(f"{'.'.join(words)} is a value, and no table")
    return found


def _words(key: str) -> list[str]:
    words = [word.replace("_", "-") if n == 0 else word for n, word in enumerate(key.split("."))]
    if not all(words):
        raise UsageError(f"{key!r} is not a key", fix="write it as surrogates.cafe.port")
    return words


def _plain(value: Any) -> Any:
    """A value of a settings class as TOML would have it."""
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name.replace("_", "-"): _plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
