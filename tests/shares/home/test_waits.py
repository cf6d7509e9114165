# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs wait for when they make, write, close and open files, in requests over real
sockets; and that what was closed without waiting is not lost."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shares.node import BLOCK, ROOT, Changes, NewEntry, Node, OpenReply
from shares.protocol import FileId
from tests.needs import requires
from tests.shares.home.homes import LEASE, LocalHome
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()

POSTED = frozenset({"Flush", "written", "close", "LogWrite", "EngageReply", "ids", "make"})
"""What a node says without waiting for the answer where the log policy is not `sync`. EngageReply
is its own answer: home says that a file which was closed here is no more."""


def kinds(home: LocalHome, node: Node, act: Callable[[], object]) -> Counter[str]:
    """What the node asked for that, by kind, until home has heard all of it; but heartbeats."""
    session = home.share.sessions[node.hub.node]

    def count() -> Counter[str]:
        node.hub.usage()  # all that was posted before is at home
        found = session.traffic.copy()
        ignored = {"beat", "succeeded", "usage"}
        return Counter({k: n for (way, k), n in found.items() if way == "in" and k not in ignored})

    before = count()
    act()
    return count() - before


def waited(home: LocalHome, node: Node, act: Callable[[], object]) -> Counter[str]:
    """Of these, those that somebody waited for."""
    found = kinds(home, node, act)
    return Counter({kind: n for kind, n in found.items() if kind not in POSTED})


@pytest.fixture
def node(home: LocalHome) -> Node:
    """One that home has told its lease, and that knows all of an empty folder."""
    home.add()
    return ready(home)


def ready(home: LocalHome, name: str = "one") -> Node:
    node = home.join(name).node
    found = partial(waited, home, node, lambda: node.attributes(ROOT, None))
    assert eventually(lambda: not found(), LEASE)
    node.entries(ROOT)
    return node


def write(node: Node, name: bytes, content: bytes = b"content", mode: int = 0o644) -> FileId:
    """As `open(O_CREAT)`, write and close: the kernel looks the name and its folder up."""
    with pytest.raises(FileNotFoundError):
        node.lookup(ROOT, name)
    node.attributes(ROOT, None)
    entry, handle = node.create(ROOT, name, mode, os.O_WRONLY | os.O_EXCL, UID, GID)
    node.write(handle.number, 0, content)
    node.flush(handle.number, 0)
    node.release(handle.number, 0)
    return entry.attributes.file


@pytest.mark.parametrize(("others", "waits"), [(True, 20), (False, 1)])
def test_a_small_new_file_is_one_wait_or_none_if_no_other_node_knows_the_folder(
    home: LocalHome, node: Node, others: bool, waits: int
) -> None:
    def many() -> None:
        for number in range(20):
            write(node, b"%d" % number)

    if others:
        ready(home, "two")
    found = kinds(home, node, many)
    made = Counter({"create": waits, "make": 20 - waits})
    assert found == {**+made, "Flush": found["Flush"], "written": 20}
    assert found["Flush"] <= 40  # block -1 is no neighbour of a block but 0
    assert eventually(lambda: (home.root / "19").read_bytes() == b"content")


def test_a_file_that_was_written_is_looked_at_and_read_without_asking(
    home: LocalHome, node: Node
) -> None:
    file = write(node, b"file")

    def look() -> None:
        assert node.lookup(ROOT, b"file").attributes.size == 7
        handle = node.open(file, os.O_RDONLY).number
        assert node.read(handle, 0, 100) == b"content"
        node.release(handle, 0)

    assert not kinds(home, node, look)


def test_names_are_made_moved_and_taken_away_with_one_wait_each(
    home: LocalHome, node: Node
) -> None:
    def change() -> None:
        node.make_folder(ROOT, b"folder", 0o755, UID, GID)
        node.attributes(ROOT, None)
        node.make_link(ROOT, b"link", b"target", UID, GID)
        node.attributes(ROOT, None)
        node.rename(ROOT, b"link", ROOT, b"other", 0)
        assert stat.S_ISLNK(node.lookup(ROOT, b"other").attributes.mode)
        node.unlink(ROOT, b"other")
        node.remove_folder(ROOT, b"folder")
        node.attributes(ROOT, None)
        assert node.entries(ROOT) == []

    assert sum(waited(home, node, change).values()) == 5


