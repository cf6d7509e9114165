# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node brings to its next membership, where that is much."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from shares.nodes import ROOT
from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()


def test_what_was_written_without_home_is_brought_however_much_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was posted at once: a link that was slower was given up for that, again and again."""
    monkeypatch.setattr("wire.duplex.DROWNED_LIMIT", 24 << 20)
    home.add(log="off")
    member = home.member("one")
    node = member.node
    _, handle = node.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
    caller: Any = member._membership._caller
    place = caller._path
    caller._path = place.with_name("nowhere")
    caller.duplex.cut()
    content = random.Random(9).randbytes(4 << 20)
    for turn in range(16):
        node.write(handle.number, turn * len(content), content)
    assert eventually(lambda: len(home.share.taken_over) == 1)
    caller._path = place
    try:
        assert eventually(lambda: node._joined.is_set() and node._hub.connected, 60)
        node.sync(handle.number, data_only=False)
        assert (home.root / "file").read_bytes() == content * 16
        assert len(home.share.taken_over) == 1
    finally:
        member.close()
