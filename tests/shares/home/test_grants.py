# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes bring to a home that begins anew is never put over what was written later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shares.home import grants
from shares.home.nodes.grace import Grace
from shares.home.storage.grants import ALL, Grants
from shares.node import ROOT, Changes
from shares.node import Member as Staying
from shares.protocol import ATTRIBUTES, BLOCK, FileId, NodeId
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

FILE, OTHER = FileId(7), FileId(8)
NODE = NodeId(1)

GOLDEN = bytes.fromhex(
    "5341545352474854 01000000 00000000"
    "345eb048 00000000 0700000000000000 ffffffffffffffff 0300000000000000 0900000000000000"
)


def test_it_has_these_bytes(tmp_path: Path) -> None:
    noted = Grants(tmp_path / "rights", 60.0)
    noted.note(FILE, ATTRIBUTES, 3, 9)
    noted.note(FILE, ATTRIBUTES, 3, 9)  # costs nothing
    noted.close()
    assert (tmp_path / "rights").read_bytes() == GOLDEN


def test_numbers_only_grow_wherever_the_clock_jumps(tmp_path: Path) -> None:
    clock, ahead = 1_800_000_000_000_000, 4_000_000_000_000_000
    firsts = []
    for now in (clock, ahead, clock + 1, clock + 2):
        noted = Grants(tmp_path / "rights", 60.0)
        firsts.append(noted.reserve(now))
        noted.note(FILE, 0, 1, firsts[-1] + 5)
        noted._kept = -1.0
        noted.look()
        noted.close()
    assert firsts == sorted(set(firsts)) and firsts[2] > firsts[1] + 5
    noted = Grants(tmp_path / "rights", 60.0)
    assert noted.latest() == {FILE: [(0, 1, firsts[-1] + 5)]}
    noted.close()


def test_a_home_that_begins_anew_takes_nothing_older_than_what_it_has(tmp_path: Path) -> None:
    noted = Grants(tmp_path / "rights", 60.0)
    noted.note(FILE, 0, 2, 5)
    noted.note(FILE, 1, 1, 7)
    noted.note(OTHER, 4, ALL, 6)
    noted.close()
    again = Grants(tmp_path / "rights", 60.0)
    grace = Grace([NODE], 60.0, again.latest())
    assert grace.takes(FILE, 0, 5) and not grace.takes(FILE, 1, 6)
    assert grace.takes(FILE, 1, 7) and not grace.takes(FILE, 1, 6)
    assert grace.takes(FILE, 2, 1)
    assert grace.takes(OTHER, 3, 1) and not grace.takes(OTHER, 1 << 40, 5)
    again.close()


@pytest.mark.parametrize("damage", [b"", b"no such file" * 9, GOLDEN[:-1]])
def test_one_that_is_damaged_says_what_it_can(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "rights").write_bytes(damage)
    noted = Grants(tmp_path / "rights", 60.0)
    assert noted.latest() == {}
    noted.note(FILE, 0, 1, 3)
    noted.close()
    again = Grants(tmp_path / "rights", 60.0)
    assert again.latest() == {FILE: [(0, 1, 3)]}
    again.close()


def test_what_is_old_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Grants(tmp_path / "rights", 60.0)
    noted.note(FILE, 0, 1, 3)
    size = (tmp_path / "rights").stat().st_size
    monkeypatch.setattr(grants, "COMPACT_BYTES", 0)
    noted.look()
    assert noted.latest() == {FILE: [(0, 1, 3)]}
    noted._kept = -1.0
    noted.look()
    assert noted.latest() == {}
    assert (tmp_path / "rights").stat().st_size < size
    noted.close()


def unconfirmed(member: Staying, monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat tells the node that what it gave has come home."""
    monkeypatch.setattr(member.node.content._machine, "confirmed", lambda mark: None)


@pytest.mark.parametrize("log", ["sync", "off"])
def test_what_a_node_gave_before_is_not_put_over_what_another_one_wrote_later(
    home: LocalHome, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add(log=log)
    one, two = home.member("one"), home.member("two")
    try:
        unconfirmed(one, monkeypatch)
        _, first, second = both_open(one, two)
        one.node.write(first, 0, b"before")
        two.node.write(second, 0, b"later!")
        with two.node.handles.using(second) as opened:
            two.node.content.table.sync(opened)  # home has it, and the node knows that
        home.begin_again()
        assert eventually(lambda: len(home.share.sessions) == 2)
        assert one.node.read(first, 0, 6) == two.node.read(second, 0, 6) == b"later!"
    finally:
        one.close()
        two.close()
    assert (home.root / "file").read_bytes() == b"later!"


def test_what_a_node_gave_before_is_not_put_back_into_a_file_that_was_cut(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add()
    one, two = home.member("one"), home.member("two")
    try:
        unconfirmed(one, monkeypatch)
        file, first, second = both_open(one, two)
        one.node.write(first, 0, b"x" * 3 * BLOCK)
        assert two.node.read(second, 0, 4 * BLOCK) == b"x" * 3 * BLOCK
        two.node.change(file, Changes(size=0), second)
        home.begin_again()
        assert eventually(lambda: len(home.share.sessions) == 2)
        assert one.node.read(first, 0, 4 * BLOCK) == b""
        two.node.change(file, Changes(size=3 * BLOCK), second)
        assert one.node.read(first, 0, 4 * BLOCK) == bytes(3 * BLOCK)
    finally:
        one.close()
        two.close()
    assert (home.root / "file").read_bytes() == bytes(3 * BLOCK)


def test_what_a_node_wrote_before_a_cut_is_brought_to_a_home_that_begins_anew(
    home: LocalHome,
) -> None:
    """It stayed the node's when home took what was cut."""
    home.add(log="off")
    one, two = home.member("one"), home.member("two")
    try:
        file, first, second = both_open(one, two)
        one.node.write(first, 0, b"x" * 6 * BLOCK)
        two.node.change(file, Changes(size=4 * BLOCK + 5), second)
        home.begin_again()
        assert eventually(lambda: len(home.share.sessions) == 2)
        expected = b"x" * (4 * BLOCK + 5)
        assert one.node.read(first, 0, 9 * BLOCK) == two.node.read(second, 0, 9 * BLOCK) == expected
    finally:
        one.close()
        two.close()
    assert (home.root / "file").read_bytes() == expected


def both_open(one: Staying, two: Staying) -> tuple[FileId, int, int]:
    """A file that two nodes have open: its id, and their handles."""
    entry, handle = one.node.create(ROOT, b"file", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    one.node.write(handle.number, 0, b"begun")
    file = entry.attributes.file
    second = two.node.open(file, os.O_RDWR).number
    assert two.node.read(second, 0, 5) == b"begun"
    return file, handle.number, second