def test_of_a_folder_that_it_made_a_node_knows_all_names(home: LocalHome, node: Node) -> None:
    other = ready(home, "two")
    folder = node.make_folder(ROOT, b"folder", 0o755, UID, GID).attributes.file

    def look() -> None:
        assert node.entries(folder) == []
        with pytest.raises(FileNotFoundError):
            node.lookup(folder, b"name")

    assert not kinds(home, node, look)
    other.make_folder(folder, b"name", 0o755, UID, GID)
    assert [entry.name for entry in node.entries(folder)] == [b"name"]


def test_a_program_that_sets_what_is_so_already_does_not_wait(home: LocalHome, node: Node) -> None:
    """As tar and cp do."""
    entry, handle = node.create(ROOT, b"file", 0o640, os.O_WRONLY, UID, GID)
    file = entry.attributes.file

    def same() -> None:
        node.change(file, Changes(uid=UID, gid=GID), handle.number)
        node.change(file, Changes(mode=stat.S_IFREG | 0o640), handle.number)

    before = node.attributes(file, None).changed
    assert not kinds(home, node, same)
    assert node.attributes(file, None).changed > before

    def other() -> None:
        node.change(file, Changes(mode=0o600), handle.number)
        assert node.attributes(file, None).mode & 0o777 == 0o600

    assert waited(home, node, other) == {"change": 1}
    assert (home.root / "file").stat().st_mode & 0o777 == 0o600


def test_an_editors_save_is_one_wait(home: LocalHome, node: Node) -> None:
    write(node, b"text")

    def save() -> None:
        file = write(node, b".text.swp", b"saved")
        node.rename(ROOT, b".text.swp", ROOT, b"text", 0)
        assert node.lookup(ROOT, b"text").attributes.file == file
        with pytest.raises(FileNotFoundError):
            node.lookup(ROOT, b".text.swp")
        handle = node.open(file, os.O_RDONLY).number
        assert node.read(handle, 0, 100) == b"saved"
        node.release(handle, 0)
        assert len(node.entries(ROOT)) == 1

    assert waited(home, node, save) == {"rename": 1}
    assert eventually(lambda: (home.root / "text").read_bytes() == b"saved")


def test_of_two_names_of_one_file_none_is_gone_when_one_is_moved_over_the_other(
    home: LocalHome, node: Node
) -> None:
    file = write(node, b"one")
    node.link(file, ROOT, b"two")
    node.rename(ROOT, b"one", ROOT, b"two", 0)
    assert node.lookup(ROOT, b"one").attributes.links == 2
    assert {entry.name for entry in node.entries(ROOT)} == {b"one", b"two"}


def test_links_of_a_file_are_known_without_asking(home: LocalHome, node: Node) -> None:
    file = write(node, b"temporary")

    def link() -> None:  # as git does with each object
        node.link(file, ROOT, b"final")
        assert node.attributes(file, None).links == 2
        node.unlink(ROOT, b"temporary")
        assert node.attributes(file, None).links == 1
        assert [entry.name for entry in node.entries(ROOT)] == [b"final"]

    assert waited(home, node, link) == {"link": 1, "unlink": 1}


def test_a_file_that_is_written_anew_is_one_wait(home: LocalHome) -> None:
    home.add()
    (home.root / "file").write_bytes(b"x" * 10000)
    node = ready(home)
    file = node.lookup(ROOT, b"file").attributes.file

    def anew() -> None:
        handle = node.open(file, os.O_WRONLY | os.O_TRUNC).number
        node.write(handle, 0, b"anew")
        node.release(handle, 0)

    assert waited(home, node, anew) == {"open": 1}
    assert eventually(lambda: (home.root / "file").read_bytes() == b"anew")


