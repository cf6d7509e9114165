# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A call that waits for longer than the node's `wait` fails with EIO and a line of the log: also
where home answers, and another node does not give its blocks back."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable

import pytest

from shares.node import ROOT, Changes, Node
from shares.protocol import BLOCK, FileId
from tests.shares.node.conftest import Join

WAIT = 0.6
OPEN = os.O_RDWR


def write(node: Node, file: FileId, handle: int) -> object:
    return node.write(handle, 100, b"x" * 2 * BLOCK)


CALLS: dict[str, Callable[[Node, FileId, int], object]] = {
    "write": write,
    "read": lambda node, file, handle: node.read(handle, 0, BLOCK),
    "stat": lambda node, file, handle: node.attributes(file, handle),
    "cut": lambda node, file, handle: node.change(file, Changes(size=5), handle),
    "open": lambda node, file, _: node.open(file, OPEN),
    "hole": lambda node, file, handle: node.allocate(handle, 3, 0, 2 * BLOCK),
}


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Callable[[Node], list[Callable[[], None]]]:
    """Have a node answer nothing that home asks. Its heartbeats continue. Return its
    answers."""

    def silence(node: Node) -> list[Callable[[], None]]:
        unsaid: list[Callable[[], None]] = []
        answer = node.content.answer
        monkeypatch.setattr(
            node.content, "answer", lambda *asked: unsaid.append(lambda: answer(*asked))
        )
        node._listen(node.hub)
        return unsaid

    return silence


@pytest.mark.parametrize("name", CALLS)
def test_a_node_that_gives_nothing_back_stops_nobody_for_ever(
    join: Join,
    mute: Callable[[Node], list[Callable[[], None]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr("wire.conversation.waits.ANSWER_SECONDS", WAIT)
    one, two = join(wait=WAIT), join()
    entry, handle = two.create(ROOT, b"file", 0o644, OPEN, 0, 0)
    file = entry.attributes.file
    here = one.open(file, OPEN).number if name != "open" else 0
    two.write(handle.number, 0, b"a" * 3 * BLOCK)
    unsaid = mute(two)
    began = time.monotonic()
    with pytest.raises(OSError, match="has not answered") as caught:
        CALLS[name](one, file, here)
    assert caught.value.errno == errno.EIO
    assert WAIT <= time.monotonic() - began < WAIT + 20
    assert "has not answered" in caplog.text
    for say in unsaid:
        say()
    assert one.attributes(file, here or None).size <= 3 * BLOCK
