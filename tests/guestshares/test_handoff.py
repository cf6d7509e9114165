# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest's file session goes from one surrogate to the next: what is open, and what home has not
yet. What a stranger hands over counts for nothing more than what a guest may write."""

import os
import struct
from collections.abc import Iterator

import pytest

from guestshares.counts import CallName
from guestshares.digests import call_digest
from guestshares.handoff import OpenedFiles, files_of
from guestshares.kernel import OUT_HEADER, KernelRequest, Opcode, ShareMessageInvalid, error_reply
from guestshares.messages import (
    NO,
    YES,
    ClaimLead,
    SentHandoff,
    UnsentCall,
    decode,
    encode,
    encode_first,
)
from guestshares.requests import asked
from satchel.errors import IntegrityError
from satchel.paths import edge_sockets
from shares.session import OpenFileRecord, SessionHeader, SessionOperation, pack_all
from tests.conftest import requires
from tests.guestshares.edges import Edges, edge_of, edges_of, leads, write_at
from tests.guestshares.home import Home
from tests.guestshares.test_door import Stranger
from tests.guestshares.test_edge import get, put
from tests.waiting import eventually

pytestmark = requires("fuse")

ROOT = 1


@pytest.fixture
def edges(home: Home) -> Iterator[Edges]:
    with edges_of(home) as made:
        made.grant("near")
        made.grant("far")
        yield made


def unsent(request: KernelRequest, operation: int, count: int = 0) -> UnsentCall:
    name = CallName(operation, count, call_digest(request))
    return UnsentCall(name, error_reply(0, 0), request)


def write_request(file: int, data: bytes) -> KernelRequest:
    about = (file << 8 | os.O_WRONLY, 0, len(data), 2, 8, os.O_WRONLY, 0)
    return asked(Opcode.WRITE, file, struct.pack("<QQIIQII", *about) + data)


def test_what_home_had_not_goes_along_and_the_next_goes_on(home: Home, edges: Edges) -> None:
    (home.papers / "a").write_text("old")
    old, new = edges.guest(), edges.guest("far", 7_000_002)
    first = leads(old, home, 20)
    home.logs(first + 40)
    node = edge_of(old)._node
    assert node is not None
    file = old.lookup("a", first)
    handle = old.open(file, first, os.O_RDWR)
    write_at(old, file, handle, b"mine", first)
    assert node.settler.drain(10.0)
    node.gate._told += 1  # home has not confirmed that: nothing that is written passes
    write_at(old, file, handle, b"new!", first)
    old.calls.finished(first)
    assert new.lookup("a", first) == file
    new.calls.finished(first)
    keeper = home.keeper
    assert eventually(lambda: bool(keeper._wishes))
    assert edge_of(old).hand_over()
    assert eventually(lambda: edge_of(new).state.value == "leads")
    assert edge_of(old).state.value == "follows"
    assert (home.papers / "a").read_bytes() == b"new!"
    assert get(new, "a", first + 1) == b"new!"
    put(new, "a", b"more", first + 2)
    assert eventually(lambda: (home.papers / "a").read_bytes() == b"more")


def test_the_next_has_open_what_was_open(home: Home, edges: Edges) -> None:
    (home.papers / "deep").mkdir()
    (home.papers / "deep/a").write_text("text")
    old, new = edges.guest(), edges.guest("far", 7_000_002)
    first = leads(old, home, 20)
    home.logs(first + 40)
    folder = old.lookup("deep", first)
    file = struct.unpack_from("<Q", old._good(*old.ask(Opcode.LOOKUP, b"a\0", folder, first)))[0]
    old.open(file, first)
    old.calls.finished(first)
    new.lookup("deep", first)
    new.calls.finished(first)
    assert eventually(lambda: b"deep/a" in edge_of(new)._expected)
    assert edge_of(old).hand_over()
    assert eventually(lambda: edge_of(new).state.value == "leads")
    node = edge_of(new)._node
    assert node is not None
    assert eventually(lambda: file in node._rests)


def test_calls_of_a_handoff_are_done_once_and_in_the_next_place(home: Home, edges: Edges) -> None:
    """What comes amid it waits in the dirty queue, and is the next one's."""
    (home.papers / "n").write_text("0000")
    old, new = edges.guest(), edges.guest("far", 7_000_002)
    first = leads(old, home, 20)
    home.logs(first + 40)
    file = old.lookup("n", first)
    handle = old.open(file, first, os.O_RDWR)
    old.calls.finished(first)
    assert new.lookup("n", first) == file
    new.open(file, first, os.O_RDWR)
    new.calls.finished(first)
    assert eventually(lambda: bool(home.keeper._wishes))
    handoff = edge_of(old).prepare_handoff()
    assert handoff is not None
    body = struct.pack("<QQIIQII", handle, 0, 4, 2, old.owner, 0, 0)
    waiting = old.begin(Opcode.READ, body, file, first + 1)
    assert old.waits(waiting)
    assert edge_of(old).send_handoff(handoff)
    assert eventually(lambda: edge_of(new).state.value == "leads")
    assert new.read(file, handle, first + 1) == b"0000"
    assert old.wait(waiting)[1] == b"0000"