@pytest.mark.parametrize(("here", "asked"), [(1 << 20, 0), (0, 1)])
def test_a_file_that_was_cut_is_written_without_asking(
    home: LocalHome, node: Node, monkeypatch: pytest.MonkeyPatch, here: int, asked: int
) -> None:
    """So is a native file cut, if that is not much."""
    monkeypatch.setattr("shares.node.content.copies.CUT_HERE_BYTES", here)
    entry, handle = node.create(ROOT, b"file", 0o644, os.O_RDWR, UID, GID)
    file = entry.attributes.file
    node.write(handle.number, 0, b"x" * 100_000)

    def cut_and_write() -> None:
        node.change(file, Changes(size=10_000), handle.number)
        node.write(handle.number, 10_000, b"y" * 30_000)

    found = waited(home, node, cut_and_write)
    assert found["change"] == asked
    assert home.share.coherence.directory.native(file) == node.hub.node

    def write_on() -> None:
        for turn in range(20):
            node.write(handle.number, turn * BLOCK, b"z" * BLOCK)

    assert not waited(home, node, write_on)
    assert node.read(handle.number, 0, 1 << 20) == b"z" * 20 * BLOCK
    node.release(handle.number, 0)
    assert eventually(lambda: (home.root / "file").read_bytes() == b"z" * 20 * BLOCK)


def test_another_node_sees_what_was_closed_and_has_the_file_alone(
    home: LocalHome, node: Node
) -> None:
    """Wherever the content is on its way. It is not slowed by the node that only has it at hand."""
    other = ready(home, "two")
    for number in range(20):
        content = b"%d" % number * 1000
        file = write(node, b"%d" % number, content)
        handle = other.open(file, os.O_RDWR).number
        assert other.read(handle, 0, 1 << 20) == content
        assert other.attributes(file, None).size == len(content)
        assert eventually(lambda f=file: home.share.coherence.directory.native(f) == other.hub.node)  # type: ignore[misc]
        other.write(handle, 0, b"other")
        other.release(handle, 0)
        again = node.open(file, os.O_RDONLY).number
        assert node.read(again, 0, 5) == b"other"
        node.release(again, 0)


def test_what_was_closed_and_is_on_its_way_comes_with_the_next_membership(home: LocalHome) -> None:
    home.add()
    member = home.member("stays")
    try:
        node = member.node
        session = home.share.sessions[node.hub.node]
        file = write(node, b"file")
        home.share.lost(session, "for the test")
        again = write(node, b"again")
        assert eventually(lambda: (home.root / "again").read_bytes() == b"content", 60.0)
        assert eventually(lambda: (home.root / "file").read_bytes() == b"content", 60.0)
        assert node.attributes(file, None).size == node.attributes(again, None).size == 7
    finally:
        member.close()


def test_a_cut_that_home_may_have_made_is_not_asked_for_again(home: LocalHome) -> None:
    """What another one writes after it is nothing that was to be cut off."""
    home.add()
    (home.root / "file").write_bytes(b"content")
    member = home.member("stays")
    try:
        node, hub = member.node, member.node.hub
        file = node.lookup(ROOT, b"file").attributes.file
        session, ask = home.share.sessions[hub.node], hub.open

        def overtaken(file: FileId, writes: bool, cut: bool) -> OpenReply:
            ask(file, writes, cut)
            home.share.lost(session, "for the test")
            (home.root / "file").write_bytes(b"another's")
            assert eventually(lambda: not hub.connected)
            raise OSError(errno.EIO, "the answer did not come")

        hub.open = overtaken
        with pytest.raises(OSError):
            node.open(file, os.O_WRONLY | os.O_TRUNC)
        assert eventually(lambda: node.hub is not hub and node.hub.connected, 60.0)
        assert node.attributes(file, None).size == 9
        assert (home.root / "file").read_bytes() == b"another's"
    finally:
        member.close()


