# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Several nodes of one share, in one process, without FUSE and without a network."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from shares.node import ROOT, Buffer, Changes, NewEntry, Node
from shares.protocol import BLOCK, Acquire, Fetch, FileId, Flush, Message
from tests.shares.node.conftest import Join, NodesHome, watched
from tests.waiting import eventually

READ_WRITE = os.O_RDWR


def make(node: Node, name: bytes = b"file", content: bytes = b"") -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, name, 0o644, READ_WRITE, 0, 0)
    if content:
        node.write(handle.number, 0, content)
    return entry.attributes.file, handle.number


def test_what_one_node_writes_the_other_reads_at_once(join: Join) -> None:
    one, two = join(), join()
    file, writer = make(one, content=b"before")
    reader = two.open(file, os.O_RDONLY).number
    for turn in range(30):
        content = f"turn {turn}".encode() * (turn + 1)
        one.write(writer, 0, content)
        assert two.read(reader, 0, 1 << 20) == content
        assert two.attributes(file, reader).size == len(content)


def test_a_file_of_one_node_alone_is_written_without_messages(join: Join) -> None:
    one = join()
    file, handle = make(one)
    hub = watched(one)
    before = len(hub.posted)
    for block in range(100):
        one.write(handle, block * BLOCK, bytes([block]) * BLOCK)
    assert one.read(handle, 50 * BLOCK, 3) == bytes([50]) * 3
    assert one.attributes(file, handle).size == 100 * BLOCK
    assert len(hub.posted) == before


def test_the_second_open_sees_what_was_native(join: Join) -> None:
    one, two = join(), join()
    content = random.Random(1).randbytes(3 * BLOCK + 17)
    file, _ = make(one, content=content)
    assert two.attributes(file, None).size == len(content)
    assert two.read(two.open(file, os.O_RDONLY).number, 0, 1 << 20) == content


def test_a_closed_file_is_at_home(join: Join, home: NodesHome) -> None:
    one = join()
    content = random.Random(2).randbytes(1500 * BLOCK + 1)
    file, handle = make(one, content=content)
    one.release(handle, 0)
    assert eventually(lambda: home.share.tree.read(file, 0, 1 << 30) == content)
    again = one.open(file, os.O_RDONLY).number
    assert one.read(again, 0, 1 << 30) == content


