# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home in this process, and nodes that join it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shares.node import Buffer, Node
from tests.shares.node.home import InProcessHome

Join = Callable[..., Node]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[InProcessHome]:
    made = InProcessHome(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def join(home: InProcessHome, tmp_path: Path) -> Iterator[Join]:
    nodes: list[Node] = []

    def one(limit: int = 1 << 24, wait: float | None = 10.0) -> Node:
        hub = home.join()
        nodes.append(Node(hub, Buffer(tmp_path / f"cache{hub.node}", limit), wait))
        return nodes[-1]

    yield one
    for node in nodes:
        node.hub.mend()  # type: ignore[attr-defined]
        node.close()
