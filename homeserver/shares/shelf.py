# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which shares a home has, on disk: `shares/NAME/share.json`; docs/formats/share.md."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, dataclass

from homeserver.shelf import Shelf
from overlay.coherence import POLICIES
from satchel.errors import IntegrityError, UsageError
from satchel.files import write_durably
from satchel.names import check_name

NODES = "nodes.json"
NODES_VERSION = 1

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


@dataclass(frozen=True)
class NodeRecord:
    """A node that home knows. token: what it joins again with"""

    share: str
    node: int
    token: str


class ShareShelf(Shelf[ShareRecord]):
    """The folder of all shares. One process at a time; not thread-safe. A folder that was shared
    stays as it is when its share is removed."""

    kind, record, version, damaged = "share", ShareRecord, 1, ShareDamaged
    choose = "choose another --name"

    def nodes(self) -> list[NodeRecord]:
        """The nodes that were there when home ended. None where that cannot be read, which is
        logged: they join as new ones."""
        path = self.root / NODES
        try:
            values = json.loads(path.read_bytes())
            if not isinstance(values, dict) or values.get("version") != NODES_VERSION:
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
        values = {"version": NODES_VERSION, "nodes": [asdict(node) for node in nodes]}
        write_durably(self.root / NODES, json.dumps(values, indent=1).encode() + b"\n")
