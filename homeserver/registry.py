# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Folders of things that home has by name, each with a description:

    ROOT/NAME/KIND.json     the description, UTF-8 JSON: `version`, and the record's fields

A thing is there when its description is: that is written last and removed first.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from satchel.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from satchel.files import sync_folder, write_durably
from satchel.names import check_name
from satchel.typed import Form

_FORM = Form()


C = TypeVar("C")


def read_versioned(path: Path, content: type[C], version: int, what: str) -> C:
    """Read a JSON object with the key `version` into a dataclass. Raises FileNotFoundError,
    UnsupportedError for a newer version, and for a damaged file ValueError, RecursionError and
    UsageError."""
    values = json.loads(path.read_bytes())
    found = values.get("version") if isinstance(values, dict) else None
    if isinstance(found, int) and found > version:
        raise UnsupportedError(
            f"cannot read {path}",
            why=f"it is of version {found}, and this program knows {version}",
            fix="use the Satchel that wrote it",
        )
    if found != version:
        raise UsageError(f"it is of version {found!r}")
    return cast(C, _FORM.typed(values, content, what))


class NamedRecord(Protocol):
    """A frozen dataclass of what satchel/typed.py knows."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=NamedRecord)


class Registry(Generic[R]):
    """One process at a time; not thread-safe.

    kind: the word for one; record: its dataclass; version: that is written, and the earlier ones
    that are read lack fields which have defaults; damaged: what a description that cannot be read
    raises; choose: what to do where a name is taken
    """

    kind: ClassVar[str]
    record: ClassVar[type[Any]]
    version: ClassVar[int]
    damaged: ClassVar[type[IntegrityError]]
    choose: ClassVar[str] = "choose another name"

    def __init__(self, root: Path) -> None:
        """`root` need not exist: there is nothing then."""
        self.root = root

    def folder(self, name: str) -> Path:
        """What belongs to the thing of that name. Raises BadName."""
        return self.root / check_name(name, self.kind)

    def add(self, record: R) -> None:
        """Durable on return. Raises ConflictError when the name is taken."""
        folder = self.folder(record.name)
        if self._description(record.name).exists():
            raise ConflictError(f"{self.kind} {record.name} exists already", fix=self.choose)
        shutil.rmtree(folder, ignore_errors=True)  # what a removal that was interrupted left
        folder.mkdir(parents=True)
        self._write(record)
        sync_folder(self.root)

    def replace(self, record: R) -> None:
        """Describe what is there otherwise; durable on return. Raises as `get`."""
        self.get(record.name)
        self._write(record)

    def get(self, name: str) -> R:
        """Raises NotFoundError, BadName, `damaged`, and UnsupportedError for a newer version."""
        path = self._description(name)
        try:
            record = self._read(path.read_bytes())
            if record.name != name:
                raise ValueError(f"it describes {record.name!r}")
        except FileNotFoundError:
            known = ", ".join(self.names())
            raise NotFoundError(
                f"no {self.kind} {name}",
                why=f"here there is {known}" if known else "there is none yet",
                fix=f"`satchel-home {self.kind} add` makes one",
            ) from None
        except (ValueError, RecursionError) as error:
            fix = f"put it back from a copy; `mv {path.parent}` away gives up all that it has"
            raise self.damaged(f"cannot read {path}", why=str(error), fix=fix) from error
        return record

    def names(self) -> list[str]:
        """Of all that are there, sorted."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{self.kind}.json"))

    def all(self) -> list[R]:
        """By name. Raises as `get` does."""
        return [self.get(name) for name in self.names()]

    def remove(self, name: str) -> None:
        """Forget it, with all that is in its folder. Raises as `get` does."""
        self.get(name)
        self._description(name).unlink()
        sync_folder(self.folder(name))
        shutil.rmtree(self.folder(name))

    def _description(self, name: str) -> Path:
        return self.folder(name) / f"{self.kind}.json"

    def _write(self, record: R) -> None:
        values = {"version": self.version, **_FORM.plain(record)}
        data = json.dumps(values, indent=2).encode() + b"\n"
        write_durably(self._description(record.name), data)

    def _read(self, data: bytes) -> R:
        values = json.loads(data)
        version = values.pop("version", None) if isinstance(values, dict) else None
        if isinstance(version, int) and version > self.version:
            raise UnsupportedError(
                f"cannot read a {self.kind}'s description of version {version}",
                why=f"this program knows version {self.version}",
                fix="use the Satchel that wrote it",
            )
        if type(version) is not int or version < 1:
            raise ValueError(f"it is of version {version!r}")
        record = _FORM.typed(values, self.record, self.kind)
        if version == self.version and (missing := _FORM.plain(record).keys() - values.keys()):
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        return cast(R, record)
