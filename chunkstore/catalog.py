# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names given to volumes: one small JSON file each, in names/ of the store's folder.

```json
{"name": "debian", "created": "2026-01-31T12:00:00+00:00", "root": {...}, "meta": {}}
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chunkstore.errors import NameNotFound, NameTaken, StoreDamaged, StoreUsage
from chunkstore.store import Store
from chunkstore.table import TableRoot
from satchel.files import sync_folder, write_durably
from satchel.names import check_name


@dataclass(frozen=True)
class CatalogEntry:
    """A named volume.

    created: when it got its name, ISO 8601 in UTC
    meta: what the giver of the name wrote beside it; strings, numbers and the like
    """

    name: str
    root: TableRoot
    created: str
    meta: Mapping[str, Any] = field(default_factory=dict)


class Catalog:
    """The named volumes of a store. Adding and removing is durable on return."""

    def __init__(self, store: Store) -> None:
        self._folder = store.path / "names"

    def add(
        self, name: str, root: TableRoot, meta: Mapping[str, Any] | None = None
    ) -> CatalogEntry:
        """Give a volume a name. Raises NameTaken, BadName."""
        self.require_absent(name)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        entry = CatalogEntry(name, root, created, dict(meta or {}))
        document = {
            "name": name,
            "created": created,
            "root": root.to_json(),
            "meta": dict(entry.meta),
        }
        self._folder.mkdir(exist_ok=True)
        sync_folder(self._folder.parent)
        write_durably(self._path(name), json.dumps(document, indent=1).encode() + b"\n")
        return entry

    def require_absent(self, name: str) -> None:
        """Raises NameTaken if there is a volume of that name, BadName if it is none."""
        if self._path(name).exists():
            raise NameTaken(
                f"there is a volume {name} already",
                fix=f"take another name, or `satchel-home forget {name}` first",
            )

    def get(self, name: str) -> CatalogEntry:
        """The volume of that name. Raises NameNotFound, BadName, StoreDamaged."""
        path = self._path(name)
        try:
            return _parse(name, path.read_bytes())
        except FileNotFoundError:
            raise NameNotFound(
                f"there is no volume {name}", fix="`satchel-home ls` shows those that there are"
            ) from None
        except (ValueError, KeyError, TypeError, StoreUsage) as error:
            raise StoreDamaged(f"cannot read {path}", why=str(error)) from error

    def newest_of(self, size: int) -> TableRoot | None:
        """The volume of that many bytes that got its name last: what another one may be like."""
        alike = [entry for entry in self.list() if entry.root.size == size]
        return max(alike, key=lambda entry: entry.created).root if alike else None

    def remove(self, name: str) -> None:
        """Take the name away; the chunks stay until a prune. Raises NameNotFound, BadName."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise NameNotFound(f"there is no volume {name}") from None
        sync_folder(self._folder)

    def list(self) -> list[CatalogEntry]:
        """All of them by name. Raises StoreDamaged: a prune must not overlook one."""
        return [self.get(path.stem) for path in sorted(self._folder.glob("*.json"))]

    def roots(self) -> tuple[TableRoot, ...]:
        """The roots of all of them: what a prune must keep. Raises as `list` does.

        A name that is not there any more is gone for good, also where removing it failed to say so:
        it must not come back after a power cut, to chunks that a prune has removed.
        """
        if self._folder.is_dir():
            sync_folder(self._folder)
        return tuple(entry.root for entry in self.list())

    def _path(self, name: str) -> Path:
        return self._folder / f"{check_name(name, 'volume')}.json"


def _parse(name: str, data: bytes) -> CatalogEntry:
    document = json.loads(data)
    if document["name"] != name:
        raise ValueError(f"it names {document['name']!r}")
    root = TableRoot.from_json(document["root"])
    return CatalogEntry(name, root, str(document["created"]), dict(document["meta"]))
