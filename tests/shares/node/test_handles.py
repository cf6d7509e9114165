# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file is given up when it has neither handles nor calls under way, and then at once if another
node wants it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shares.node import ROOT, Changes, Node
from shares.node.opened.handles import appends, file_of, number, writes_to
from shares.protocol import BLOCK, FileId
from tests.shares.node.conftest import Join, NodesHome
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _nothing_because_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes give up nothing because of it."""
    monkeypatch.setattr("shares.node.opened.file_handles.IDLE_SECONDS", 1000.0)
    monkeypatch.setattr("shares.node.opened.file_handles.WRITE_BACK_SECONDS", 1000.0)


def make(node: Node, content: bytes = b"content") -> FileId:
    entry, handle = node.create(ROOT, b"file", 0o644, os.O_RDWR, 0, 0)
    node.write(handle.number, 0, content)
    node.release(handle.number, 0)
    return entry.attributes.file


@contextmanager
def under_way(node: Node, name: str, call: Callable[[], Any]) -> Iterator[list[Any]]:
    """Within this the call has come to that method of the node's content, and waits there. What is
    yielded has its result afterwards."""
    content: Any = node.content if hasattr(node.content, name) else node.content.table
    real, there, free = getattr(content, name), threading.Event(), threading.Event()
    caller = threading.Thread(target=lambda: results.append(call()))

    def held(*arguments: Any) -> Any:
        if threading.current_thread() is caller:
            there.set()
            assert free.wait(60)
        return real(*arguments)

    results: list[Any] = []
    setattr(content, name, held)
    caller.start()
    try:
        assert there.wait(60)
        yield results
    finally:
        free.set()
        caller.join(60)
        setattr(content, name, real)
    assert results, "the call has failed"


CALLS: dict[str, tuple[str, Callable[[Node, int], object], object]] = {
    "read": ("read", lambda node, handle: node.read(handle, 0, 7), b"content"),
    "write": ("write", lambda node, handle: node.write(handle, 0, b"CON"), 3),
    "append": ("write", lambda node, handle: node.write(handle | 4, 0, b"s"), 1),
    "sync": ("sync", lambda node, handle: node.sync(handle, False), None),
    "flush": ("note_times", lambda node, handle: node.flush(handle, 0), None),
    "stat": ("extent", lambda node, handle: node.attributes(file_of(handle), None).size, 7),
    "change": (
        "set_extent",
        lambda node, handle: node.change(file_of(handle), Changes(size=9), None).size,
        9,
    ),
}


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "uncounted"])
@pytest.mark.parametrize("call", CALLS)
def test_a_file_is_not_closed_under_a_call(join: Join, call: str, counted: bool) -> None:
    """Another program's handle, which this node has not counted, was the last one to be released:
    the file was closed, and the call found nothing."""
    one, two = join(), join()
    file = make(one)
    held = one.open(file, os.O_RDWR)  # so it is nobody's native file
    handle = number(file, os.O_RDWR)
    if counted:
        assert two.open(file, os.O_RDWR).number == handle
    else:
        two.read(handle, 0, 1)
    name, act, expected = CALLS[call]
    with under_way(two, name, lambda: act(two, handle)) as results:
        two.release(handle, 0)
        two.handles.close_idle(file)
        assert two.is_open(file)
    assert results == [expected]
    two.handles.close_idle(file)
    assert not two.is_open(file)
    one.release(held.number, 0)


def test_what_a_call_wrote_after_the_last_release_goes_home(join: Join) -> None:
    one, two = join(), join()
    file = make(one, b"a" * BLOCK)
    one.handles.close_idle(file)
    handle = two.open(file, os.O_RDWR).number
    with under_way(two, "write", lambda: two.write(handle, 0, b"late")):
        two.release(handle, 0)
    two.handles.close_idle(file)
    assert not two.is_open(file)
    assert one.read(number(file, os.O_RDONLY), 0, 5) == b"latea"


def test_a_file_that_another_node_opens_during_a_call_is_given_up_after_it(
    join: Join, home: NodesHome
) -> None:
    """It rested, which the end of the call did not begin anew: it was given up 30 s later."""
    one, two = join(), join()
    file = make(one)
    with under_way(one, "extent", lambda: one.attributes(file, None)):
        opened = two.open(file, os.O_RDONLY).number
        assert one.is_open(file)
    assert eventually(lambda: not one.is_open(file))
    assert eventually(lambda: home.share.coherence.directory.native(file) == two.hub.node)
    two.release(opened, 0)


def test_a_file_that_another_node_opens_during_the_last_close_is_given_up_after_it(
    join: Join, home: NodesHome
) -> None:
    one, two = join(), join()
    file = make(one)
    handle = one.open(file, os.O_RDWR).number
    with under_way(one, "settle", lambda: one.release(handle, 0)):
        opened = two.open(file, os.O_RDONLY).number
    assert eventually(lambda: not one.is_open(file))
    assert eventually(lambda: home.share.coherence.directory.native(file) == two.hub.node)
    two.release(opened, 0)


def test_a_file_that_is_opened_again_is_kept_although_it_was_to_be_given_up(join: Join) -> None:
    one, two = join(), join()
    file = make(one)
    with under_way(one, "extent", lambda: one.attributes(file, None)):
        two.release(two.open(file, os.O_RDONLY).number, 0)
        again = one.open(file, os.O_RDONLY).number
    one.release(again, 0)
    assert not one.uses.of(file).leaves
    assert one.is_open(file)


def test_a_call_about_a_file_that_rests_does_not_lengthen_that(join: Join) -> None:
    one = join()
    file = make(one)
    use = one.uses.of(file)
    since = use.since
    assert since > 0
    one.attributes(file, None)
    assert use.since == since
    assert not use.wanted


def test_handles_say_what_matters_later() -> None:
    handle = number(FileId(7), os.O_RDWR | os.O_APPEND | os.O_TRUNC)
    assert (file_of(handle), writes_to(handle), appends(handle)) == (7, True, True)
    handle = number(FileId(1 << 50), os.O_RDONLY)
    assert (file_of(handle), writes_to(handle), appends(handle)) == (1 << 50, False, False)
