# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes over real sockets answer names and attributes by themselves, and are called back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from shares.node import ROOT, Changes, Node
from shares.protocol import FileId
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()

TICK_SECONDS = 0.02
"""Kernels before 6.13 give what changes within a tick, of at most 10 ms, the same time."""


def asked(home: LocalHome, node: Node, act: Callable[[], object] = lambda: None) -> int:
    """How many calls of the node came home for that, but heartbeats."""

    def count() -> int:
        session = home.share.sessions[node.hub.node]
        return sum(
            number
            for (direction, kind), number in session.traffic.items()
            if direction == "in" and kind not in {"beat", "succeeded"}
        )

    before = count()
    act()
    return count() - before


def remembering(home: LocalHome, node: Node) -> Node:
    """A node that home has told its lease: until then it remembers nothing."""
    assert eventually(lambda: asked(home, node, lambda: node.attributes(ROOT, None)) == 0, 60)
    return node


@pytest.fixture
def pair(home: LocalHome) -> tuple[Node, Node]:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    return remembering(home, one), remembering(home, two)


def walk(node: Node) -> None:
    """As `ls -l` and `git status` do. The time of the last status change becomes the native file's
    some time after the last close."""
    for entry in node.entries(ROOT):
        found = node.lookup(ROOT, entry.name).attributes
        again = node.attributes(found.file, None)
        assert again.changed >= found.changed
        assert replace(again, changed=found.changed) == found
    with pytest.raises(FileNotFoundError):
        node.lookup(ROOT, b".gitignore")


