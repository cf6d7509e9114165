# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's node does what its guest asks, and home's replica finds it done: once, whatever
becomes of the surrogate."""

import os
from collections.abc import Iterator

import pytest

from guestfiles.kernel import Opcode
from tests.conftest import requires
from tests.guestfiles.edges import Edges, edge_of, edges_of, leads, write_at
from tests.guestfiles.home import Home
from tests.guestfiles.kernel import Kernel
from tests.waiting import eventually

pytestmark = requires("fuse")


@pytest.fixture
def edges(home: Home) -> Iterator[Edges]:
    with edges_of(home) as made:
        made.grant()
        yield made


def put(kernel: Kernel, name: str, data: bytes, operation: int) -> None:
    """What `files` does for a PUT."""
    try:
        file = kernel.lookup(name, operation)
        handle = kernel.open(file, operation, os.O_WRONLY | os.O_TRUNC)
    except FileNotFoundError:
        handle = kernel.create(name, operation, os.O_WRONLY)
        file = kernel.lookup(name, operation)
    write_at(kernel, file, handle, data, operation)
    kernel.release(file, handle)


def get(kernel: Kernel, name: str, operation: int) -> bytes:
    file = kernel.lookup(name, operation)
    handle = kernel.open(file, operation)
    data = kernel.read(file, handle, operation)
    kernel.release(file, handle)
    return data


def test_what_a_surrogate_writes_is_homes_and_homes_replica_finds_it_done(
    home: Home, edges: Edges
) -> None:
    (home.papers / "a").write_text("old")
    near = edges.guest()
    first = leads(near, home, 20)
    home.logs(first + 3)
    put(near, "a", b"new!", first)
    assert get(near, "a", first + 1) == b"new!"
    assert eventually(lambda: (home.papers / "a").read_bytes() == b"new!")
    guest = home.guest()
    put(guest, "a", b"new!", first)
    assert get(guest, "a", first + 1) == b"new!"
    assert edge_of(near).state.value == "leads"


def test_home_waits_for_what_the_surrogate_does(home: Home, edges: Edges) -> None:
    (home.papers / "a").write_text("old")
    near, guest = edges.guest(), home.guest()
    first = leads(near, home, 20)
    home.logs(first)
    asked = guest.begin(Opcode.LOOKUP, b"a\0", 1, first)
    assert guest.waits(asked)
    near.lookup("a", first)
    assert guest.wait(asked)[0] == 0


def test_a_file_is_made_once(home: Home, edges: Edges) -> None:
    near = edges.guest()
    first = leads(near, home, 20)
    home.logs(first)
    put(near, "b", b"made", first)
    guest = home.guest()
    put(guest, "b", b"made", first)
    assert home.names() == ["b"]
    assert eventually(lambda: (home.papers / "b").read_bytes() == b"made")


def test_a_counter_is_counted_up_once_where_the_surrogate_dies(home: Home, edges: Edges) -> None:
    (home.papers / "n").write_text("0005")
    near = edges.guest()
    first = leads(near, home, 20)
    home.logs(first)
    value = int(get(near, "n", first))
    put(near, "n", f"{value + 1:04}".encode(), first)
    edge_of(near)._lost("it dies")
    guest = home.guest()
    value = int(get(guest, "n", first))
    put(guest, "n", f"{value + 1:04}".encode(), first)
    home.leave()
    assert (home.papers / "n").read_text() == "0006"
