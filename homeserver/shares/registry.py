# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which shares a home has, on disk: `shares/NAME/share.json`; docs/formats/share.md."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from homeserver.registry import Registry
from satchel.errors import IntegrityError, UsageError
from satchel.files import write_durably
from satchel.typed import Form
from shares.home import NodeRecord, ShareRecord

NODES = "nodes.json"
NODES_VERSION = 1

log = logging.getLogger(__name__)

_FORM = Form()


class ShareDamaged(IntegrityError):
    """A file that describes a share is damaged."""


@dataclass(frozen=True)
class _Nodes:
    version: int
    nodes: list[NodeRecord]

    def __post_init__(self) -> None:
        if self.version != NODES_VERSION:
            raise UsageError("it is of another version")


class ShareRegistry(Registry[ShareRecord]):
    """The folder of all shares. One process at a time; not thread-safe. A folder that was shared
    stays as it is when its share is removed."""

    kind, record, version, damaged = "share", ShareRecord, 3, ShareDamaged
    choose = "choose another --name"

    def nodes(self) -> list[NodeRecord]:
        """The nodes that were there when home ended. None where that cannot be read, which is
        logged: they join as new ones."""
        path = self.root / NODES
        try:
            known: _Nodes = _FORM.typed(json.loads(path.read_bytes()), _Nodes, NODES)
        except FileNotFoundError:
            return []
        except (ValueError, RecursionError) as error:
            log.warning("cannot read %s: %s", path, error)
            return []
        return known.nodes

    def keep_nodes(self, nodes: list[NodeRecord]) -> None:
        """Durable on return."""
        self.root.mkdir(parents=True, exist_ok=True)
        values = _FORM.plain(_Nodes(NODES_VERSION, nodes))
        write_durably(self.root / NODES, json.dumps(values, indent=1).encode() + b"\n")
