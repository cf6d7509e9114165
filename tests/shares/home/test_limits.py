# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What one node, or one fault, may cost the others of a share."""

from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path

import pytest

from shares.home.calls import HomeCalls
from shares.node import ROOT, Buffer, Call, Hub, LockKind, Node, codec
from shares.protocol import BLOCK, FileId
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

READ_WRITE = os.O_RDWR


def test_what_goes_wrong_in_one_look_does_not_keep_lost_nodes(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that looks at leases ended with what it had not expected of a disk."""
    share = home.add()
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(share.blocks, "save", fails)
        assert failed.wait(10)
    home.join("one").cut_off()
    assert eventually(lambda: len(share.lost_since(0.0)) == 1)


def test_a_node_has_so_many_locks_and_no_more(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest took as many as it liked, and each made the next one of anybody slower."""
    monkeypatch.setattr("shares.home.directory.locks.LIMIT", 10)
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


def test_nothing_is_remembered_of_blocks_that_were_read_and_given_up(
    home: LocalHome, tmp_path: Path
) -> None:
    """Who read a large file once left 184 bytes of each block at home, and 260 at the node: a guest
    may make a file as long as it likes, without content."""
    with (home.root / "file").open("wb") as file:
        file.truncate(4096 * BLOCK)
    share = home.add()
    node = home.join("one", buffer=Buffer(tmp_path / "small", 64 * BLOCK)).node
    entry = node.lookup(ROOT, b"file").attributes
    handle = node.open(entry.file, os.O_RDONLY).number
    assert share.coherence.directory.native(entry.file) == node.hub.node
    for at in range(0, 4096, 64):
        assert node.read(handle, at * BLOCK, 64 * BLOCK) == bytes(64 * BLOCK)
    assert len(share.coherence.directory._files[entry.file].blocks) < 64
    assert len(node.content._machine._files[entry.file].blocks) < 512


def test_a_nodes_disk_keeps_no_more_of_closed_files_than_its_buffer(
    home: LocalHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a node had ever written stayed there, until it left the share."""
    monkeypatch.setattr("shares.node.opened.uses.IDLE_FILES", 2)
    home.add()
    folder = tmp_path / "small"
    node = home.join("one", buffer=Buffer(folder, 64 * BLOCK)).node
    content = {b"%d" % n: random.Random(n).randbytes(32 * BLOCK) for n in range(20)}
    for name, data in content.items():
        _, handle = node.create(ROOT, name, 0o644, READ_WRITE, os.getuid(), os.getgid())
        node.write(handle.number, 0, data)
        node.release(handle.number, 0)
    kept = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    assert kept <= (64 + 4 * 32) * BLOCK
    assert len(node.content._files) <= 6
    for name, data in content.items():
        file = node.lookup(ROOT, name).attributes.file
        assert node.read(node.open(file, os.O_RDONLY).number, 0, len(data)) == data


def test_home_remembers_nothing_of_files_that_all_have_closed(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept a record of each file that was ever opened, until it ended."""
    monkeypatch.setattr("shares.node.opened.uses.IDLE_FILES", 2)
    monkeypatch.setattr("shares.protocol.home_machine.RESTING", 20)
    share = home.add()
    one, two = home.join("one").node, home.join("two").node
    for turn in range(200):
        name = b"%d" % turn
        entry, handle = one.create(ROOT, name, 0o644, READ_WRITE, os.getuid(), os.getgid())
        one.write(handle.number, 0, name)
        one.release(handle.number, 0)
        if turn % 2:
            reader = two.open(entry.attributes.file, os.O_RDONLY).number
            assert two.read(reader, 0, 10) == name
            two.release(reader, 0)
    assert eventually(lambda: len(share.coherence.directory._files) <= 20 + 2 * 4)
    for turn in range(200):
        file = one.lookup(ROOT, b"%d" % turn).attributes.file
        handle = one.open(file, READ_WRITE)
        assert one.read(handle.number, 0, 10) == b"%d" % turn
        one.write(handle.number, 0, b"again")
        one.release(handle.number, 0)
    assert eventually(lambda: (home.root / "199").read_bytes() == b"again")


def test_a_node_that_asks_too_much_at_once_is_heard_no_more(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of calls waited for their turn, in home's memory. And a conversation that home
    had ended was never over: the node came back to it again and again, and was waited for."""
    monkeypatch.setattr("shares.home.nodes.session.UNDER_WAY", 30)
    home.add()
    two, one = home.join("two"), home.join("one")
    file = one.node.create(ROOT, b"file", 0o644, READ_WRITE, os.getuid(), os.getgid())[0]
    for _ in range(100):
        one.node.hub.attributes(file.attributes.file)
    with home.share.coherence.lock:
        call = codec.encode_call("attributes", [file.attributes.file])
        for _ in range(100):
            one.membership.post(call, lambda _: None)
        assert eventually(lambda: bool(home.share.sessions[one.node.hub.node].channel.ended))
    assert two.node.attributes(file.attributes.file, None).size == 0
    one.gone = True


def test_so_many_wait_for_locks_and_no_more(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a thread at home."""
    monkeypatch.setattr("shares.home.nodes.session.LOCK_WAITS", 10)
    home.add()
    one, two = home.join("one"), home.join("two").node
    entry, handle = two.create(ROOT, b"file", 0o644, READ_WRITE, os.getuid(), os.getgid())
    file = entry.attributes.file
    two.set_lock(handle.number, 1, 0, 10, LockKind.WRITE, 1, False)
    said: list[bytes] = []
    for owner in range(30):
        asked = [file, owner, 0, 10, LockKind.WRITE, 1, True]
        one.membership.post(codec.encode_call("set_lock", asked), said.append)
    assert eventually(lambda: len(said) == 20)
    for refusal in said:
        with pytest.raises(OSError) as caught:
            codec.raise_refusal(refusal)
        assert caught.value.errno == errno.ENOLCK


def test_home_answers_every_call_that_a_hub_declares(home: LocalHome) -> None:
    declared = {name for name, call in vars(Hub).items() if isinstance(call, Call)}
    assert set(HomeCalls(home.add())._table) == declared


def test_what_a_node_calls_that_there_is_not_is_counted_together(home: LocalHome) -> None:
    """A status named each word."""
    share = home.add()
    one = home.join("one")
    for number in range(500):
        one.membership.post(codec.encode_call(f"word {number}", []), lambda _: None)
    one.node.hub.usage()
    (session,) = share.sessions.values()
    assert len(session.traffic) <= 201
    assert session.traffic["in", "other"] > 250


def test_nothing_stays_of_files_that_there_are_not(home: LocalHome) -> None:
    """A guest asks for any number of a file, or of a handle."""
    home.add()
    node = home.join("one").node
    entry, made = node.create(ROOT, b"file", 0o644, READ_WRITE, os.getuid(), os.getgid())
    for number in range(100_000, 100_200):
        for ask in (
            lambda file: node.open(file, os.O_RDONLY),
            lambda file: node.read(file << 8, 0, 1),
            lambda file: node.attributes(file, None),
        ):
            with pytest.raises(OSError) as caught:
                ask(FileId(number))
            assert caught.value.errno == errno.ESTALE
        node.flush(number << 8, 1)
        node.release(number << 8, 1)
    assert [file for file, _ in node.uses.all()] == [entry.attributes.file]
    assert node.write(made.number, 0, b"content") == 7
