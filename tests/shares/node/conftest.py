# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home in this process, and nodes that join it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shares.node import Buffer, Hub, Membership, Node
from shares.node.content.copies import Make
from shares.protocol import Message, NodeId
from tests.shares.home.homes import Line, LocalHome

Join = Callable[..., Node]


class WatchedHub(Hub):
    """A node's hub that notes what is posted, and that can be cut off from home."""

    def __init__(self, membership: Membership, node: NodeId, line: Line) -> None:
        super().__init__(membership, node)
        self.membership = membership
        self.posted: list[Message] = []
        self.cut, self.mend = line.cut, line.mend

    def post(self, message: Message, *callbacks: Any, **named: Any) -> None:
        self.posted.append(message)
        super().post(message, *callbacks, **named)


def watched(node: Node) -> WatchedHub:
    assert isinstance(node.hub, WatchedHub)
    return node.hub


class NodesHome(LocalHome):
    """A home whose nodes have such hubs, and join again when their test says so."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, lease=5.0)
        self.nodes: list[Node] = []
        self._memberships: list[Membership] = []
        self.add(**options)

    def hub(self, token: str = "", patience: float | None = 10.0) -> WatchedHub:
        line = self.line()
        name = f"node{len(self._memberships)}"
        membership = Membership(line.call, "photos", name, token=token, patience=patience)
        self._memberships.append(membership)
        return WatchedHub(membership, membership.join(60).node, line)

    def node(
        self, limit: int = 1 << 24, wait: float | None = 10.0, make: Make | None = None
    ) -> Node:
        hub = self.hub(patience=wait)
        buffer = Buffer(self._folder / f"cache{hub.node}", limit)
        self.nodes.append(Node(hub, buffer, wait, make))
        return self.nodes[-1]

    def lose(self, hub: WatchedHub) -> None:
        """Go on without the node, as when its lease is over."""
        self.share.lost(self.share.sessions[hub.node], "the test says so")

    def join_again(self, hub: WatchedHub) -> WatchedHub:
        return self.hub(token=hub.membership.token)

    def close(self) -> None:
        for node in self.nodes:
            watched(node).mend()
            node.close()
        for membership in self._memberships:
            membership.close()
        super().close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Home waits for nodes, however long their leases are over, until its test says `lose`."""
    monkeypatch.setattr("shares.home.nodes.detector.MARGIN", 1000.0)


@pytest.fixture
def home(tmp_path: Path, patient: None) -> Iterator[NodesHome]:
    home = NodesHome(tmp_path)
    yield home
    home.close()


@pytest.fixture
def join(home: NodesHome) -> Join:
    return home.node
