# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's node does what its guest asks, and home's replica finds it done: once, whatever
becomes of the surrogate."""

import os
import random
import threading
from collections.abc import Iterator

import pytest

from guestshares import Answered, Call
from guestshares.kernel import Opcode
from tests.conftest import requires
from tests.guestshares.edges import Edges, edge_of, edges_of, leads, write_at
from tests.guestshares.home import Home
from tests.guestshares.kernel import Kernel
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


def test_a_grant_that_an_unpaired_clients_door_used_is_revoked(home: Home, edges: Edges) -> None:
    """The door is this process; another one has used nothing."""
    edges.grant("far")
    (home.papers / "a").write_text("old")
    leads(edges.guest(), home, 20)
    assert edges.doors.revoke_used([os.getpid() + 1]) == []
    (revoked,) = edges.doors.revoke_used([os.getpid()])
    assert (revoked.service, revoked.surrogate) == ("files", "near")
    assert [grant.surrogate for grant in edges.doors.grants()] == ["far"]
    assert eventually(lambda: not home.shares.get("papers").sessions)


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


def test_a_machine_that_was_handed_over_finds_done_what_the_old_one_does_meanwhile(
    home: Home, edges: Edges
) -> None:
    """Both execute the same while the old one still leads; the next one leads when it yields, and
    the open file goes along."""
    edges.grant("far")
    (home.papers / "n").write_text("0000")
    old, new = edges.guest(), edges.guest("far", 7_000_002)
    first = leads(old, home, 20)
    home.logs(first + 40)
    file = old.lookup("n", first)
    handle = old.open(file, first, os.O_RDWR)
    for turn in range(1, 5):
        value = int(old.read(file, handle, first + turn))
        write_at(old, file, handle, f"{value + 1:04}".encode(), first + turn)
    assert new.lookup("n", first) == file
    assert new.open(file, first, os.O_RDWR) == handle
    for turn in range(1, 5):
        value = int(new.read(file, handle, first + turn))
        write_at(new, file, handle, f"{value + 1:04}".encode(), first + turn)
    assert edge_of(new).state.value == "follows"
    edges.leave(old)
    assert eventually(lambda: edge_of(new).state.value == "leads")
    for turn in range(5, 30):
        value = int(new.read(file, handle, first + turn))
        write_at(new, file, handle, f"{value + 1:04}".encode(), first + turn)
    guest = home.guest()
    assert guest.lookup("n", first) == file
    assert guest.open(file, first, os.O_RDWR) == handle
    for turn in range(1, 30):
        value = int(guest.read(file, handle, first + turn))
        write_at(guest, file, handle, f"{value + 1:04}".encode(), first + turn)
    assert eventually(lambda: (home.papers / "n").read_text() == "0029")


def test_what_a_replica_waits_for_is_also_what_home_does_meanwhile(
    home: Home, edges: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The surrogate that leads has asked home before it has heard that it does."""
    monkeypatch.setattr("guestshares.lead.PATIENCE_SECONDS", 600.0)
    (home.papers / "a").write_text("text")
    near, guest = edges.guest(), home.guest()
    first = leads(near, home, 20)
    home.logs(first)
    asked = guest.begin(Opcode.LOOKUP, b"a\0", 1, first)
    assert eventually(lambda: home.keeper._lead is not None and home.keeper._lead.waiting)
    edge_of(near)._first = first + 1
    near.lookup("a", first)
    assert guest.wait(asked)[0] == 0