def test_who_does_not_lead_hands_nothing_over(home: Home, edges: Edges) -> None:
    (home.papers / "a").write_text("secret")
    near = edges.guest()
    first = leads(near, home, 20)
    file = near.lookup("a", first)
    stranger = Stranger(home.folder / edge_sockets("files", "far")[1])
    stranger.caller.duplex.post(encode(unsent(write_request(file, b"attack"), first + 1)))
    assert stranger.caller.duplex.ask(encode(SentHandoff(b"")), patience=10.0) == NO
    stranger.caller.close()
    assert (home.papers / "a").read_text() == "secret"
    assert edge_of(near).state.value == "leads"


def test_who_leads_hands_over_writes_and_no_names(home: Home, edges: Edges) -> None:
    """Nor anything of an operation that home's replica is over with."""
    (home.papers / "a").write_text("secret")
    guest = home.guest()
    home.logs(12)
    file = guest.lookup("a", 12)
    guest.calls.finished(12)
    assert eventually(lambda: home.keeper._record.finished == 12)
    stranger = Stranger(home.folder / edge_sockets("files", "near")[1])
    duplex = stranger.caller.duplex
    assert duplex.ask(encode(ClaimLead(13)), patience=10.0) == encode_first(13)
    home.logs(20)
    duplex.post(encode(unsent(write_request(file, b"too late"), 12)))
    duplex.post(encode(unsent(asked(Opcode.UNLINK, ROOT, b"a\0"), 13)))
    duplex.post(encode(unsent(write_request(file, b"public"), 13)))
    assert duplex.ask(encode(SentHandoff(b"no session")), patience=10.0) == YES
    assert (home.papers / "a").read_text() == "public"
    assert home.keeper._lead is None
    stranger.caller.close()


def test_what_is_unsent_is_what_it_says() -> None:
    request = write_request(5, b"data")
    said = unsent(request, 13)
    assert decode(encode(said)) == said
    other = UnsentCall(CallName(13, 0, bytes(32)), said.reply, request)
    with pytest.raises(ShareMessageInvalid):
        decode(encode(other))
    refused = UnsentCall(said.name, said.reply, asked(Opcode.WRITE, 5, b"short"))
    with pytest.raises(ShareMessageInvalid):
        decode(encode(refused))
    with pytest.raises(ShareMessageInvalid):
        decode(encode(said)[:40])


def test_a_session_is_files_that_are_open() -> None:
    opened = OpenedFiles()
    entry = OUT_HEADER.pack(OUT_HEADER.size + 8, 0, 0) + struct.pack("<Q", 7)
    opened.note(asked(Opcode.LOOKUP, ROOT, b"a\0"), entry)
    opened.note(asked(Opcode.OPEN, 7, struct.pack("<II", os.O_WRONLY | os.O_TRUNC, 0)), entry)
    opened.note(asked(Opcode.OPEN, 9, struct.pack("<II", 0, 0)), entry)  # nobody knows its name
    session = opened.session("guest")
    assert files_of(session) == [OpenFileRecord(3, 7, os.O_WRONLY, 0, b"a")]
    for wrong in (
        b"",
        session[:-1],
        pack_all([SessionHeader(1, b"x"), SessionOperation(3, 3, 1, b"")]),
    ):
        with pytest.raises(IntegrityError):
            files_of(wrong)