def test_a_sync_ends_while_a_program_writes_on(
    join: Join, home: NodesHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives home what was written before it, once, and not what is written meanwhile."""
    one = join()
    file, handle = make(one, content=bytes(3 * BLOCK))
    turns = iter(range(1, 50))
    flushed = 0

    def post(message: Message, replied: Callable[[Any], None], *others: Any) -> None:
        nonlocal flushed

        def written_again(reply: Any) -> None:
            for turn in turns:
                one.write(handle, BLOCK, bytes([turn]) * BLOCK)
                break
            replied(reply)

        flush = isinstance(message, Flush)
        flushed += flush
        send(message, written_again if flush else replied, *others)

    hub = watched(one)
    send = hub.post
    monkeypatch.setattr(hub, "post", post)
    one.sync(handle, False)
    assert flushed == 1
    assert home.share.tree.read(file, 0, 3 * BLOCK) == bytes(3 * BLOCK)
    turns = iter(())
    one.sync(handle, False)
    assert home.share.tree.read(file, BLOCK, BLOCK) == bytes([1]) * BLOCK


def test_two_nodes_append_at_once_and_nothing_is_lost(join: Join) -> None:
    nodes = [join() for _ in range(3)]
    file, first = make(nodes[0])
    nodes[0].release(first, 0)
    lines = 60

    def append(which: int) -> None:
        handle = nodes[which].open(file, os.O_WRONLY | os.O_APPEND).number
        for line in range(lines):
            text = f"{which}:{line}:{'x' * (line * 7)}\n"
            assert nodes[which].write(handle, 0, text.encode()) == len(text)
        nodes[which].release(handle, 0)

    run_all([partial(append, which) for which in range(3)])
    handle = nodes[0].open(file, os.O_RDONLY).number
    got = nodes[0].read(handle, 0, 1 << 24).decode().splitlines()
    assert len(got) == 3 * lines
    for which in range(3):
        mine = [line for line in got if line.startswith(f"{which}:")]
        assert mine == [f"{which}:{line}:{'x' * (line * 7)}" for line in range(lines)]


def test_blocks_written_by_all_at_once_are_somebodys(join: Join) -> None:
    nodes = [join() for _ in range(3)]
    file, handle = make(nodes[0], content=bytes(8 * BLOCK))
    handles = [handle, *(node.open(file, READ_WRITE).number for node in nodes[1:])]

    def write(which: int) -> None:
        chance = random.Random(which)
        for _ in range(150):
            block = chance.randrange(8)
            nodes[which].write(handles[which], block * BLOCK, bytes([which + 1]) * BLOCK)
            seen = nodes[which].read(handles[which], chance.randrange(8) * BLOCK, BLOCK)
            assert len(set(seen)) == 1

    run_all([partial(write, which) for which in range(3)])
    seen = {node.read(number, 0, 8 * BLOCK) for node, number in zip(nodes, handles, strict=True)}
    assert len(seen) == 1


def test_parts_of_one_block_by_several_nodes_are_all_there(join: Join) -> None:
    nodes = [join() for _ in range(3)]
    file, handle = make(nodes[0], content=bytes(300))
    handles = [handle, *(node.open(file, READ_WRITE).number for node in nodes[1:])]

    def write(which: int) -> None:
        for place in range(which, 300, 3):
            nodes[which].write(handles[which], place, bytes([which + 1]))

    run_all([partial(write, which) for which in range(3)])
    assert nodes[1].read(handles[1], 0, 300) == bytes([1, 2, 3]) * 100


def test_a_file_that_was_cut_has_zeros_where_it_grows_again(join: Join) -> None:
    one, two = join(), join()
    file, handle = make(one, content=b"x" * (3 * BLOCK))
    other = two.open(file, READ_WRITE).number
    assert two.read(other, 2 * BLOCK, 10) == b"x" * 10
    one.write(handle, BLOCK, b"y" * BLOCK)
    assert one.change(file, Changes(size=BLOCK + 5), handle).size == BLOCK + 5
    assert two.attributes(file, other).size == BLOCK + 5
    assert two.read(other, BLOCK, BLOCK) == b"y" * 5
    two.change(file, Changes(size=3 * BLOCK), other)
    expected = b"x" * BLOCK + b"y" * 5 + bytes(2 * BLOCK - 5)
    assert one.read(handle, 0, 1 << 20) == expected
    assert two.read(other, 0, 1 << 20) == expected


def test_a_native_file_that_was_cut_has_zeros_too(join: Join) -> None:
    one = join()
    file, handle = make(one, content=b"x" * (3 * BLOCK))
    one.sync(handle, False)
    one.change(file, Changes(size=5), handle)
    one.write(handle, 2 * BLOCK, b"z")
    assert one.read(handle, 0, 1 << 20) == b"x" * 5 + bytes(2 * BLOCK - 5) + b"z"


def test_holes_are_zeros_for_everybody(join: Join) -> None:
    one, two = join(), join()
    file, handle = make(one)
    other = two.open(file, READ_WRITE).number
    one.write(handle, 5 * BLOCK + 100, b"end")
    assert two.read(other, 0, 1 << 20) == bytes(5 * BLOCK + 100) + b"end"
    two.write(other, 2 * BLOCK + 7, b"mid")
    seen = one.read(handle, 0, 1 << 20)
    assert seen == bytes(2 * BLOCK + 7) + b"mid" + bytes(3 * BLOCK + 90) + b"end"


def test_names_of_other_nodes_are_seen_at_once(join: Join) -> None:
    one, two = join(), join()
    with pytest.raises(FileNotFoundError):
        two.lookup(ROOT, b"a")
    file, _ = make(one, b"a", b"content")
    assert two.lookup(ROOT, b"a").attributes.file == file
    one.rename(ROOT, b"a", ROOT, b"b", 0)
    with pytest.raises(FileNotFoundError):
        two.lookup(ROOT, b"a")
    assert two.lookup(ROOT, b"b").attributes.size == 7
    one.change(file, Changes(mode=0o600), None)
    assert two.lookup(ROOT, b"b").attributes.mode & 0o777 == 0o600
    two.unlink(ROOT, b"b")
    with pytest.raises(FileNotFoundError):
        one.lookup(ROOT, b"b")
    folder = one.make_folder(ROOT, b"d", 0o755, 0, 0).attributes.file
    assert {entry.name for entry in two.entries(ROOT)} == {b"d"}
    assert two.lookup(ROOT, b"d").attributes.file == folder


def test_a_name_that_was_looked_for_while_it_was_made_is_there_afterwards(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node looked for during a call of its own that made it, it held to be missing for good:
    home tells the other nodes alone."""
    node = join()
    make = node.hub.make_folder

    def slow(*arguments: Any) -> NewEntry:
        with pytest.raises(FileNotFoundError):  # as a second thread of the program
            node.lookup(ROOT, b"sub")
        return make(*arguments)

    monkeypatch.setattr(node.hub, "make_folder", slow)
    assert eventually(lambda: node.names._until > 0)
    made = node.make_folder(ROOT, b"sub", 0o755, 0, 0)
    assert node.lookup(ROOT, b"sub").attributes.file == made.attributes.file


def test_a_native_file_that_is_larger_than_the_buffer_is_given_up_in_runs(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block by block, 2.5 GB took longer than programs wait for home."""
    dropped: list[tuple[int, int | None]] = []
    drop = Buffer.drop

    def counted(self: Buffer, file: FileId, first: int, count: int | None = None) -> None:
        dropped.append((first, count))
        drop(self, file, first, count)

    monkeypatch.setattr(Buffer, "drop", counted)
    one, two = join(limit=64 * BLOCK), join()
    file, handle = make(one, content=bytes(2048 * BLOCK))
    one.change(file, Changes(size=1024 * BLOCK), handle)
    assert one.attributes(file, handle).size == 1024 * BLOCK
    assert one.read(handle, 1023 * BLOCK, 2 * BLOCK) == bytes(BLOCK)
    other = two.open(file, READ_WRITE).number
    assert two.read(other, 0, BLOCK) == bytes(BLOCK)
    one.write(handle, 0, b"asks, and so looks how full the buffer is")
    assert one.content.status()["buffered_blocks"] <= 64
    assert 0 < len(dropped) < 8


def test_a_buffer_that_is_too_small_only_costs_messages(join: Join) -> None:
    one, two = join(), join(limit=16 * BLOCK)
    content = random.Random(3).randbytes(200 * BLOCK)
    file, _ = make(one, content=content)
    other = two.open(file, READ_WRITE).number
    assert b"".join(two.read(other, at, 5000) for at in range(0, len(content), 5000)) == content
    assert two.content.status()["buffered_blocks"] <= 16
    for block in range(0, 200, 3):
        two.write(other, block * BLOCK + 10, b"two")
    for block in range(200):
        wanted = content[block * BLOCK + 10 : block * BLOCK + 13] if block % 3 else b"two"
        assert one.read(one.open(file, os.O_RDONLY).number, block * BLOCK + 10, 3) == wanted


def test_who_reads_in_order_waits_seldom(join: Join) -> None:
    one, two = join(), join()
    file, _ = make(one, content=bytes(512 * BLOCK))
    other = two.open(file, os.O_RDONLY).number
    for block in range(512):
        two.read(other, block * BLOCK, BLOCK)
    fetches = [m for m in watched(two).posted if isinstance(m, Fetch)]
    assert len(fetches) < 20


def test_blocks_that_are_overwritten_whole_are_not_sent(join: Join) -> None:
    one, two = join(), join()
    file, _ = make(one, content=b"1" * (4 * BLOCK))
    other = two.open(file, READ_WRITE).number
    two.write(other, BLOCK // 2, b"2" * (3 * BLOCK))
    asked = [m for m in watched(two).posted if isinstance(m, Acquire) and m.first >= 0]
    assert [(m.first, m.count, m.whole) for m in asked] == [(0, 4, range(1, 3))]
    seen = one.read(one.open(file, os.O_RDONLY).number, 0, 1 << 20)
    assert seen == b"1" * (BLOCK // 2) + b"2" * (3 * BLOCK) + b"1" * (BLOCK // 2)


def test_without_home_strong_files_give_eio_after_the_wait(join: Join, home: NodesHome) -> None:
    home.begin_again(lease=0.6)
    one, two = join(), join(wait=0.5)
    file, handle = make(one, content=b"before")
    other = two.open(file, READ_WRITE).number
    assert two.read(other, 0, 10) == b"before"
    time.sleep(1.2)
    watched(two).cut()
    time.sleep(home.lease + 0.2)
    with pytest.raises(OSError, match="not reached") as caught:
        two.read(other, 0, 10)
    assert caught.value.errno == errno.EIO
    watched(two).mend()
    assert two.read(other, 0, 10) == b"before"
    one.write(handle, 0, b"after ")
    assert two.read(other, 0, 10) == b"after "


def test_relaxed_files_are_read_without_home_until_their_bound(join: Join, home: NodesHome) -> None:
    home.set(relaxation=1.5)
    one, two = join(), join(wait=0.3)
    file, handle = make(one, content=b"before")
    other = two.open(file, os.O_RDONLY).number
    assert two.read(other, 0, 10) == b"before"
    since = time.monotonic()
    watched(two).cut()
    one.write(handle, 0, b"after ")
    assert two.read(other, 0, 10) == b"before" or time.monotonic() - since > 1.5
    time.sleep(1.6)
    with pytest.raises(OSError, match="not reached"):
        two.read(other, 0, 10)
    watched(two).mend()
    time.sleep(1.6)
    assert two.read(other, 0, 10) == b"after "


def test_a_handle_of_another_node_is_as_good(join: Join) -> None:
    one, two = join(), join()
    _, handle = make(one, content=b"content")
    assert two.read(handle, 3, 10) == b"tent"
    two.write(handle, 7, b" more")
    two.release(handle, 0)
    assert one.read(handle, 0, 100) == b"content more"


def test_a_node_that_home_gave_up_joins_again_with_what_it_wrote(
    join: Join, home: NodesHome
) -> None:
    one, two = join(), join()
    file, handle = make(one, content=b"a" * (3 * BLOCK))
    other = two.open(file, READ_WRITE).number
    one.write(handle, BLOCK, b"b" * BLOCK)
    before = watched(one)
    before.cut()
    home.lose(before)
    one.rejoin(home.join_again(before))
    assert two.read(other, 0, 1 << 20) == b"a" * BLOCK + b"b" * BLOCK + b"a" * BLOCK
    two.write(other, 0, b"c")
    assert one.read(handle, 0, 2) == b"ca"


def test_what_others_wrote_meanwhile_is_not_overwritten_by_who_comes_back(
    join: Join, home: NodesHome
) -> None:
    one, two = join(), join()
    file, handle = make(one, content=b"a" * (2 * BLOCK))
    other = two.open(file, READ_WRITE).number
    one.sync(handle, False)
    one.write(handle, 0, b"lost")
    before = watched(one)
    before.cut()
    home.lose(before)
    two.write(other, 0, b"kept")
    with pytest.raises(OSError, match="went on without") as caught:
        one.rejoin(home.join_again(before))
    assert caught.value.errno == errno.ESTALE
    assert one.read(handle, 0, 5) == b"kepta"


def test_a_part_of_a_block_is_not_written_where_the_rest_never_came(join: Join) -> None:
    """One program was to overwrite a block and gave up; another one writes a part of it."""
    one, two = join(), join()
    file, handle = make(one, content=b"a" * BLOCK)
    other = two.open(file, READ_WRITE).number
    two.attributes(file, other)
    watched(two).cut()
    waiting = two.content._files[file].demand.waiting
    gives_up = threading.Thread(target=refused, args=(two, other, bytes(BLOCK)))
    gives_up.start()
    assert eventually(lambda: len(waiting) == 1)
    given_up = waiting[0]
    writes = threading.Thread(target=two.write, args=(other, 10, b"two"))
    writes.start()
    assert eventually(lambda: len(waiting) == 2)
    given_up.error = OSError(errno.EIO, "given up")
    gives_up.join(20)
    watched(two).mend()
    writes.join(20)
    assert one.read(handle, 0, BLOCK) == b"a" * 10 + b"two" + b"a" * (BLOCK - 13)


def refused(node: Node, handle: int, data: bytes) -> None:
    with pytest.raises(OSError, match="given up"):
        node.write(handle, 0, data)


@pytest.mark.parametrize("others_write", [False, True])
def test_a_write_whose_log_was_lost_is_judged_by_what_home_takes(
    join: Join, home: NodesHome, others_write: bool
) -> None:
    """It returned as if it had been logged, when the node joined again."""
    home.set(log="sync")
    one, two = join(), join()
    file, handle = make(one, content=b"a" * BLOCK)
    other = two.open(file, READ_WRITE).number
    one.write(handle, 0, b"own")
    before = watched(one)
    before.cut()
    results: list[object] = []

    def write() -> None:
        try:
            results.append(one.write(handle, 0, b"new"))
        except OSError as error:
            results.append(error.errno)

    writes = threading.Thread(target=write)
    writes.start()
    assert eventually(lambda: one.content.unconfirmed > 0)
    home.lose(before)
    if others_write:
        two.write(other, 0, b"two")
    with suppress(OSError):
        one.rejoin(home.join_again(before))
    writes.join(20)
    assert results == [errno.ESTALE if others_write else 3]
    assert two.read(other, 0, 4) == (b"twoa" if others_write else b"newa")


def test_writes_wait_when_homes_log_is_too_far_behind(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.node.content.holdings.LAG_BYTES", 8 * BLOCK)
    monkeypatch.setattr("shares.node.content.holdings.CONFIRMED_BYTES", 2 * BLOCK)
    one, two = join(wait=0.5), join()
    file, handle = make(one, content=bytes(BLOCK))
    two.open(file, os.O_RDONLY)
    for _ in range(50):
        one.write(handle, 0, b"y" * BLOCK)
    watched(one).cut()
    with pytest.raises(OSError, match="not reached"):
        for _ in range(50):
            one.write(handle, 0, b"x" * BLOCK)
    watched(one).mend()
    one.write(handle, 0, b"z" * BLOCK)


def fetches(node: Node) -> int:
    return sum(isinstance(message, Fetch | Acquire) for message in watched(node).posted)


def test_copies_outlast_the_last_close(join: Join) -> None:
    one, two = join(), join()
    file, writer = make(one, content=b"a" * (5 * BLOCK))
    for _ in range(3):
        handle = two.open(file, READ_WRITE).number
        assert two.read(handle, 0, 1 << 20) == b"a" * (5 * BLOCK)
        two.release(handle, 0)
        asked = fetches(two)
    handle = two.open(file, READ_WRITE).number
    assert two.read(handle, 0, 1 << 20) == b"a" * (5 * BLOCK)
    two.write(handle, BLOCK, b"two")
    assert fetches(two) == asked + 1
    two.release(handle, 0)
    one.write(writer, 3 * BLOCK, b"one")
    seen = two.read(two.open(file, os.O_RDONLY).number, 0, 1 << 20)
    assert (seen[BLOCK : BLOCK + 4], seen[3 * BLOCK : 3 * BLOCK + 4]) == (b"twoa", b"onea")
    assert one.read(writer, BLOCK, 4) == b"twoa"


def test_what_is_pushed_to_a_file_without_handles_is_read(join: Join, home: NodesHome) -> None:
    home.set(policy="write-update")
    one, two = join(), join()
    file, writer = make(one, content=b"a" * BLOCK)
    for turn in range(5):
        handle = two.open(file, os.O_RDONLY).number
        before = fetches(two)
        assert two.read(handle, 0, 2) == (b"%d!" % (turn - 1) if turn else b"aa")
        assert fetches(two) == before or turn == 0
        two.release(handle, 0)
        one.write(writer, 0, b"%d!" % turn)
        assert eventually(lambda: two.content.traffic["UpdateReply"] > turn)  # noqa: B023


def test_a_file_that_is_idle_for_long_or_removed_is_closed(
    join: Join, home: NodesHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.node.opened.uses.IDLE_FILES", 2)
    one, two = join(), join()
    made = [make(one, b"%d" % n, b"content")[0] for n in range(4)]
    for file in made:
        two.release(two.open(file, os.O_RDONLY).number, 0)
    opened = home.share.coherence.directory._files
    assert eventually(
        lambda: [file for file in made if two.hub.node in opened[file].open] == made[2:]
    )
    two.lookup(ROOT, b"2")
    two.unlink(ROOT, b"2")
    one.unlink(ROOT, b"3")
    assert eventually(lambda: not any(two.uses.of(file).file for file in made))
    assert eventually(lambda: home.share.coherence.directory.native(made[3]) == one.hub.node)


def test_what_was_written_before_a_close_without_home_is_not_lost(
    join: Join, home: NodesHome
) -> None:
    home.set(log="off")
    one, two = join(wait=0.5), join()
    file, handle = make(one, content=b"a" * BLOCK)
    other = two.open(file, READ_WRITE).number
    one.write(handle, 0, b"written")
    before = watched(one)
    before.cut()
    with pytest.raises(OSError, match="not reached"):
        one.release(handle, 0)
    home.lose(before)
    one.rejoin(home.join_again(before))
    assert two.read(other, 0, 8) == b"writtena"


def test_a_stat_and_the_last_close_do_not_meet(join: Join) -> None:
    one, two = join(), join()
    file, _ = make(one, content=b"abc")
    over = threading.Event()

    def stat() -> None:
        while not over.is_set():
            assert two.attributes(file, None).size == 3

    def close() -> None:
        try:
            for _ in range(200):
                two.release(two.open(file, os.O_RDONLY).number, 0)
                two.handles.close_idle(file)
        finally:
            over.set()

    run_all([stat, close])


def run_all(actions: list[Callable[[], None]]) -> None:
    """All at once; the first failure of any is raised."""
    failures: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_what_was_native_goes_home_ahead_of_who_opens_it(join: Join) -> None:
    """The open waits for the other node as before, and the read for nobody."""
    one, two = join(), join()
    file, _ = make(one, content=b"a" * 3 * BLOCK)
    reader = two.open(file, os.O_RDONLY).number
    assert one.content.traffic["Flush"]
    assert two.read(reader, 0, 1 << 20) == b"a" * 3 * BLOCK
    assert not one.content.traffic["Recall"]