def test_a_listing_answers_all_that_is_asked_about_its_names(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    for number in range(200):
        (home.root / f"file {number}").write_bytes(b"x" * number)
    assert asked(home, pair[1], lambda: walk(pair[1])) == 1
    assert asked(home, pair[1], lambda: walk(pair[1])) == 0


def test_what_is_asked_once_by_name_is_not_asked_again(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    (home.root / "file").write_bytes(b"content")
    (home.root / "link").symlink_to("file")
    two = pair[1]

    def look() -> None:
        assert two.lookup(ROOT, b"file").attributes.size == 7
        assert two.read_link(two.lookup(ROOT, b"link").attributes.file) == b"file"
        with pytest.raises(FileNotFoundError):
            two.lookup(ROOT, b"nothing")

    assert asked(home, two, look) == 4
    assert asked(home, two, look) == 0


def test_each_change_of_one_node_is_seen_by_the_other_at_once(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    for turn in range(10):
        walk(two)
        entry, handle = one.create(ROOT, b"name", 0o644, os.O_RDWR, UID, GID)
        file = entry.attributes.file
        assert [each.name for each in two.entries(ROOT)] == [b"name"]
        one.write(handle.number, 0, b"x" * (turn + 1))
        assert two.lookup(ROOT, b"name").attributes.size == turn + 1
        one.release(handle.number, 0)
        walk(two)
        one.change(file, Changes(mode=0o600 + turn), None)
        assert two.attributes(file, None).mode & 0o777 == 0o600 + turn
        one.change(file, Changes(size=100), None)
        assert two.attributes(file, None).size == 100
        one.change(file, Changes(modified=turn), None)
        assert two.lookup(ROOT, b"name").attributes.modified == turn
        one.link(file, ROOT, b"second")
        assert two.attributes(file, None).links == 2
        walk(two)
        one.rename(ROOT, b"name", ROOT, b"second", 0)  # two names of one file: nothing happens
        one.unlink(ROOT, b"name")
        assert two.attributes(file, None).links == 1
        one.rename(ROOT, b"second", ROOT, b"third", 0)
        assert [each.name for each in two.entries(ROOT)] == [b"third"]
        one.unlink(ROOT, b"third")
        assert two.entries(ROOT) == []
        folder = one.make_folder(ROOT, b"folder", 0o755, UID, GID).attributes.file
        assert two.entries(folder) == []
        modified = two.attributes(folder, None).modified
        time.sleep(TICK_SECONDS)
        one.make_link(folder, b"link", b"target", UID, GID)
        assert [each.name for each in two.entries(folder)] == [b"link"]
        assert two.attributes(folder, None).modified > modified
        one.unlink(folder, b"link")
        one.remove_folder(ROOT, b"folder")
        with pytest.raises(FileNotFoundError):
            two.lookup(ROOT, b"folder")


def test_a_change_of_names_is_a_change_of_status_while_the_file_is_open(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    file = one.create(ROOT, b"name", 0o644, os.O_RDWR, UID, GID)[0].attributes.file
    one.change(file, Changes(size=100), None)

    def later(act: Callable[[], object]) -> bool:
        before = two.attributes(file, None).changed
        time.sleep(TICK_SECONDS)
        act()
        return two.attributes(file, None).changed > before

    assert later(lambda: one.link(file, ROOT, b"second"))
    assert later(lambda: one.rename(ROOT, b"second", ROOT, b"third", 0))
    assert later(lambda: one.unlink(ROOT, b"third"))


def test_a_file_that_is_being_written_elsewhere_is_asked_about_until_it_is_closed(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    (home.root / "file").touch()
    file = two.lookup(ROOT, b"file").attributes.file
    handle = one.open(file, os.O_WRONLY).number
    for size in range(1, 30):
        one.write(handle, size - 1, b"x")
        assert two.attributes(file, None).size == size
    one.release(handle, 0)
    assert eventually(lambda: asked(home, two, lambda: two.attributes(file, None)) == 0, 60.0)
    assert two.attributes(file, None) == one.attributes(file, None)
    again = one.open(file, os.O_WRONLY).number
    one.write(again, 0, b"y" * 100)
    assert two.attributes(file, None).size == 100


def test_a_file_that_one_node_alone_writes_is_remembered_when_it_is_closed(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    (home.root / "file").touch()
    file = two.lookup(ROOT, b"file").attributes.file
    handle = one.open(file, os.O_WRONLY).number
    one.write(handle, 0, b"x" * 29)
    one.release(handle, 0)
    there = home.root / "file"
    assert eventually(lambda: one.attributes(file, None).changed == there.stat().st_ctime_ns)
    # That is so when home has said what it promises from then on.
    last = two.attributes(file, None)
    assert asked(home, two, lambda: two.attributes(file, None)) == 0
    assert last == one.attributes(file, None)
    assert last.size == (home.root / "file").stat().st_size == 29
    assert last.changed == (home.root / "file").stat().st_ctime_ns
    sent = home.share.sessions[one.hub.node].traffic["out", "Engage"]
    assert sent == 0, "home asked for what it had"


def test_a_file_that_is_read_again_is_opened_and_read_without_asking(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    (home.root / "file").write_bytes(b"content")
    file = two.lookup(ROOT, b"file").attributes.file

    def read() -> None:
        handle = two.open(file, os.O_RDONLY).number
        assert two.read(handle, 0, 100) == b"content"
        two.release(handle, 0)

    read()
    assert asked(home, two, read) == 0
    one.write(one.open(file, os.O_WRONLY).number, 0, b"CONTENT")
    handle = two.open(file, os.O_RDONLY).number
    assert two.read(handle, 0, 100) == b"CONTENT"


def test_who_only_reads_calls_nobody_back(home: LocalHome, pair: tuple[Node, Node]) -> None:
    one, two = pair
    (home.root / "file").write_bytes(b"content")
    file = two.lookup(ROOT, b"file").attributes.file
    handle = one.open(file, os.O_RDONLY).number
    assert one.read(handle, 0, 100) == b"content"
    assert asked(home, two, lambda: two.lookup(ROOT, b"file")) == 0
    one.change(file, Changes(modified=7), None)  # touch(1), of a file that is open to be read
    assert two.lookup(ROOT, b"file").attributes.modified == 7
    assert one.attributes(file, handle).modified == 7


def test_names_that_are_asked_one_by_one_bring_all_of_their_folder(
    home: LocalHome, pair: tuple[Node, Node]
) -> None:
    for folder, count in ((b"small", 100), (b"large", 600)):
        (home.root / os.fsdecode(folder)).mkdir()
        for number in range(count):
            (home.root / os.fsdecode(folder) / f"{number}").touch()
    two = pair[1]
    small = two.lookup(ROOT, b"small").attributes.file
    large = two.lookup(ROOT, b"large").attributes.file

    def look(folder: FileId, names: int) -> None:
        for number in range(names):
            assert two.lookup(folder, b"%d" % number).attributes.size == 0
        with pytest.raises(FileNotFoundError):
            two.lookup(folder, b"nothing")

    assert asked(home, two, lambda: look(small, 100)) == 4
    assert asked(home, two, lambda: look(large, 600)) == 602
    pair[0].unlink(small, b"7")
    with pytest.raises(FileNotFoundError):
        two.lookup(small, b"7")


def test_who_closes_a_file_knows_its_attributes(home: LocalHome, pair: tuple[Node, Node]) -> None:
    one = pair[0]
    entry, handle = one.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
    one.write(handle.number, 0, b"content")
    one.release(handle.number, 0)
    one.hub.usage()  # all that was posted before is at home
    file = entry.attributes.file
    assert asked(home, one, lambda: one.attributes(file, None)) == 0
    assert one.attributes(file, None).size == 7
    assert one.attributes(file, None) == pair[1].attributes(file, None)
    pair[1].change(file, Changes(mode=0o600), None)
    assert one.attributes(file, None).mode & 0o777 == 0o600


def test_a_node_knows_what_it_changed_itself(home: LocalHome, pair: tuple[Node, Node]) -> None:
    one, two = pair
    walk(one)

    def change() -> None:
        for number in range(10):
            name = b"%d" % number
            with pytest.raises(FileNotFoundError):
                one.lookup(ROOT, name)
            one.make_folder(ROOT, name, 0o755, UID, GID)
            one.lookup(ROOT, name)
            one.remove_folder(ROOT, name)

    assert asked(home, one, change) == 20
    assert one.entries(ROOT) == two.entries(ROOT) == []


def test_a_silent_node_answers_nothing_more_when_the_change_is_made(home: LocalHome) -> None:
    home.add()
    (home.root / "file").touch()
    one, lost = home.join("one").node, home.join("lost", wait=0.5, patience=3.0)
    two = remembering(home, lost.node)
    file = two.lookup(ROOT, b"file").attributes.file
    mode = two.attributes(file, None).mode
    lost.cut_off()
    changing = threading.Thread(target=one.change, args=(file, Changes(mode=0o600), None))
    changing.start()
    answered = []
    while changing.is_alive():
        try:
            answered.append(two.attributes(file, None).mode)
        except OSError:
            break
    changing.join()
    assert set(answered) == {mode}, "it answered while home waited for it"
    with pytest.raises(OSError):
        two.attributes(file, None)
    with pytest.raises(OSError) as refused:
        two.lookup(ROOT, b"nothing")
    assert not isinstance(refused.value, FileNotFoundError), "what was not there may be by now"
    assert one.attributes(file, None).mode & 0o777 == 0o600


def test_a_node_that_joins_again_has_forgotten_all(home: LocalHome) -> None:
    home.add()
    (home.root / "file").touch()
    member = home.member("stays")
    try:
        node = remembering(home, member.node)
        file = node.lookup(ROOT, b"file").attributes.file
        walk(node)
        session = home.share.sessions[node.hub.node]
        home.share.lost(session, "for the test")
        one = home.join("one").node
        one.change(file, Changes(mode=0o600), None)
        one.make_folder(ROOT, b"folder", 0o755, UID, GID)
        assert eventually(lambda: session.node in home.share.sessions, 60.0)
        assert node.attributes(file, None).mode & 0o777 == 0o600
        assert len(node.entries(ROOT)) == 2
        walk(node)
        home.begin_again()
        two = home.join("two").node
        two.remove_folder(ROOT, b"folder")
        assert len(node.entries(ROOT)) == 1
    finally:
        member.close()


def test_home_remembers_so_much_of_a_node_and_then_has_it_forget(
    home: LocalHome, pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.home.directory.promises.LIMIT", 20)
    for number in range(100):
        (home.root / f"{number}").touch()
    one, two = pair
    first = one.lookup(ROOT, b"0").attributes.file
    for number in range(100):
        two.lookup(ROOT, b"%d" % number)
        one.change(first, Changes(mode=0o600 + number % 8), None)
        assert two.lookup(ROOT, b"0").attributes.mode & 0o777 == 0o600 + number % 8
        assert home.share.promises.known(home.share.sessions[two.hub.node]) <= 21
    for number in range(100):
        one.unlink(ROOT, b"%d" % number)
        with pytest.raises(FileNotFoundError):
            two.lookup(ROOT, b"%d" % number)
