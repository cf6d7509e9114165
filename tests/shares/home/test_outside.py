# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of home that change the shared folder itself, while nodes use its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shares.node import ROOT, Node, RawFile, find, open_file
from tests.shares.home.homes import LocalHome, unreached
from tests.waiting import eventually

SOON = 1.0
"""Seconds, docs/shares.md."""


def replace_file(path: Path, content: bytes) -> None:
    """Save as editors do."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def read(node: Node, path: str) -> bytes:
    with open_file(node, path, "rb") as file:
        return bytes(file.read())


def shows(node: Node, path: str, content: bytes) -> bool:
    """Return whether the node's programs read that soon."""
    return eventually(lambda: read(node, path) == content, SOON)


def has(node: Node, path: str) -> bool:
    try:
        find(node, path)
    except FileNotFoundError:
        return False
    return True


def raw(node: Node, path: str, mode: str) -> RawFile:
    file = open_file(node, path, mode, buffering=0)
    assert isinstance(file, RawFile)
    return file


def conflicts(home: LocalHome) -> list[bytes]:
    return [path.read_bytes() for path in sorted(home.root.glob("*sync-conflict*"))]


@pytest.fixture
def nodes(home: LocalHome) -> tuple[Node, Node]:
    home.add()
    return home.join("a").node, home.join("b").node


def test_a_file_that_home_replaced_is_written_by_its_name(
    home: LocalHome, nodes: tuple[Node, Node]
) -> None:
    one, two = nodes
    (home.root / "f").write_bytes(b"first\n")
    assert read(one, "f") == read(two, "f") == b"first\n"
    replace_file(home.root / "f", b"second\n")
    assert shows(one, "f", b"second\n")
    with open_file(one, "f", "ab") as file:
        file.write(b"third\n")
    assert eventually(lambda: (home.root / "f").read_bytes() == b"second\nthird\n")
    assert read(two, "f") == b"second\nthird\n"
    assert not conflicts(home)


def test_a_line_that_home_appended_stays(home: LocalHome, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    with raw(one, "log", "ab") as mine, open_file(two, "log", "rb"):
        expected = b""
        for turn in range(3):
            mine.write(b"node %d\n" % turn)
            mine.sync()
            expected += b"node %d\n" % turn
            assert (home.root / "log").read_bytes() == expected
            with (home.root / "log").open("ab") as file:
                file.write(b"home %d\n" % turn)
            expected += b"home %d\n" % turn
            assert shows(two, "log", expected)
            assert shows(one, "log", expected)
    assert not conflicts(home)


@pytest.mark.parametrize("held", ["open", "closed"])
def test_changes_in_place_are_seen(home: LocalHome, nodes: tuple[Node, Node], held: str) -> None:
    one, two = nodes
    with open_file(one, "f", "wb") as file:
        file.write(b"x" * 10_000)
    opened = raw(two, "f", "r+b")
    if held == "closed":
        opened.close()
    for content in (b"y" * 10_000, b"short", b"", b"z" * 50_000):
        (home.root / "f").write_bytes(content)
        assert shows(one, "f", content)
        assert shows(two, "f", content)
        size = one.attributes(one.lookup(ROOT, b"f").attributes.file, None).size
        assert size == len(content)
    opened.close()
    assert not conflicts(home)


def test_names_that_home_makes_and_removes_are_seen(
    home: LocalHome, nodes: tuple[Node, Node]
) -> None:
    one, two = nodes
    two.make_folder(ROOT, b"d", 0o755, os.getuid(), os.getgid())
    assert not list((home.root / "d").iterdir())
    assert not has(one, "d/a")
    (home.root / "d" / "a").write_bytes(b"a")
    assert eventually(lambda: has(one, "d/a"), SOON)
    (home.root / "d" / "a").rename(home.root / "d" / "b")
    assert eventually(lambda: not has(one, "d/a"), SOON)
    assert eventually(lambda: has(two, "d/b"), SOON)
    (home.root / "d" / "b").unlink()
    (home.root / "d").rmdir()
    assert eventually(lambda: not has(one, "d"), SOON)


def test_what_a_node_writes_to_a_file_that_home_replaced_is_in_a_conflict_copy(
    home: LocalHome, nodes: tuple[Node, Node]
) -> None:
    one, two = nodes
    with raw(one, "f", "w+b") as file:
        file.write(b"first")
        file.sync()
        replace_file(home.root / "f", b"home's")
        file.write(b" and more")
        file.sync()
        assert conflicts(home) == [b"first and more"]
        file.write(b", and more")
        file.sync()
        assert conflicts(home) == [b"first and more, and more"]
    assert (home.root / "f").read_bytes() == b"home's"
    assert shows(two, "f", b"home's")
    (told,) = home.share.blocks.copies.told
    assert eventually(lambda: home.members[0].conflicts == [told], home.lease)
    assert not home.members[1].conflicts


def test_what_a_node_had_not_sent_is_in_a_conflict_copy(
    home: LocalHome, nodes: tuple[Node, Node]
) -> None:
    one, two = nodes
    with raw(one, "f", "w+b") as file:
        file.write(b"first" * 2000)
        file.sync()
        file.seek(5000)
        file.write(b"UNSENT")
        (home.root / "f").write_bytes(b"home's")
        assert shows(two, "f", b"home's")
        assert shows(one, "f", b"home's")
        file.sync()
    assert (home.root / "f").read_bytes() == b"home's"
    (copy,) = conflicts(home)
    written = bytearray(b"first" * 2000)
    written[5000:5006] = b"UNSENT"
    assert copy[4096:8192] == written[4096:8192]
    assert len(copy) == len(written)


@pytest.mark.parametrize("written", [True, False])
def test_a_change_while_home_was_stopped_is_noticed(home: LocalHome, *, written: bool) -> None:
    home.add()
    member = home.member("a")
    file = raw(member.node, "f", "w+b")
    file.write(b"first" * 2000)
    file.sync()
    other = b"home's" * 1000 + bytes(4000)
    with unreached(home.lines["a"]):
        home.share.close()
        if written:
            file.seek(5000)
            file.write(b"UNSENT")
        (home.root / "f").write_bytes(other)
        os.utime(home.root / "f", (1e9, 1e9))  # as rsync -t does
        home._begin()
    assert eventually(lambda: read(member.node, "f") == other)
    file.close()
    member.close()
    assert (home.root / "f").read_bytes() == other
    assert any(b"UNSENT" in copy for copy in conflicts(home)) == written


def test_a_file_that_a_node_removes_leaves_no_copy(
    home: LocalHome, nodes: tuple[Node, Node]
) -> None:
    one, _ = nodes
    with raw(one, "f", "w+b") as file:
        one.unlink(ROOT, b"f")
        file.write(b"temporary")
        file.sync()
    assert not list(home.root.iterdir())
