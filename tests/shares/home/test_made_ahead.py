# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that nodes make before home has, in folders that no other node knows."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from shares.node import ROOT, Changes, Node
from shares.protocol import FileId
from tests.shares.home.homes import LocalHome, Member, unreached
from tests.shares.home.test_promises import remembering
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()

HELD_SECONDS = 0.3
"""In which home would have answered whatever it does not wait for."""


@pytest.fixture
def members(home: LocalHome) -> tuple[Member, Member]:
    home.add()
    (home.root / "other").mkdir()
    found = home.join("one"), home.join("two")
    for member in found:
        remembering(home, member.node)
    return found


def own_folder(node: Node) -> FileId:
    return node.make_folder(ROOT, b"own", 0o755, UID, GID).attributes.file


def make(node: Node, folder: FileId, name: bytes, flags: int = os.O_EXCL) -> int:
    _, handle = node.create(folder, name, 0o644, os.O_RDWR | flags, UID, GID)
    return handle.number


def said(home: LocalHome, node: Node, kind: str) -> int:
    node.hub.usage()  # all that was said before is at home
    return home.share.sessions[node.hub.node].traffic["in", kind]


def test_in_a_folder_of_its_own_a_node_makes_files_by_itself(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    with members[0].unreached():
        for number in range(20):
            handle = make(one, folder, b"%d" % number)
            one.write(handle, 0, b"content %d" % number)
            assert one.read(handle, 0, 100) == b"content %d" % number
            one.release(handle, 0)
        here = {entry.name: entry.attributes for entry in one.entries(folder)}
    there = {entry.name: entry.attributes for entry in two.entries(folder)}
    assert len(there) == 20
    for name, found in there.items():
        file = two.open(found.file, os.O_RDONLY).number
        assert two.read(file, 0, 100) == b"content " + name
        about = (found.file, found.mode, found.uid, found.gid, found.size, found.modified)
        known = here[name]
        assert about == (known.file, known.mode, known.uid, known.gid, known.size, known.modified)
    assert (said(home, one, "make"), said(home, one, "create")) == (20, 0)


def test_a_folder_that_another_node_knows_is_nobodys_own(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    make(one, folder, b"first")
    assert [entry.name for entry in two.entries(folder)] == [b"first"]
    for number in range(3):
        make(one, folder, b"%d" % number)
    assert (said(home, one, "make"), said(home, one, "create")) == (1, 3)
    assert len(two.entries(folder)) == 4


def test_a_folder_of_which_others_know_nothing_any_more_is_its_own_with_the_next_file(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    two.lookup(ROOT, b"own")  # its attributes, which change now
    for number in range(4):
        make(one, folder, b"%d" % number)
    assert (said(home, one, "make"), said(home, one, "create")) == (3, 1)


def test_who_makes_what_is_there_is_told_so(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one = members[0].node
    folder = own_folder(one)
    first = make(one, folder, b"x")
    one.write(first, 0, b"content")
    with pytest.raises(FileExistsError):
        make(one, folder, b"x")
    again = make(one, folder, b"x", 0)
    assert one.read(again, 0, 100) == b"content"
    with pytest.raises(OSError) as refused:
        make(one, folder, b"x" * 256)
    assert refused.value.errno == errno.ENAMETOOLONG
    assert [entry.name for entry in one.entries(folder)] == [b"x"]


def test_what_is_made_and_taken_away_at_once_is_in_order(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    for number in range(30):
        handle = make(one, folder, b"lock")
        one.write(handle, 0, b"%d" % number)
        one.release(handle, 0)
        if number % 2:
            one.rename(folder, b"lock", folder, b"kept", 0)
        else:
            one.unlink(folder, b"lock")
    assert said(home, one, "make") == 30
    (entry,) = two.entries(folder)
    assert entry.name == b"kept"
    assert two.read(two.open(entry.attributes.file, os.O_RDONLY).number, 0, 9) == b"29"
    one.unlink(folder, b"kept")
    one.remove_folder(ROOT, b"own")
    assert not (home.root / "own").exists()


def test_programs_of_one_node_that_make_the_same_names_are_in_order(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    """What is made by home and what is made ahead at the same time."""
    one, two = members[0].node, members[1].node
    folder = own_folder(one)

    def race(which: int) -> list[bytes]:
        mine = []
        for number in range(60):
            name = b"%d" % number
            with suppress(FileExistsError):
                if which:
                    make(one, folder, name)
                else:
                    one.make_folder(folder, name, 0o755, UID, GID)
                mine.append(name)
        return mine

    with ThreadPoolExecutor(4) as programs:
        found = [name for names in programs.map(race, range(4)) for name in names]
    assert sorted(found) == sorted(b"%d" % number for number in range(60))
    assert len(two.entries(folder)) == len(one.entries(folder)) == 60


def joined_again(node: Node, last: object) -> None:
    assert eventually(lambda: node.home.latest is not last and node.home.joined, 60)


def lookup(node: Node, folder: FileId) -> FileId:
    return node.lookup(folder, b"x").attributes.file


OTHERS: dict[str, Callable[[Node, FileId], object]] = {
    "lookup": lookup,
    "lookup of none": lambda node, folder: node.lookup(folder, b"y"),
    "entries": lambda node, folder: len(node.entries(folder)),
    "attributes": lambda node, folder: node.attributes(folder, None).modified,
    "lookup above": lambda node, _: node.lookup(ROOT, b"own").attributes.modified,
    "entries above": lambda node, _: {
        entry.name: entry.attributes.modified for entry in node.entries(ROOT)
    }[b"own"],
    "create": lambda node, folder: make(node, folder, b"x"),
    "make folder": lambda node, folder: node.make_folder(folder, b"x", 0o755, UID, GID),
    "make link": lambda node, folder: node.make_link(folder, b"x", b"to", UID, GID),
    "rename to": lambda node, folder: node.rename(ROOT, b"other", folder, b"x", 1),
    "rename from": lambda node, folder: node.rename(folder, b"x", ROOT, b"x", 0),
    "unlink": lambda node, folder: node.unlink(folder, b"x"),
    "remove": lambda node, _: node.remove_folder(ROOT, b"own"),
    "replace": lambda node, _: node.rename(ROOT, b"other", ROOT, b"own", 0),
    "change": lambda node, folder: node.change(folder, Changes(modified=7), None).modified,
}
"""What another node may do about a folder with a file "x"."""

RAISES = {
    "lookup of none": errno.ENOENT,
    "create": errno.EEXIST,
    "make folder": errno.EEXIST,
    "make link": errno.EEXIST,
    "rename to": errno.EEXIST,
    "remove": errno.ENOTEMPTY,
    "replace": errno.ENOTEMPTY,
}


def outcome(act: Callable[[], object]) -> tuple[object, int | None]:
    try:
        return act(), None
    except OSError as error:
        return None, error.errno


@pytest.mark.parametrize("what", OTHERS)
def test_no_other_node_sees_that_a_file_is_not_yet_at_home(
    home: LocalHome, members: tuple[Member, Member], what: str
) -> None:
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    with ThreadPoolExecutor(1) as other:
        with members[0].unreached():
            make(one, folder, b"x")
            changed = one.attributes(folder, None).modified
            file = one.lookup(folder, b"x").attributes.file
            done: Future[tuple[object, int | None]] = other.submit(
                outcome, lambda: OTHERS[what](two, folder)
            )
            threading.Event().wait(HELD_SECONDS)
            assert not done.done()
        found, error = done.result(20)
    assert error == RAISES.get(what)
    wanted = {"lookup": file, "entries": 1, "change": 7}
    if what in {"attributes", "lookup above", "entries above"}:
        assert found == changed
    elif what in wanted:
        assert found == wanted[what]
    assert not members[0].over
    assert (said(home, one, "make"), said(home, one, "create")) == (1, 0)


def test_a_node_that_is_silent_for_a_lease_is_waited_for_no_longer(home: LocalHome) -> None:
    home.add()
    silent, two = home.join("one", wait=0.5, patience=3.0), home.join("two").node
    one = remembering(home, silent.node)
    folder = own_folder(one)
    silent.cut_off()
    make(one, folder, b"x")
    assert two.entries(folder) == []
    make(two, folder, b"x")
    assert eventually(lambda: outcome(lambda: one.lookup(folder, b"x"))[1] == errno.EIO)


def test_a_file_that_home_cannot_make_fails_with_what_is_done_next(
    home: LocalHome, members: tuple[Member, Member], caplog: pytest.LogCaptureFixture
) -> None:
    """A program at home has made that name, and another node has asked for it."""
    one = members[0].node
    folder = own_folder(one)
    with members[0].unreached():
        handle = make(one, folder, b"x")
        one.write(handle, 0, b"content")
        (home.root / "own" / "x").write_bytes(b"of home")
        home.share.tree.lookup(folder, b"x")
    for act in (
        lambda: one.sync(handle, data_only=False),
        lambda: one.write(handle, 0, b"more"),
        lambda: one.read(handle, 0, 10),
        lambda: one.flush(handle, 0),
    ):
        assert outcome(act)[1] == errno.EEXIST
    with suppress(OSError):
        one.release(handle, 0)
    assert "home has not made b'x'" in caplog.text
    found = one.lookup(folder, b"x").attributes
    assert found.size == 7
    assert one.read(one.open(found.file, os.O_RDONLY).number, 0, 100) == b"of home"
    assert eventually(lambda: not one.content.status()["files"] or len(one.status()["files"]) == 1)


def test_a_file_whose_name_a_program_of_home_has_just_made_becomes_a_conflict_copy(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    """All calls on the open file failed with EEXIST."""
    one = members[0].node
    folder = own_folder(one)
    with members[0].unreached():
        handle = make(one, folder, b"x")
        one.write(handle, 0, b"content")
        (home.root / "own" / "x").write_bytes(b"of home")
    one.write(handle, 7, b" and more")
    one.sync(handle, data_only=False)
    assert one.read(handle, 0, 20) == b"content and more"
    one.release(handle, 0)
    (copy,) = (home.root / "own").glob("x.sync-conflict-*")
    assert copy.read_bytes() == b"content and more"
    assert eventually(lambda: members[0].conflicts == [b"own/" + os.fsencode(copy.name)])
    found = one.lookup(folder, b"x").attributes
    assert one.read(one.open(found.file, os.O_RDONLY).number, 0, 100) == b"of home"


def test_another_node_is_told_of_a_file_when_its_maker_has_heard_that_home_has_it(
    home: LocalHome, members: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it might be taken away, and made again by who does not know that it was there."""
    one, two = members[0].node, members[1].node
    folder = own_folder(one)
    answered, held = one.creation._answered, []
    monkeypatch.setattr(one.creation, "_answered", lambda *about: held.append(about))
    make(one, folder, b"x")
    with ThreadPoolExecutor(1) as other:
        found = other.submit(lookup, two, folder)
        assert eventually(lambda: len(held) == 1)
        threading.Event().wait(HELD_SECONDS)
        assert not found.done()
        answered(*held[0])
        assert found.result(20) == lookup(one, folder)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_synced_is_at_home(
    home: LocalHome, members: tuple[Member, Member], what: str
) -> None:
    one = members[0].node
    folder = own_folder(one)
    with ThreadPoolExecutor(1) as program:
        with members[0].unreached():
            handle = make(one, folder, b"x")
            if what == "file":
                synced = program.submit(one.sync, handle, False)
            else:
                synced = program.submit(one.sync_folder, folder)
            threading.Event().wait(HELD_SECONDS)
            assert not synced.done()
        synced.result(20)
        assert (home.root / "own" / "x").exists()


def test_what_a_membership_has_not_heard_of_is_made_in_the_next(home: LocalHome) -> None:
    home.add()
    member = home.member("stays")
    try:
        one = remembering(home, member.node)
        folder = own_folder(one)
        hub = one.hub
        with unreached(home.lines["stays"]):
            handles = [make(one, folder, b"%d" % number) for number in range(3)]
            for number, handle in enumerate(handles):
                one.write(handle, 0, b"content %d" % number)
            one.release(handles[0], 0)
            assert eventually(lambda: hub.node not in home.share.sessions)
            two = home.join("two").node
            taken = make(two, folder, b"2")
            two.write(taken, 0, b"of two")
            two.sync(taken, data_only=False)
        joined_again(one, hub)
        one.sync(handles[1], data_only=False)
        assert outcome(lambda: one.sync(handles[2], data_only=False))[1] == errno.EEXIST
        assert {path.name: path.read_bytes() for path in (home.root / "own").iterdir()} == {
            "0": b"content 0",
            "1": b"content 1",
            "2": b"of two",
        }
        assert one.lookup(folder, b"2").attributes.size == 6
        for name in (b"0", b"1"):
            here, there = one.lookup(folder, name), two.lookup(folder, name)
            assert here.attributes.file == there.attributes.file
    finally:
        member.close()


def test_what_a_home_has_not_heard_of_the_next_one_makes(home: LocalHome) -> None:
    home.add()
    member = home.member("stays")
    try:
        one = remembering(home, member.node)
        folder = own_folder(one)
        with unreached(home.lines["stays"]):
            handle = make(one, folder, b"x")
            one.write(handle, 0, b"content")
            home.begin_again()
        two = home.join("two").node
        found = two.lookup(folder, b"x").attributes
        assert two.read(two.open(found.file, os.O_RDONLY).number, 0, 100) == b"content"
        one.write(handle, 0, b"CONTENT")
        assert two.read(two.open(found.file, os.O_RDONLY).number, 0, 100) == b"CONTENT"
        assert found.file == one.lookup(folder, b"x").attributes.file
    finally:
        member.close()


def test_what_home_has_made_without_the_nodes_hearing_it_is_not_made_twice(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add()
    member = home.member("stays")
    try:
        one = remembering(home, member.node)
        folder = own_folder(one)
        hub, answered = one.hub, one.creation._answered
        monkeypatch.setattr(one.creation, "_answered", lambda *about: None)
        handle = make(one, folder, b"x")
        gone = make(one, folder, b"gone")
        one.write(handle, 0, b"content")
        assert eventually((home.root / "own" / "gone").exists)
        monkeypatch.setattr(one.creation, "_answered", answered)
        home.share.lost(home.share.sessions[hub.node], "for the test")
        two = home.join("two").node
        two.unlink(folder, b"gone")
        joined_again(one, hub)
        one.sync(handle, data_only=False)
        assert (home.root / "own" / "x").read_bytes() == b"content"
        assert outcome(lambda: one.sync(gone, data_only=False))[1] == errno.ESTALE
        assert [entry.name for entry in two.entries(folder)] == [b"x"]
    finally:
        member.close()


def test_with_the_log_policy_sync_home_makes_every_file(home: LocalHome) -> None:
    home.add(log="sync")
    one = remembering(home, home.join("one").node)
    folder = own_folder(one)
    for number in range(3):
        make(one, folder, b"%d" % number)
    assert (said(home, one, "make"), said(home, one, "create")) == (0, 3)


def test_with_that_policy_from_now_on_home_makes_every_file_but_one(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one = members[0].node
    folder = own_folder(one)
    make(one, folder, b"before")
    home.share.record = replace(home.share.record, log="sync")
    for number in range(3):
        make(one, folder, b"%d" % number)
        one.hub.usage()
    assert (said(home, one, "make"), said(home, one, "create")) == (2, 2)


def test_a_node_that_does_not_ask_for_it_gets_no_folder_of_its_own(home: LocalHome) -> None:
    home.add()
    one = remembering(home, home.join("one", ahead=False).node)
    folder = own_folder(one)
    make(one, folder, b"x")
    make(one, folder, b"y")
    assert (said(home, one, "make"), said(home, one, "create")) == (0, 2)
