# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names given to volumes: one small JSON file for each version, in names/ of the store's folder.

```json
{"name": "debian", "serial": 1, "created": "2026-01-31T12:00:00.000000+00:00", "root": {...},
 "meta": {}}
```

A name may have many versions. `debian` is the newest, `debian@1f2e3d4c` one of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from chunkstore.errors import NameNotFound, StoreDamaged, StoreUsage, from_core
from chunkstore.store import Store
from chunkstore.table import TableRoot
from satchel.files import sync_folder, write_durably
from satchel.names import check_name
from satchel.timestamps import format_timestamp, timestamp_now

logger = logging.getLogger(__name__)

VERSION_DIGITS = 8

_LABEL = re.compile(r"([a-z0-9-]+)@([0-9a-f]{8})")


@dataclass(frozen=True)
class CatalogEntry:
    """A version of a named volume.

    version: 8 hex digits. created: when it got its name, by the clock, ISO 8601 in UTC
    meta: what the giver of the name wrote beside it; strings, numbers and the like
    serial: the number of this entry among all of the store; 0 in an older entry, without one
    """

    name: str
    version: str
    root: TableRoot
    created: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    serial: int = 0

    @property
    def label(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


class Catalog:
    """The named volumes of a store. Adding and removing is durable on return."""

    def __init__(self, store: Store | Path) -> None:
        """Of a store that is open here, or of one in a folder, whoever has it open: what is only
        read needs no more. Raises StoreNotFound."""
        path = store if isinstance(store, Path) else store.path
        if not (path / "store.json").exists():
            why = f"no file {path / 'store.json'}"
            raise from_core("store", "not-found", f"cannot open store {path}", why, None)
        self._folder = path / "names"

    def add(
        self,
        name: str,
        root: TableRoot,
        meta: Mapping[str, Any] | None = None,
        *,
        created: datetime | None = None,
    ) -> CatalogEntry:
        """Make this the newest version of a volume of that name, new or not. Raises BadName.

        created: by default now. A clock that was wrong does not matter: the serial tells the order.
        """
        check_name(name, "volume")
        moment = format_timestamp(created) if created else timestamp_now()
        entries, _ = _survey(self._paths())
        serial = 1 + max((entry.serial for entry in entries), default=0)
        document = {
            "name": name,
            "serial": serial,
            "created": moment,
            "root": root.to_json(),
            "meta": dict(meta or {}),
        }
        data = json.dumps(document, indent=1).encode() + b"\n"
        version = _version(data)
        self._folder.mkdir(exist_ok=True)
        sync_folder(self._folder.parent)
        write_durably(self._folder / f"{name}@{version}.json", data)
        return CatalogEntry(name, version, root, moment, dict(meta or {}), serial)

    def get(self, label: str) -> CatalogEntry:
        """The newest version of NAME, or that one of NAME@VERSION. Raises NameNotFound, BadName,
        StoreDamaged."""
        return self.matching(label)[-1]

    def matching(self, label: str) -> list[CatalogEntry]:
        """Every version of NAME, or that one of NAME@VERSION, the newest last. Raises as `get`."""
        paths = [self._folder / f"{each}.json" for each in self.labels(label)]
        return _sorted(_read_each(paths))

    def labels(self, label: str) -> list[str]:
        """The full labels of NAME or NAME@VERSION, whether they can be read or not. Raises
        NameNotFound, BadName."""
        name, _, version = label.partition("@")
        check_name(name, "volume")
        begin = label if version else f"{name}@"
        found = [path.stem for path in self._paths() if path.stem.startswith(begin)]
        if not found or label.endswith("@"):
            raise NameNotFound(
                f"there is no volume {label}", fix="`satchel-home ls` lists the existing ones"
            )
        return sorted(found)

    def newest_of(self, size: int) -> TableRoot | None:
        """The volume of that many bytes that got its name last: what another one may be like."""
        alike = [entry for entry in self.list() if entry.root.size == size]
        return max(alike, key=_order).root if alike else None

    def remove(self, label: str) -> list[str]:
        """Take every version of NAME away, or that one of NAME@VERSION, damaged or not; the chunks
        stay until a prune. The full labels of what went. Raises NameNotFound, BadName."""
        gone = self.labels(label)
        for each in gone:
            (self._folder / f"{each}.json").unlink(missing_ok=True)
        sync_folder(self._folder)
        return gone

    def survey(self) -> tuple[list[CatalogEntry], dict[str, StoreDamaged]]:
        """Every version of every name, the newest last; and what is damaged, by label. What is
        removed meanwhile may be left out."""
        return _survey(self._paths())

    def versions(self) -> list[CatalogEntry]:
        """Every version of every name, the newest last. Raises StoreDamaged: a prune must not
        overlook one."""
        entries, damaged = self.survey()
        for error in damaged.values():
            raise error
        return entries

    def readable(self) -> list[CatalogEntry]:
        """As `versions`, but what is damaged is left out and logged."""
        entries, damaged = self.survey()
        for error in damaged.values():
            logger.warning("%s", error)
        return entries

    def roots(self) -> tuple[TableRoot, ...]:
        """The roots of all of them: what a prune must keep. Raises as `versions` does.

        A name that is not there any more is gone for good, also where removing it failed to say so:
        it must not come back after a power cut, to chunks that a prune has removed.
        """
        if self._folder.is_dir():
            sync_folder(self._folder)
        return tuple(entry.root for entry in self.versions())

    def list(self) -> list[CatalogEntry]:
        """The newest version of each that can be read, by name; what is damaged is logged."""
        newest = {entry.name: entry for entry in self.readable()}
        return [newest[name] for name in sorted(newest)]

    def _paths(self) -> Iterable[Path]:
        return self._folder.glob("*.json")


def _version(data: bytes) -> str:
    """Of an entry with this content: a byte that has changed since makes it another one."""
    return hashlib.sha256(data).hexdigest()[:VERSION_DIGITS]


def _survey(paths: Iterable[Path]) -> tuple[list[CatalogEntry], dict[str, StoreDamaged]]:
    entries: list[CatalogEntry] = []
    damaged: dict[str, StoreDamaged] = {}
    for path in paths:
        try:
            entries += _read_each([path])
        except StoreDamaged as error:
            damaged[path.stem] = error
    return _sorted(entries), damaged


def _read_each(paths: Iterable[Path]) -> list[CatalogEntry]:
    return [entry for path in paths if (entry := _read(path))]


def _sorted(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    return sorted(entries, key=_order)


def _order(entry: CatalogEntry) -> tuple[int, str, str]:
    return entry.serial, entry.created, entry.version


def _read(path: Path) -> CatalogEntry | None:
    """None where it is gone."""
    label = _LABEL.fullmatch(path.stem)
    if label is None:
        raise StoreDamaged(
            f"cannot read {path}", why="its name is not NAME@VERSION.json", fix="move it away"
        )
    try:
        data = path.read_bytes()
        if _version(data) != label[2]:
            raise ValueError(f"its content is that of version {_version(data)}")
        document = json.loads(data)
        if document["name"] != label[1]:
            raise ValueError(f"it names {document['name']!r}")
        root = TableRoot.from_json(document["root"])
        created = datetime.fromisoformat(document["created"]).isoformat(timespec="microseconds")
        serial = int(document.get("serial", 0))
        return CatalogEntry(label[1], label[2], root, created, dict(document["meta"]), serial)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, StoreUsage) as error:
        raise StoreDamaged(
            f"cannot read {path}",
            why=str(error),
            fix="put it back from a copy, or give up what only it names: "
            f"`satchel-home forget {path.stem}`",
        ) from error
