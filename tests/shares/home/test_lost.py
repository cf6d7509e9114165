# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is told of a node that home went on without: at home, and to the other nodes."""

from __future__ import annotations

import errno
import os
from time import monotonic

import pytest

from shares.home import share_status
from shares.node import ROOT, Node, NodeLoss, RestoreReport
from shares.node.hub.losses import Losses
from shares.protocol import BLOCK, FileId, NodeId
from tests.shares.home.homes import LEASE, LocalHome
from tests.waiting import eventually


def make(node: Node, name: bytes, content: bytes) -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, name, 0o644, os.O_RDWR, os.getuid(), os.getgid())
    node.write(handle.number, 0, content)
    return entry.attributes.file, handle.number


def test_home_tells_which_node_it_went_on_without_and_what_it_replayed(
    home: LocalHome, caplog: pytest.LogCaptureFixture
) -> None:
    home.add(log="sync")
    gone, orderly = home.join("gone", wait=0.5), home.join("orderly")
    here = home.join("here").node
    file, first = make(gone.node, b"file", bytes(BLOCK))
    second = here.open(file, os.O_RDWR).number
    assert here.read(second, 0, 1) == b"\0"
    gone.node.write(first, 0, b"written")
    orderly.node.close()
    orderly.node.hub.leave()
    orderly.membership.close()
    home.members.remove(orderly)
    gone.cut_off()
    assert here.read(second, 0, 7) == b"written"
    (told,) = share_status(home.share)["taken_over"]
    restored = told["restored"]
    assert (told["name"], restored["records"] > 0) == ("gone", True)
    assert (restored["files"], restored["blocks"], restored["failed_blocks"]) == (1, 1, 0)
    assert "nothing was heard" in told["why"]
    assert "home goes on without it" in caplog.text
    assert eventually(lambda: here.status()["taken_over"], LEASE)
    (heard,) = here.status()["taken_over"]
    assert (heard["at"], heard["restored"]) == (told["at"], restored)
    later = home.join("later").node
    assert eventually(lambda: later.status()["taken_over"], LEASE)


def test_what_a_lost_node_logged_and_no_file_takes_is_told(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = home.add(log="sync")
    gone = home.join("gone", wait=0.5)
    _, first = make(gone.node, b"kept", b"x" * 2 * BLOCK)
    bad, second = make(gone.node, b"bad", b"y" * BLOCK)
    gone.node.write(first, 0, b"written")
    gone.node.write(second, 0, b"written")
    write = share.tree.write

    def fails(file: FileId, offset: int, data: bytes) -> None:
        if file == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        write(file, offset, data)

    monkeypatch.setattr(share.tree, "write", fails)
    gone.cut_off()
    assert eventually(lambda: share.lost_since(0.0))
    (told,) = share.lost_since(0.0)
    assert (told.restored.files, told.restored.blocks, told.restored.failed_blocks) == (2, 2, 1)
    assert told.restored.failed_bytes >= BLOCK
    assert "; and 1 that no file takes" in str(told.restored)
    assert not share.lost_since(told.at)


def test_a_loss_is_told_though_home_s_clock_was_ahead_before(home: LocalHome) -> None:
    share = home.add()
    told: list[float] = []
    losses = Losses(lambda loss: told.append(loss.at))
    for at in (4e9, 1.8e9):
        loss = NodeLoss(NodeId(1), "one", "why", at, 0.0, RestoreReport())
        share._taken_over.append((monotonic(), loss))
        losses.heard(share.lost_since(losses.latest))
    assert told == [4e9, 1.8e9]
    losses.heard(share.lost_since(5e9))
    assert told == [4e9, 1.8e9]
    assert len(share.lost_since(5e9)) == 2, "that one was of another home's life"
