# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which shares a home has, on disk: `shares/NAME/share.json`; docs/formats/share.md."""

from __future__ import annotations

import json
import logging
import math
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from overlay.coherence import POLICIES
from satchel.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from satchel.files import sync_folder, write_durably
from satchel.names import check_name

VERSION = 1

NODES = "nodes.json"

log = logging.getLogger(__name__)

LOGS = ("sync", "async", "off")


class ShareDamaged(IntegrityError):
    """A file that describes a share is not what was written there."""


@dataclass(frozen=True)
class ShareRecord:
    """A share as its owner described it.

    path: of the folder, absolute; policy: of coherence; relaxation: seconds; log: `sync`, `async`
    or `off`
    """

    name: str
    path: str
    policy: str = "delayed-update"
    relaxation: float = 0.0
    log: str = "async"

    def __post_init__(self) -> None:
        check_name(self.name, "share")
        if self.policy not in POLICIES:
            raise UsageError(f"no policy {self.policy}", why=f"there are {', '.join(POLICIES)}")
        if not (math.isfinite(self.relaxation) and self.relaxation >= 0):
            raise UsageError("the relaxation must be seconds, at least 0")
        if self.log not in LOGS:
            raise UsageError(f"no log {self.log}", why=f"there are {', '.join(LOGS)}")

    def to_bytes(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> ShareRecord:
        """Raises ValueError for what is none, UnsupportedError for a newer one."""
        values = json.loads(data)
        version = values.pop("version", None) if isinstance(values, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise UnsupportedError(
                f"cannot read a share's description of version {version}",
                why=f"this program knows version {VERSION}",
                fix="use the Satchel that wrote it",
            )
        types = {"name": str, "path": str, "policy": str, "relaxation": float, "log": str}
        assert types.keys() == {field.name for field in fields(cls)}
        if version != VERSION or {key: type(value) for key, value in values.items()} != types:
            raise ValueError(f"it has not just version, {', '.join(types)}")
        return cls(**values)


@dataclass(frozen=True)
class NodeRecord:
    """A node that home knows. token: what it joins again with"""

    share: str
    node: int
    token: str


class ShareShelf:
    """The folder of all shares. One process at a time; not thread-safe."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist: there are no shares then."""
        self.root = root

    def folder(self, name: str) -> Path:
        """Where the index and the log of that share are."""
        return self.root / check_name(name, "share")

    def add(self, record: ShareRecord) -> None:
        """Durable on return. Raises ConflictError where the name is taken."""
        folder = self.folder(record.name)
        if (folder / "share.json").exists():
            raise ConflictError(f"share {record.name} exists already", fix="choose another --name")
        shutil.rmtree(folder, ignore_errors=True)  # what a removal that was interrupted left
        folder.mkdir(parents=True)
        write_durably(folder / "share.json", record.to_bytes())
        sync_folder(self.root)

    def get(self, name: str) -> ShareRecord:
        """Raises NotFoundError, ShareDamaged, UnsupportedError."""
        path = self.folder(name) / "share.json"
        try:
            record = ShareRecord.from_bytes(path.read_bytes())
            if record.name != name:
                raise ValueError(f"it describes {record.name!r}")
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none yet"
            raise NotFoundError(
                f"no share {name}", why=f"shares here: {known}", fix="`satchel-home share ls`"
            ) from None
        except (ValueError, RecursionError, UsageError) as error:
            raise ShareDamaged(f"cannot read {path}", why=str(error)) from error
        return record

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self.root.glob("*/share.json"))

    def remove(self, name: str) -> None:
        """Forget a share. The folder that it shared stays as it is."""
        folder = self.folder(name)
        self.get(name)
        (folder / "share.json").unlink()
        sync_folder(folder)
        shutil.rmtree(folder)

    def nodes(self) -> list[NodeRecord]:
        """The nodes that were there when home ended. None where that cannot be read, which is
        logged: they join as new ones."""
        path = self.root / NODES
        try:
            values = json.loads(path.read_bytes())
            if not isinstance(values, dict) or values.get("version") != VERSION:
                raise ValueError("it is of another version")
            found = [NodeRecord(**each) for each in values["nodes"]]
            if any(type(each.node) is not int or each.node < 1 for each in found):
                raise ValueError("a node has no number")
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("cannot read %s: %s", path, error)
            return []
        return found

    def keep_nodes(self, nodes: list[NodeRecord]) -> None:
        """Durable on return."""
        self.root.mkdir(parents=True, exist_ok=True)
        values = {"version": VERSION, "nodes": [asdict(node) for node in nodes]}
        write_durably(self.root / NODES, json.dumps(values, indent=1).encode() + b"\n")
