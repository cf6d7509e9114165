# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where all files of a share may be old for a lease, nodes make files by themselves in folders that
others know; and who knows them may miss a new name for as long."""

from __future__ import annotations

import errno
import os
import random
import threading
import time

import pytest

from shares.home import PathRule, ShareRecord
from shares.node import Node
from shares.protocol import FileId
from tests.shares.home.homes import LocalHome, Member
from tests.shares.home.test_made_ahead import make, own_folder, said
from tests.shares.home.test_promises import remembering
from tests.waiting import eventually

LONG = 60.0


def members(home: LocalHome, relaxation: float, lease: float = 30.0) -> tuple[Member, Member]:
    """lease: long enough for a busy machine, where it is no matter."""
    home.lease = lease
    home.add(relaxation=relaxation)
    found = home.join("one"), home.join("two")
    for member in found:
        remembering(home, member.node)
    return found


def shared_folder(one: Node, two: Node) -> FileId:
    """Both know all of its names."""
    folder = own_folder(one)
    make(one, folder, b"first")
    assert eventually(lambda: names(two, folder) == {b"first"})
    make(one, folder, b"second")  # home says with this whose the folder is
    assert eventually(lambda: names(two, folder) == {b"first", b"second"})
    return folder


def names(node: Node, folder: FileId) -> set[bytes]:
    return {entry.name for entry in node.entries(folder)}


def test_in_a_folder_that_another_node_knows_files_are_made_ahead(home: LocalHome) -> None:
    one, two = members(home, LONG)
    folder = shared_folder(one.node, two.node)
    before = said(home, one.node, "create")
    with one.unreached():
        for number in range(20):
            handle = make(one.node, folder, b"%d" % number)
            one.node.write(handle, 0, b"content %d" % number)
            assert one.node.read(handle, 0, 100) == b"content %d" % number
            one.node.release(handle, 0)
        assert len(names(one.node, folder)) == 22  # its own is always seen
        assert len(names(two.node, folder)) == 2  # waits for nobody
    assert eventually(lambda: len(names(two.node, folder)) == 22)
    for entry in two.node.entries(folder):
        if entry.name.isdigit():
            opened = two.node.open(entry.attributes.file, os.O_RDONLY).number
            assert two.node.read(opened, 0, 100) == b"content " + entry.name
    assert said(home, one.node, "create") == before


@pytest.mark.parametrize("relaxation", [0.0, 29.0])
def test_with_less_than_a_lease_names_are_never_old(home: LocalHome, relaxation: float) -> None:
    one, two = members(home, relaxation)
    folder = shared_folder(one.node, two.node)
    before = said(home, one.node, "create")
    for number in range(5):
        make(one.node, folder, b"%d" % number)
        assert b"%d" % number in names(two.node, folder)
    assert said(home, one.node, "create") == before + 5


def test_without_relaxation_any_more_names_are_the_latest_at_once(home: LocalHome) -> None:
    one, two = members(home, LONG)
    folder = shared_folder(one.node, two.node)
    home.set(relaxation=0.0)
    for number in range(5):
        make(one.node, folder, b"%d" % number)
        assert b"%d" % number in names(two.node, folder)


def test_the_smallest_relaxation_of_any_file_counts() -> None:
    record = ShareRecord("photos", "/photos", relaxation=9.0)
    assert record.relaxed == 9.0
    strict = ShareRecord("photos", "/photos", relaxation=9.0, rules=(PathRule("*.db", None, 0.0),))
    assert strict.relaxed == 0.0


def test_of_two_nodes_that_make_one_name_one_gets_it(home: LocalHome) -> None:
    """O_EXCL is for locks: home asks who makes files there before it makes one for another."""
    one, two = members(home, LONG)
    folder = shared_folder(one.node, two.node)
    refused: list[int | None] = []

    def other() -> None:
        try:
            make(two.node, folder, b"lock")
        except OSError as error:
            refused.append(error.errno)
        else:
            refused.append(None)

    with one.unreached():
        make(one.node, folder, b"lock")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(30)
    assert refused == [errno.EEXIST]
    make(two.node, folder, b"another")
    assert eventually(lambda: b"another" in names(one.node, folder))


def test_no_name_is_missed_for_longer_than_the_relaxation(home: LocalHome) -> None:
    """One makes and removes files, while its link stops now and then; another lists them."""
    relaxation = 6.0
    one, two = members(home, relaxation, relaxation)
    folder = shared_folder(one.node, two.node)
    dice, made, ended = random.Random(5), dict[bytes, float](), threading.Event()

    def maker() -> None:
        try:
            for number in range(60):
                make(one.node, folder, b"%d" % number)
                made[b"%d" % number] = time.monotonic()
                time.sleep(dice.uniform(0.0, 0.25))
        finally:
            ended.set()

    thread = threading.Thread(target=maker)
    thread.start()
    looks = 0
    while not ended.is_set():
        if dice.random() < 0.1:
            with one.unreached():
                time.sleep(dice.uniform(0.0, 0.3))
        began = time.monotonic()
        found = names(two.node, folder)
        missed = {name for name, at in dict(made).items() if at < began - relaxation}
        assert missed <= found
        looks += 1
    thread.join()
    assert looks > 5
    assert len(made) == 60
    assert eventually(lambda: names(two.node, folder) >= set(made))
