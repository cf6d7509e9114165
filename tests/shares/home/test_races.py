# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What two threads, or a node and its end, did to each other once."""

from __future__ import annotations

import errno
import os
import queue
import shutil
from pathlib import Path
from typing import Any

import pytest

from shares.home.nodes.session import NodeSession
from shares.node import ROOT, Buffer, Changes, Extent, Member, Membership, Node
from shares.node.journal.journal import MountJournal
from shares.node.journal.leftovers import read_left
from shares.node.journal.records import MountNote, this_boot
from shares.node.recovery import Recovery
from shares.protocol import BLOCK, FileId
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()


def made(node: Node, content: bytes = b"") -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, b"f", 0o644, os.O_RDWR, UID, GID)
    node.write(handle.number, 0, content)
    node.sync(handle.number, False)
    return entry.attributes.file, handle.number


def test_what_home_opens_for_a_node_that_is_gone_is_not_that_nodes(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the gone node's alone, and later opens waited for ever."""
    share = home.add()
    gone, here = home.join("gone", wait=0.5), home.join("here").node
    file, handle = made(here, b"content")
    here.release(handle, 0)
    here.handles.close_idle(file)
    real = share.tree.open
    ended: list[NodeSession] = []

    def opens(number: FileId, writes: bool) -> None:
        real(number, writes)
        if not ended:
            ended.append(share.sessions[gone.node.hub.node])
            share.lost(ended[0], "for the test")

    monkeypatch.setattr(share.tree, "open", opens)
    with pytest.raises(OSError) as caught:
        gone.node.open(file, os.O_RDONLY)
    assert caught.value.errno == errno.EIO
    assert here.read(here.open(file, os.O_RDWR).number, 0, 100) == b"content"
    assert file not in ended[0].opened
    gone.gone = True


def test_the_answer_to_an_older_cut_leaves_size_and_content_of_later_ones(
    home: LocalHome, tmp_path: Path
) -> None:
    """It was put over them, and what was written since was taken for cut off."""
    home.add()
    journal = MountJournal(tmp_path / "journal")
    membership = Membership(home.line().call, "photos", "node")
    node = Node(membership.join(60), Buffer(journal.blocks, 1 << 24), 5.0, journal=journal)
    journal.mounted(MountNote("photos", "/mnt", "", "node", membership.token, this_boot()))
    file, handle = made(node, bytes(3 * BLOCK))
    opened = node.uses.of(file).file
    assert opened is not None
    old = Extent.of(node.hub.change(file, Changes(size=10)))
    node.change(file, Changes(size=5), handle)  # another thread's
    node.write(handle, 5, b"later")
    node.content.cut(opened, old)
    node.write(handle, 10, b"and more")
    node.content.cut(opened, Extent(0, 0, 0, 0))
    assert node.attributes(file, None).size == 18
    assert node.read(handle, 0, 100) == bytes(5) + b"laterand more"
    left = read_left_of(journal, tmp_path / "copy")
    behind = node.content.status()["files"][0]["home_is_behind_blocks"]
    assert not behind or any(0 in each.waiting.grants for each in left.files)
    node.close()
    membership.close()


def read_left_of(journal: MountJournal, copy: Path) -> Any:
    """As after a kill at this moment."""
    shutil.copytree(journal.folder, copy)
    return read_left(copy)


def test_after_a_kill_home_is_not_given_again_what_it_had_before_a_cut(
    home: LocalHome, tmp_path: Path
) -> None:
    """The node had given the block for the cut, and was killed before it knew that it had come. The
    next mount brought it, with the bytes behind the cut where no others had come since."""
    home.add()
    journal = MountJournal(tmp_path / "journal")
    line = home.line()
    membership = Membership(line.call, "photos", "node")
    node = Node(membership.join(60), Buffer(journal.blocks, 1 << 24), 5.0, journal=journal)
    journal.mounted(MountNote("photos", "/mnt", "", "node", membership.token, this_boot()))
    file, handle = made(node, b"a" * (3 * BLOCK))
    here = home.join("here").node
    other = here.open(file, os.O_RDWR).number
    assert here.read(other, 0, 1) == b"a"
    node.write(handle, BLOCK, b"b" * BLOCK)
    node.change(file, Changes(size=BLOCK + 100), handle)
    node.change(file, Changes(size=3 * BLOCK), handle)
    left = read_left_of(journal, tmp_path / "copy")
    membership.close()
    assert not any(1 in each.waiting.grants for each in left.files)
    if left.waits:
        Recovery(left, line.call, 10.0).run()
    wanted = b"a" * BLOCK + b"b" * 100
    assert here.read(other, 0, 4 * BLOCK) == wanted.ljust(3 * BLOCK, b"\0")
    assert [path.name for path in home.root.iterdir()] == ["f"], "others have not changed it"
    node.close()


def test_what_was_appended_is_in_the_conflict_copy_where_home_has_another_size(
    home: LocalHome, tmp_path: Path
) -> None:
    """Home took the blocks, refused the size, and cut the blocks off: the copy had zeros."""
    home.add(log="off", policy="write-invalidate")
    journal, line, kept = (
        MountJournal(tmp_path / "journal"),
        home.line(),
        queue.SimpleQueue[bytes](),
    )
    buffer = Buffer(journal.blocks, 1 << 24)
    about: dict[str, Any] = {"wait": 20.0, "journal": journal, "kept": kept.put}
    member = Member(line.call, "photos", "laptop", buffer, **about)
    try:
        node, here = member.node, home.join("here").node
        file, handle = made(node, b"first")
        other = here.open(file, os.O_RDWR).number
        assert here.read(other, 0, 10) == b"first"
        node.write(handle, 5, b"x" * (3 * BLOCK))
        line.cut()
        assert eventually(lambda: home.share.lost_since(0.0), 60.0)
        assert here.attributes(file, None).size == 5
        line.mend()
        path = kept.get(timeout=60.0)
        copy = here.lookup(ROOT, path).attributes.file
        handle = here.open(copy, os.O_RDONLY).number
        assert here.read(handle, 0, 1 << 20) == b"first" + b"x" * (3 * BLOCK)
        assert here.read(other, 0, 1 << 20) == b"first"
    finally:
        member.close()


def test_a_close_waits_until_home_has_what_was_given_in_an_answer(home: LocalHome) -> None:
    """Were the membership over before that, nobody would bring it."""
    home.add(log="off", policy="write-invalidate")
    one, two = home.join("one").node, home.join("two").node
    file, handle = made(one, b"first")
    other = two.open(file, os.O_RDONLY).number
    assert two.read(other, 0, 10) == b"first"
    for turn in range(5):
        one.write(handle, 0, b"%05d" % turn)
        assert two.read(other, 0, 10) == b"%05d" % turn
    one.release(handle, 0)
    one.handles.close_idle(file)
    assert not one.content._machine.gives(file)
    assert not one.is_open(file)
    assert two.read(other, 0, 10) == b"00004"
