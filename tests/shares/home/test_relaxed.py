# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that may be read as they were some seconds ago: what opens and reads of them ask home, and
what is never old."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from typing import Any

import pytest

from shares.node import ROOT, Changes, Node
from shares.node.opened.file_handles import IDLE_SECONDS
from shares.protocol import BLOCK, FileId
from tests.shares.history import Operation, check_staleness
from tests.shares.home.homes import LocalHome
from tests.waiting import eventually

LONG = 60.0
SECONDS, BOUND = 4.0, 1.0
UID, GID = os.getuid(), os.getgid()
OLD, NEW = b"a" * (2 * BLOCK + 10), b"b" * 10


def made(home: LocalHome, relaxation: float) -> tuple[Node, Node, FileId, int]:
    """A writer and a reader of a file that both have open, and the writer's handle."""
    home.add(relaxation=relaxation)
    writer, reader = (home.join(name).node for name in ("writer", "reader"))
    entry, handle = writer.create(ROOT, b"f", 0o644, os.O_RDWR, UID, GID)
    writer.write(handle.number, 0, OLD)
    writer.sync(handle.number, False)
    file = entry.attributes.file
    assert read(reader, file) == OLD
    return writer, reader, file, handle.number


def read(node: Node, file: FileId) -> bytes:
    """As a program that opens it, reads all and closes it."""
    handle = node.open(file, os.O_RDONLY).number
    try:
        return node.read(handle, 0, 1 << 20)
    finally:
        node.release(handle, 0)


def told(node: Node) -> None:
    """What home has said to the node until now is here."""
    node.hub.attributes(ROOT)


def calls(node: Node, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Of the node to home, from now on, but for heartbeats."""
    counted: Counter[str] = Counter()
    hub: Any = node.hub
    for name in ("open", "attributes", "post"):
        real = getattr(hub, name)

        def call(*arguments: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
            counted[_name] += 1
            return _real(*arguments, **named)

        monkeypatch.setattr(hub, name, call)
    return counted


def test_what_was_cut_and_written_anew_is_opened_and_read_as_it_was(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken from all at once, whatever the relaxation was."""
    writer, reader, file, handle = made(home, LONG)
    writer.change(file, Changes(size=0), handle)
    writer.write(handle, 0, NEW)
    told(reader)
    counted = calls(reader, monkeypatch)
    assert read(reader, file) == OLD
    assert reader.attributes(file, None).size == len(OLD)
    assert set(counted) == {"attributes"}, "home is asked for mode and owner, and nothing else"
    assert read(writer, file) == NEW


def test_what_was_written_here_and_elsewhere_since_is_opened_and_read_as_it_was(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was closed here when the other node opened it, and its content was given up."""
    home.add(relaxation=LONG)
    here, there = (home.join(name).node for name in ("here", "there"))
    entry, handle = here.create(ROOT, b"f", 0o644, os.O_RDWR, UID, GID)
    here.write(handle.number, 0, OLD)
    here.release(handle.number, 0)
    file = entry.attributes.file
    other = there.open(file, os.O_RDWR).number
    assert there.read(other, 0, 5) == OLD[:5]
    there.write(other, 0, NEW)
    told(here)
    counted = calls(here, monkeypatch)
    assert read(here, file) == OLD
    assert not counted
    assert read(there, file) == NEW + OLD[len(NEW) :]


def test_who_cuts_a_file_reads_nothing_old_of_it(home: LocalHome) -> None:
    _, reader, file, _ = made(home, LONG)
    handle = reader.open(file, os.O_RDWR).number
    reader.change(file, Changes(size=5), handle)
    assert reader.read(handle, 0, 1 << 20) == OLD[:5]
    assert reader.attributes(file, handle).size == 5


def test_without_relaxation_nothing_of_it_is_old(home: LocalHome) -> None:
    writer, reader, file, handle = made(home, 0.0)
    writer.change(file, Changes(size=0), handle)
    writer.write(handle, 0, NEW)
    assert read(reader, file) == NEW


def test_names_are_not_relaxed(home: LocalHome) -> None:
    writer, reader, file, _ = made(home, LONG)
    assert reader.lookup(ROOT, b"f").attributes.file == file
    writer.rename(ROOT, b"f", ROOT, b"g", 0)
    with pytest.raises(FileNotFoundError):
        reader.lookup(ROOT, b"f")
    assert reader.lookup(ROOT, b"g").attributes.file == file
    writer.unlink(ROOT, b"g")
    with pytest.raises(FileNotFoundError):
        reader.lookup(ROOT, b"g")


def test_what_rests_and_was_removed_is_closed(home: LocalHome) -> None:
    """Home would keep its content for nobody."""
    writer, reader, file, handle = made(home, LONG)
    writer.release(handle, 0)
    session = home.share.sessions[reader.hub.node]
    assert file in session.opened
    assert reader.lookup(ROOT, b"f").attributes.file == file  # as the kernel, before each open
    writer.unlink(ROOT, b"f")
    assert eventually(lambda: file not in session.opened, IDLE_SECONDS / 3)


def test_what_is_cut_again_and_again_is_never_older_than_the_relaxation(home: LocalHome) -> None:
    writer, reader, file, handle = made(home, BOUND)
    history: list[Operation] = []
    until = time.monotonic() + SECONDS

    def write() -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            writer.change(file, Changes(size=0), handle)
            began = time.monotonic()
            writer.write(handle, 0, f"{turn:08}".encode())
            history.append(Operation(0, "f", True, f"{turn:08}", began, time.monotonic()))
            time.sleep(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    while time.monotonic() < until:
        began = time.monotonic()
        value = read(reader, file).decode()
        if len(value) == 8:  # not of before, or of between the cut and the write
            history.append(Operation(1, "f", False, value, began, time.monotonic()))
        time.sleep(0.01)
    thread.join()
    assert len({one.value for one in history if not one.writes}) > 1, "it never got newer"
    assert not check_staleness(history, BOUND)
    assert check_staleness(history, BOUND / 20), "nothing was read that was old"
