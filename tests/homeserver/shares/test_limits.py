# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What one node, or one fault, may cost the others of a share."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from shares.nodes import ROOT, LockKind, Node
from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually

READ_WRITE = os.O_RDWR


def test_what_goes_wrong_in_one_look_does_not_keep_lost_nodes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that looks at leases ended with what it had not expected of a disk."""
    share = home.add()
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(share.content, "save", fails)
        assert failed.wait(10)
    home.join("one").cut_off()
    assert eventually(lambda: len(share.taken_over) == 1)


def test_a_node_has_so_many_locks_and_no_more(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest took as many as it liked, and each made the next one of anybody slower."""
    monkeypatch.setattr("homeserver.shares.locks.LIMIT", 10)
    home.add()
    one, two = home.join("one").node, home.join("two").node
    entry, made = one.create(ROOT, b"file", 0o644, READ_WRITE, os.getuid(), os.getgid())
    file, handle = entry.attributes.file, made.number
    other = two.open(file, READ_WRITE).number

    def take(node: Node, handle: int, at: int, kind: LockKind = LockKind.WRITE) -> None:
        node.set_lock(handle, 1, at, at, kind, 1, False)

    for place in range(9):
        take(one, handle, 2 * place)
    one.set_lock(handle, 1, 100, 200, LockKind.WRITE, 1, False)
    for place, kind in ((50, LockKind.WRITE), (150, LockKind.UNLOCK)):  # the latter makes two
        with pytest.raises(OSError) as caught:
            take(one, handle, place, kind)
        assert caught.value.errno == errno.ENOLCK
    take(two, other, 50)
    one.set_lock(handle, 1, 0, 0, LockKind.UNLOCK, 1, False)
    take(one, handle, 30)