def test_a_file_that_is_closed_while_it_is_created_again_is_open(
    home: LocalHome, node: Node
) -> None:
    file = write(node, b"file")
    hub = node.hub
    ask = hub.create

    def overtaken(*arguments: Any) -> tuple[NewEntry, OpenReply]:
        answer = ask(*arguments)
        node.handles.close_idle(file)  # as after 30 s
        return answer

    hub.create = overtaken  # type: ignore[assignment]
    _, handle = node.create(ROOT, b"file", 0o644, os.O_WRONLY, UID, GID)
    hub.usage()
    assert file in home.share.sessions[hub.node].opened
    assert home.share.coherence.directory.native(file) == hub.node
    node.write(handle.number, 0, b"written")
    node.sync(handle.number, data_only=False)
    assert (home.root / "file").read_bytes() == b"written"
    node.release(handle.number, 0)


def test_a_close_before_home_serves_again_does_not_come_behind_a_later_open(
    home: LocalHome,
) -> None:
    """It took from the node what it owned by then."""
    home.add()
    home.join("away").cut_off()
    (home.root / "file").write_bytes(b"content")
    home.begin_again()
    node = home.join("one").node
    closed = threading.Event()
    file = FileId(2)
    node.hub.close(lambda _: closed.set(), file)
    assert closed.wait(60)
    assert not home.share.grace.over
    file = node.lookup(ROOT, b"file").attributes.file
    assert node.hub.open(file, True, False).native
    assert home.share.coherence.directory.native(file) == node.hub.node


def test_a_sync_tells_what_home_answered_to_content_that_nobody_waited_for(
    home: LocalHome, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_native = home.share.tree.write
    monkeypatch.setattr(home.share.tree, "write", full)
    file = write(node, b"file")
    handle = node.open(file, os.O_RDONLY).number
    with pytest.raises(OSError) as caught:
        node.sync(handle, data_only=False)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.setattr(home.share.tree, "write", write_native)
    node.sync(handle, data_only=False)
    assert (home.root / "file").read_bytes() == b"content"


@pytest.mark.parametrize("log", ["sync", "async", "off"])
def test_what_was_synced_is_at_home(home: LocalHome, log: str) -> None:
    """With `off` an fsync did nothing, and said that it was done."""
    home.add(log=log)
    node = ready(home)
    _, handle = node.create(ROOT, b"file", 0o644, os.O_WRONLY, UID, GID)
    node.write(handle.number, 0, b"content")
    node.sync(handle.number, data_only=True)
    assert (home.root / "file").read_bytes() == b"content"


@requires("fuse", "fusermount3")
def test_names_are_durable_when_their_folder_was_synced(
    home: LocalHome, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An fsync of a folder was answered by the session, and home's disk heard nothing of it."""
    synced: list[FileId] = []
    sync_native = home.share.tree.sync

    def sync(file: FileId) -> None:
        synced.append(file)
        sync_native(file)

    monkeypatch.setattr(home.share.tree, "sync", sync)
    place = home.mount(node)
    (place / "deep").mkdir()
    (place / "deep/one").write_bytes(b"content")
    (place / "deep/one").rename(place / "deep/two")
    descriptor = os.open(place / "deep", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    assert synced[-1] == node.lookup(ROOT, b"deep").attributes.file
    monkeypatch.setattr(home.share.tree, "sync", fails)
    with pytest.raises(OSError) as caught:
        os.fsync(descriptor)
    assert caught.value.errno == errno.EIO
    monkeypatch.setattr(home.share.tree, "sync", sync_native)
    os.close(descriptor)


def fails(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_with_the_log_policy_sync_home_has_what_was_closed(home: LocalHome) -> None:
    home.add(log="sync")
    node = ready(home)
    write(node, b"file")
    assert (home.root / "file").read_bytes() == b"content"


def test_who_closes_waits_when_much_is_on_its_way(
    home: LocalHome, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.node.content.holdings.LAG_BYTES", 0)
    room = node.content._held.room
    _, handle = node.create(ROOT, b"file", 0o644, os.O_WRONLY, UID, GID)
    other = node.open(write(node, b"other"), os.O_RDONLY).number
    node.flush(other, 0)
    node.write(handle.number, 0, b"x" * 10000)
    closing = threading.Thread(target=node.flush, args=(other, 0))
    with home.share.coherence.lock:  # home takes no content meanwhile
        node.release(handle.number, 0)
        assert not room()
        closing.start()
    closing.join()
    assert room()
