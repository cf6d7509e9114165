# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Relaxation that a program asks for itself, for a file object or for a file of a mount."""

from __future__ import annotations

import errno
import io
import os
import threading
import time

import pytest

from shares.node import ROOT, Node, RawFile, open_file
from shares.protocol import BLOCK
from tests.homeserver.shares.conftest import Home
from tests.needs import requires
from tests.shares.history import Operation, check_staleness

UID, GID = os.getuid(), os.getgid()
OLD, NEW = b"a" * (2 * BLOCK + 10), b"b" * 10
SECONDS, BOUND = 3.0, 1.0
LONG = 60.0


def nodes(home: Home, relaxation: float = 0.0) -> tuple[Node, Node, int]:
    """A writer, a reader, and the writer's handle of the file f, which has OLD."""
    home.add(relaxation=relaxation)
    writer, reader = (home.join(name).node for name in ("writer", "reader"))
    _, handle = writer.create(ROOT, b"f", 0o644, os.O_RDWR, UID, GID)
    writer.write(handle.number, 0, OLD)
    return writer, reader, handle.number


def raw(node: Node, relaxation: float | None) -> RawFile:
    return open_file(node, "f", "rb", buffering=0, relaxation=relaxation)  # type: ignore[return-value]


def whole(file: RawFile) -> bytes:
    file.seek(0)
    return file.readall()


def test_it_counts_for_one_file_object(home: Home) -> None:
    writer, reader, handle = nodes(home)
    with raw(reader, LONG) as relaxed, raw(reader, None) as strict:
        assert whole(relaxed) == OLD
        writer.write(handle, 0, NEW)
        assert whole(relaxed) == OLD, "nobody was asked for what is at hand"
        assert whole(strict) == NEW + OLD[len(NEW) :]
        assert whole(relaxed) == NEW + OLD[len(NEW) :], "what is the latest is read by all"


def test_a_relaxed_read_asks_home_nothing(home: Home) -> None:
    writer, reader, handle = nodes(home)
    with raw(reader, LONG) as relaxed:
        assert whole(relaxed) == OLD
        writer.write(handle, 0, NEW)
        before = reader.content.traffic["Fetch"]
        assert whole(relaxed) == OLD
        assert reader.content.traffic["Fetch"] == before


def test_a_program_that_cuts_a_file_reads_nothing_old_of_it(home: Home) -> None:
    writer, reader, handle = nodes(home)
    with open_file(reader, "f", "r+b", buffering=0, relaxation=LONG) as relaxed:
        assert relaxed.read() == OLD
        writer.write(handle, 0, NEW)
        relaxed.truncate(5)
        relaxed.seek(0)
        assert relaxed.read() == NEW[:5]


def test_zero_reads_the_latest_whatever_the_share_says(home: Home) -> None:
    writer, reader, handle = nodes(home, relaxation=LONG)
    with raw(reader, 0) as strict, raw(reader, None) as relaxed:
        assert whole(relaxed) == OLD
        writer.write(handle, 0, NEW)
        assert whole(relaxed) == OLD
        assert whole(strict) == NEW + OLD[len(NEW) :]


def test_nothing_is_older_than_was_asked_for(home: Home) -> None:
    writer, reader, handle = nodes(home)
    writer.write(handle, 0, b"00000000")
    history: list[Operation] = []
    until = time.monotonic() + SECONDS

    def write() -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            began = time.monotonic()
            writer.write(handle, 0, f"{turn:08}".encode())
            history.append(Operation(0, "f", True, f"{turn:08}", began, time.monotonic()))
            time.sleep(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    with raw(reader, BOUND) as relaxed:
        while time.monotonic() < until:
            began = time.monotonic()
            relaxed.seek(0)
            value = (relaxed.read(8) or b"").decode()
            if value != "00000000":
                history.append(Operation(1, "f", False, value, began, time.monotonic()))
            time.sleep(0.01)
    thread.join()
    assert len({one.value for one in history if not one.writes}) > 1, "it never got newer"
    assert not check_staleness(history, BOUND)
    assert check_staleness(history, BOUND / 20), "nothing was read that was old"


def test_what_is_no_relaxation_is_refused(home: Home) -> None:
    _, reader, _ = nodes(home)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="relaxation"):
            open_file(reader, "f", relaxation=wrong)


def test_a_tree_without_relaxation_says_so(home: Home) -> None:
    with pytest.raises(io.UnsupportedOperation):
        open_file(object(), "f", relaxation=1.0)  # type: ignore[arg-type]


@requires("fuse")
def test_on_a_mount_an_attribute_says_it_for_a_file(home: Home) -> None:
    """As `setfattr -n user.satchel.relaxation -v 60 f` does."""
    writer, reader, handle = nodes(home)
    place = home.mount(reader)
    assert (place / "f").read_bytes() == OLD
    os.setxattr(place / "f", "user.satchel.relaxation", b"60")
    assert (place / "f").read_bytes() == OLD
    writer.write(handle, 0, NEW)
    assert (place / "f").read_bytes() == OLD
    os.removexattr(place / "f", "user.satchel.relaxation")
    assert (place / "f").read_bytes() == NEW + OLD[len(NEW) :]


@requires("fuse")
def test_other_attributes_are_refused(home: Home) -> None:
    _, reader, _ = nodes(home)
    place = home.mount(reader)
    for name, value, number in (
        ("user.colour", b"red", errno.ENOTSUP),
        ("user.satchel.relaxation", b"soon", errno.EINVAL),
        ("user.satchel.relaxation", b"-1", errno.EINVAL),
    ):
        with pytest.raises(OSError, match=r".") as caught:
            os.setxattr(place / "f", name, value)
        assert caught.value.errno == number
    with pytest.raises(OSError, match=r".") as caught:
        os.getxattr(place / "f", "user.satchel.relaxation")
    assert caught.value.errno == errno.ENOTSUP
