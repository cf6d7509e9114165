# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are opened ahead of programs: they cost nothing then, and never read wrong."""

from __future__ import annotations

import os
import threading

from shares.node import ROOT, Node
from shares.protocol import FileId
from tests.homeserver.shares.conftest import Home
from tests.shares.home.test_promises import asked, remembering
from tests.waiting import eventually

FILES = 40


def reader(home: Home, name: str) -> Node:
    """A node that remembers the names and attributes of the share."""
    node = remembering(home, home.join(name).node)
    node.entries(ROOT)
    return node


def furnished(home: Home) -> None:
    home.add()
    for number in range(FILES):
        (home.root / f"{number:03}").write_bytes(f"first {number}".encode())


def read(node: Node, number: int) -> bytes:
    file = node.lookup(ROOT, f"{number:03}".encode()).attributes.file
    handle = node.open(file, os.O_RDONLY).number
    try:
        return node.read(handle, 0, 100)
    finally:
        node.release(handle, 0)


def is_ahead(node: Node, number: int) -> bool:
    file = node.names.named(ROOT, f"{number:03}".encode())
    return file is not None and node.is_open(file)


def test_a_scan_is_opened_ahead_and_then_asks_for_less(home: Home) -> None:
    furnished(home)
    node = reader(home, "one")
    for number in range(3):
        assert read(node, number) == f"first {number}".encode()
    assert eventually(lambda: is_ahead(node, 8))

    def three() -> None:
        for number in range(3, 6):
            assert read(node, number) == f"first {number}".encode()

    assert asked(home, node, three) == 0
    for number in range(6, 9):  # the next batch is asked for meanwhile
        assert read(node, number) == f"first {number}".encode()
    assert node.status()["ahead"]["used"] == 6


def test_another_node_learns_from_the_first_through_home(home: Home) -> None:
    furnished(home)
    odd = [30, 4, 17, 22, 9]
    node = reader(home, "one")
    for number in odd:
        read(node, number)
    for file, _ in node.uses.all():
        node.handles.close_idle(file)
    foresight = node.foresight
    assert foresight is not None
    foresight.tell(node.hub, now=True)
    other = reader(home, "two")
    assert other.foresight is not None
    other.foresight.tell(other.hub, now=True)
    assert eventually(lambda: bool(len(other.foresight._forecast.successors)))  # type: ignore[union-attr]
    read(other, odd[0])
    assert eventually(lambda: all(is_ahead(other, number) for number in odd))


def test_what_was_opened_ahead_is_the_latest(home: Home) -> None:
    furnished(home)
    node, writer = reader(home, "one"), reader(home, "two")
    for number in range(3):
        read(node, number)
    assert eventually(lambda: is_ahead(node, 8))
    for number in (5, 7):
        file = writer.lookup(ROOT, f"{number:03}".encode()).attributes.file
        handle = writer.open(file, os.O_RDWR | os.O_TRUNC).number
        writer.write(handle, 0, b"second")
        assert read(node, number) == b"second"
        writer.write(handle, 0, b"third!")
        assert read(node, number) == b"third!"
        writer.release(handle, 0)


def test_what_another_node_writes_is_not_opened_ahead(home: Home) -> None:
    furnished(home)
    writer = reader(home, "two")
    file = writer.lookup(ROOT, b"004").attributes.file
    handle = writer.open(file, os.O_RDWR).number
    node = reader(home, "one")
    for number in range(3):
        read(node, number)
    assert eventually(lambda: is_ahead(node, 8))
    assert not is_ahead(node, 4)
    writer.write(handle, 0, b"FIRST")
    assert read(node, 4) == b"FIRST 4"


def test_a_file_that_is_gone_is_gone_although_it_was_opened_ahead(home: Home) -> None:
    furnished(home)
    node, other = reader(home, "one"), reader(home, "two")
    for number in range(3):
        read(node, number)
    assert eventually(lambda: is_ahead(node, 8))
    other.unlink(ROOT, b"006")
    names = {entry.name for entry in node.entries(ROOT)}
    assert b"006" not in names
    assert read(node, 7) == b"first 7"


def test_two_programs_that_scan_at_once_read_what_is_there(home: Home) -> None:
    furnished(home)
    node, writer = reader(home, "one"), reader(home, "two")
    wrong: list[tuple[int, bytes]] = []
    written = {number: f"first {number}".encode() for number in range(FILES)}

    def scan(step: int) -> None:
        for number in list(range(FILES))[::step]:
            found = read(node, number)
            if found not in (written[number], f"first {number}".encode()):
                wrong.append((number, found))

    threads = [threading.Thread(target=scan, args=(step,)) for step in (1, -1)]
    for thread in threads:
        thread.start()
    for number in range(0, FILES, 3):
        written[number] = f"SECOND {number}".encode()
        file: FileId = writer.lookup(ROOT, f"{number:03}".encode()).attributes.file
        handle = writer.open(file, os.O_RDWR).number
        writer.write(handle, 0, written[number])
        writer.release(handle, 0)
    for thread in threads:
        thread.join()
    assert not wrong
    assert [read(node, number) for number in range(FILES)] == list(written.values())


def test_the_files_of_a_folder_are_listed_once_for_many_opens(home: Home) -> None:
    """All of its names were gone through with each open."""
    furnished(home)
    node = reader(home, "one")
    (first, second) = (node.lookup(ROOT, name).attributes.file for name in (b"000", b"001"))
    listed = node.names.siblings(first)
    assert listed is not None
    assert len(listed[1]) == FILES
    again = node.names.siblings(second)
    assert again is not None and again[1] is listed[1]
    node.unlink(ROOT, b"002")
    changed = node.names.siblings(first)
    assert changed is not None and len(changed[1]) == FILES - 1