def test_who_is_recalled_gives_home_all_and_home_goes_on(
    home: Home, edges: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home's replica asks what the surrogate's never does."""
    monkeypatch.setattr("guestshares.lead.PATIENCE_SECONDS", 0.3)
    near, guest = edges.guest(), home.guest()
    first = leads(near, home, 20)
    home.logs(first + 5)
    put(near, "a", b"near", first)
    put(guest, "a", b"near", first)
    assert get(guest, "a", first + 1) == b"near"
    assert eventually(lambda: edge_of(near).state.value == "follows")
    assert get(near, "a", first + 1) == b"near"


def test_a_surrogate_that_is_silent_holds_home_up_for_a_while_only(
    home: Home, edges: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its node had open is home's again."""
    monkeypatch.setattr("guestshares.lead.PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("guestshares.lead.RECALL_SECONDS", 0.3)
    near, guest = edges.guest(), home.guest()
    first = leads(near, home, 20)
    home.logs(first + 5)
    put(near, "a", b"1234", first)
    edge_of(near)._distant.recalled = lambda yielded: None
    put(guest, "a", b"1234", first)
    put(guest, "a", b"5678", first + 1)
    assert get(guest, "a", first + 2) == b"5678"
    assert home.nodes() <= 2


def test_a_home_that_begins_again_has_all_that_it_was_told(home: Home, edges: Edges) -> None:
    near = edges.guest()
    first = leads(near, home, 20)
    home.logs(first + 3)
    put(near, "a", b"once", first)
    put(near, "a", b"more", first + 1)
    assert edge_of(near).hand_over()
    edges.close()
    home.restart()
    edges.begin()
    guest = home.guest()
    put(guest, "a", b"once", first)
    put(guest, "a", b"more", first + 1)
    assert get(guest, "a", first + 2) == b"more"


def test_reads_outside_of_operations_are_served_there_by_a_grant_to_read(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.papers / "a").write_text("text")
    with edges_of(home) as edges:
        edges.grant(writable=False)
        near = edges.guest(writable=False)
        assert eventually(lambda: edge_of(near)._node is not None)
        asked: list[int] = []
        distant = edge_of(near)._distant
        ask = distant.ask

        def noted(call: Call, answered: Answered) -> None:
            asked.append(call.request.opcode)
            ask(call, answered)

        monkeypatch.setattr(distant, "ask", noted)
        assert get(near, "a", 0) == b"text"
        home.writes("a", "next")
        assert get(near, "a", 0) == b"next"
        assert set(asked) == {Opcode.RELEASE}  # home's replica's handles are its own
        with pytest.raises(OSError, match="Read-only"):
            near.create("b", 0)
        home.logs(30)
        parted = threading.Thread(target=put, args=(near, "b", b"by home", 30))
        parted.start()
        put(home.guest(), "b", b"by home", 30)  # what a stranger changes home's replica changes
        parted.join(20)
        assert eventually(lambda: (home.papers / "b").read_bytes() == b"by home")


@pytest.mark.parametrize("seed", range(2, 5))
def test_a_random_program_and_a_surrogate_that_dies(home: Home, edges: Edges, seed: int) -> None:
    random_program(home, edges, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 160))
def test_random_programs_and_a_surrogate_that_dies(home: Home, edges: Edges, seed: int) -> None:
    random_program(home, edges, seed)


def random_program(home: Home, edges: Edges, seed: int) -> None:
    """A program of reads and writes that follow from each other; the surrogate dies after some
    call. Home's replica executes it again. Every file is as a program alone would have left it."""
    chance = random.Random(seed)
    steps = [(chance.choice("abc"), chance.randrange(3)) for _ in range(12)]
    dies = chance.randrange(1, len(steps))
    model: dict[str, bytes] = {}

    def step(kernel: Kernel, files: dict[str, bytes] | None, number: int, operation: int) -> bytes:
        name, kind = steps[number]
        if files is not None:
            before = files.get(name, b"")
        else:
            try:
                before = get(kernel, name, operation)
            except FileNotFoundError:
                before = b""
        data = before + b"%d" % number if kind < 2 else b"%d" % number + before[:2]
        if files is not None:
            files[name] = data
        else:
            put(kernel, name, data, operation)
        return data

    near = edges.guest()
    first = leads(near, home, 20)
    home.logs(first + len(steps))
    expected = [step(near, model, number, 0) for number in range(len(steps))]
    for number in range(dies):
        assert step(near, None, number, first + number) == expected[number]
    if chance.random() < 0.5:
        assert eventually((home.papers / steps[0][0]).exists)
    edge_of(near)._lost("it dies")
    guest = home.guest()
    for number in range(len(steps)):
        assert step(guest, None, number, first + number) == expected[number]
    home.leave()
    assert {path.name: path.read_bytes() for path in home.papers.iterdir()} == model
