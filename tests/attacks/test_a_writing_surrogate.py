# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate is a stranger: what it reaches by a grant is what the grant says. The attacker here
speaks the protocol of nodes by itself."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guestshares.counts import CallName
from guestshares.kernel import error_reply
from guestshares.messages import (
    CallResult,
    ClaimLead,
    CompletedCalls,
    decode_first,
    encode,
    encode_first,
)
from homeserver.edge import ShareGrant
from satchel.errors import NotFoundError, SatchelError
from satchel.paths import edge_sockets
from shares.home import ShareRecord
from shares.node import DirEntry, JoinReply, JoinRequest, codec
from shares.node.hub.membership import VERSION
from shares.protocol import (
    ATTRIBUTES,
    Acquire,
    EngageReply,
    Fetch,
    FileId,
    Flush,
    LogWrite,
    Push,
    Release,
)
from tests.conftest import requires
from tests.guestshares.edges import Edges, edge_of, edges_of, leads
from tests.guestshares.home import Home
from tests.guestshares.test_door import Stranger
from tests.waiting import eventually
from wire import Caller, Reply

pytestmark = requires("fuse")


class Attacker:
    """A program that says to home what it likes, as a node."""

    def __init__(
        self,
        path: Path,
        *,
        share: str = "papers",
        name: str = "files",
        token: str = "",
        received: int = 0,
    ) -> None:
        self.join = JoinRequest(VERSION, share, name, token, "c-attack", received)
        self.refused: OSError | None = None
        self.joined: JoinReply | None = None
        self.over = ""
        self.nodes: list[int] = []
        self.told = codec.encode_result(None)  # the answer to what it is told
        self.answers: list[bytes] = []
        self.asked: list[bytes] = []
        self.caller = Caller(path, self)

    def greet(self, received: int) -> bytes:
        return self.join.pack()

    def welcomed(self, hello: bytes) -> int:
        try:
            self.joined = JoinReply.unpack(hello)
            self.nodes.append(self.joined.node)
        except OSError as error:
            self.refused = error
        return self.joined.received if self.joined else 0

    def arrived(self, payload: bytes, reply: Reply | None) -> None:
        self.asked.append(payload)
        if reply and codec.is_call(payload):
            reply(self.told)
        elif reply and self.answers:
            reply(self.answers.pop(0))

    def ended(self, why: str) -> None:
        self.over = why

    def is_in(self) -> bool:
        assert eventually(lambda: self.joined is not None or self.refused is not None)
        return self.joined is not None

    def calls(self, name: str, *arguments: Any) -> bytes:
        """What home returns. Raises the OSError that it refuses with."""
        payload = self.caller.duplex.ask(codec.encode_call(name, list(arguments)), patience=10.0)
        codec.raise_refusal(payload)
        return payload

    def opens(self, name: bytes) -> FileId:
        """A file in the root, to read."""
        found: DirEntry = codec.decode_reply(self.calls("lookup", 1, name), DirEntry)
        self.calls("open", found.attributes.file, False, False)
        return found.attributes.file

    def says(self, message: Any) -> None:
        self.caller.duplex.post(codec.encode(message), lambda reply: None)

    def is_lost(self, home: Home) -> bool:
        """Whether home has given up the node that joined first."""
        assert self.joined is not None
        first = self.nodes[0]
        return eventually(lambda: first not in home.shares.get("papers").sessions)

    def close(self) -> None:
        self.caller.close()


@pytest.fixture
def edges(home: Home) -> Iterator[Edges]:
    (home.papers / "a").write_text("secret")
    with edges_of(home) as made:
        yield made


@pytest.fixture
def attackers() -> Iterator[list[Attacker]]:
    made: list[Attacker] = []
    yield made
    for attacker in made:
        attacker.close()


def node_socket(home: Home, surrogate: str = "near") -> Path:
    return home.folder / edge_sockets("files", surrogate)[0]


def test_without_a_grant_there_is_no_socket(home: Home, edges: Edges) -> None:
    edges.grant("near")
    assert not node_socket(home, "far").exists()
    assert edges.doors.about("files", "far") == {}
    edges.doors.revoke("papers", "files", "near")
    assert not node_socket(home).exists()
    assert edges.doors.about("files", "near") == {}


def test_a_grant_is_of_one_share_and_one_name(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    """Files that are private to another service's name stay so."""
    (home.folder / "photos").mkdir()
    home.shares.add(ShareRecord("photos", str(home.folder / "photos")))
    edges.grant("near")
    path = node_socket(home)
    for share, name in (
        ("photos", "files"),
        ("nothing", "files"),
        ("../papers", "files"),
        ("papers", "mobile"),
        ("papers", "other"),
        ("papers", "files2"),
    ):
        attacker = Attacker(path, share=share, name=name)
        attackers.append(attacker)
        assert not attacker.is_in(), (share, name)
    honest = Attacker(path)
    attackers.append(honest)
    assert honest.is_in()


def test_the_token_of_another_node_is_worth_nothing(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    edges.grant("near")
    edges.grant("far")
    with home.other() as node:
        assert node is not None
        (other,) = home.shares.get("papers").sessions.values()
        thief = Attacker(node_socket(home), token=other.token)
        attackers.append(thief)
        assert thief.is_in()
        assert thief.joined is not None
        assert thief.joined.node != other.node
        assert thief.joined.token != other.token
        again = Attacker(node_socket(home, "far"), token=thief.joined.token)
        attackers.append(again)
        assert again.is_in()
        assert again.joined is not None
        assert again.joined.node != thief.joined.node


def test_a_grant_that_was_taken_back_ends_what_stands_and_admits_nobody(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    edges.grant("near")
    before = Attacker(node_socket(home))
    attackers.append(before)
    assert before.is_in()
    assert before.joined is not None
    edges.doors.revoke("papers", "files", "near")
    assert eventually(lambda: not home.shares.get("papers").sessions)
    edges.grant("near")
    replayed = Attacker(node_socket(home), token=before.joined.token)
    attackers.append(replayed)
    assert replayed.is_in()
    assert replayed.joined is not None
    assert replayed.joined.node != before.joined.node


def test_a_grant_that_was_taken_back_behind_homes_back_counts_at_once(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    """Each session is checked against what is on disk."""
    edges.grant("near")
    edges.shelf.remove("papers", "files", "near")
    late = Attacker(node_socket(home))
    attackers.append(late)
    assert not late.is_in()


@pytest.mark.parametrize(
    "call",
    [
        ("make_folder", 1, b"x", 0o755, 0, 0),
        ("unlink", 1, b"a"),
        ("open", 0, True, False),
        ("open", 0, False, True),
        ("create", 1, b"x", 0o644, 0, 0, False),
        ("rename", 1, b"a", 1, b"b", 0),
        ("change", 0, {}),
        ("set_lock", 0, 1, 0, 1, 1, 1, False),
        ("mark", 0, "private"),
        ("sync", 0),
        ("what there is not",),
    ],
)
def test_a_grant_to_read_changes_nothing(
    home: Home, edges: Edges, attackers: list[Attacker], call: tuple[Any, ...]
) -> None:
    edges.grant("near", writable=False)
    attacker = Attacker(node_socket(home))
    attackers.append(attacker)
    assert attacker.is_in()
    with pytest.raises(OSError, match="grant is to read"):
        attacker.calls(*call)
    assert home.names() == ["a"]
    assert (home.papers / "a").read_text() == "secret"


@pytest.mark.parametrize(
    "message",
    [
        Acquire(FileId(2), 0, 1, (0,), range(1)),
        Push(FileId(2), 0, 1, (0,), bytes(4096)),
        Flush(FileId(2), 0, 1, (0,), bytes(4096)),
        Release(FileId(2), 0, 1, (0,), bytes(4096)),
        LogWrite(FileId(2), 0, 1, 0, b"mine"),
        Flush(FileId(2), ATTRIBUTES, 1, (ATTRIBUTES,), bytes(4096)),
    ],
)
def test_a_grant_to_read_brings_no_content(
    home: Home, edges: Edges, attackers: list[Attacker], message: Any
) -> None:
    edges.grant("near", writable=False)
    attacker = Attacker(node_socket(home))
    attackers.append(attacker)
    assert attacker.is_in()
    attacker.says(message)
    assert attacker.is_lost(home)
    assert (home.papers / "a").read_text() == "secret"


def test_who_may_read_does_not_say_that_it_has_written(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    """A file that it alone had open is another's now: it answers that it owns what it never
    wrote."""
    edges.grant("near", writable=False)
    attacker = Attacker(node_socket(home))
    attackers.append(attacker)
    assert attacker.is_in()
    file = attacker.opens(b"a")
    attacker.answers = [codec.encode(EngageReply(file, 0, 0, ((0, 1),), ()))]
    home.writes("a", "public")
    assert eventually(lambda: (home.papers / "a").read_text() == "public")
    assert attacker.is_lost(home)


def test_a_node_that_may_read_does(home: Home, edges: Edges, attackers: list[Attacker]) -> None:
    edges.grant("near", writable=False)
    attacker = Attacker(node_socket(home))
    attackers.append(attacker)
    assert attacker.is_in()
    file = attacker.opens(b"a")
    reply = attacker.caller.duplex.ask(codec.encode(Fetch(file, 0, 1, (0,), False)), patience=10.0)
    assert b"secret" in codec.decode(reply).data  # type: ignore[attr-defined]


def calls_socket(home: Home) -> Path:
    return home.folder / edge_sockets("files", "near")[1]


def test_nobody_leads_without_a_grant_to_write(home: Home, edges: Edges) -> None:
    """Neither by the socket that every surrogate of the service has."""
    edges.grant("near", writable=False)
    for path in (home.socket, calls_socket(home)):
        stranger = Stranger(path)
        assert stranger.caller.duplex.ask(encode(ClaimLead(20)), patience=10.0) == bytes(8)
        told = CompletedCalls((CallResult(CallName(20, 0, bytes(32)), error_reply(0, 0)),))
        assert stranger.caller.duplex.ask(encode(told), patience=10.0) == b"\0"
        stranger.caller.close()


def test_who_leads_tells_nothing_of_what_is_over(home: Home, edges: Edges) -> None:
    """What home's replica has done stays as it was."""
    edges.grant("near")
    guest = home.guest()
    home.logs(12)
    guest.lookup("a", 12)
    guest.calls.finished(12)
    assert eventually(lambda: home.keeper._record.finished == 12)
    stranger = Stranger(calls_socket(home))
    ask = stranger.caller.duplex.ask
    assert ask(encode(ClaimLead(12)), patience=10.0) == encode_first(13)
    assert ask(encode(ClaimLead(14)), patience=10.0) == encode_first(0)  # it leads
    name = CallName(12, 0, bytes(32))
    ask(encode(CompletedCalls((CallResult(name, error_reply(0, 0)),))), patience=10.0)
    assert home.keeper._record.find(name) is None
    stranger.caller.close()


def test_two_do_not_lead(home: Home, edges: Edges) -> None:
    edges.grant("near")
    edges.grant("far")
    near = edges.guest()
    first = leads(near, home, 20)
    stranger = Stranger(home.folder / edge_sockets("files", "far")[1])
    granted: list[bytes] = []
    stranger.caller.duplex.post(encode(ClaimLead(first + 1)), granted.append)
    told = CompletedCalls((CallResult(CallName(first + 1, 0, bytes(32)), error_reply(0, 0)),))
    assert stranger.caller.duplex.ask(encode(told), patience=10.0) == b"\0"
    assert not granted
    assert edge_of(near).state.value == "leads"
    edges.leave(near)
    assert eventually(lambda: bool(granted)), "the other one has left"
    assert decode_first(granted[0])[0] >= first + 1
    stranger.caller.close()


def test_words_that_cannot_be_meant_are_refused(home: Home, edges: Edges) -> None:
    edges.grant("near")
    for words in (
        b"",
        struct.pack("<IIQ", 2, 0, 0),
        struct.pack("<IIQ", 2, 0, 1 << 63),
        struct.pack("<IIQ", 3, 1, 0),
        struct.pack("<IIQ", 4, 0, 0) + b"short",
        struct.pack("<IIQ", 5, 0, 0) + b"short",
        struct.pack("<IIQ", 6, 0, 1),
        struct.pack("<IIQ", 9, 0, 0),
    ):
        stranger = Stranger(calls_socket(home))
        with pytest.raises(SatchelError):
            stranger.caller.duplex.ask(words, patience=10.0)
        stranger.caller.close()
    near = edges.guest()
    leads(near, home, 20)


def test_a_grant_needs_the_services_own_share(home: Home, edges: Edges) -> None:

    with pytest.raises(NotFoundError):
        edges.doors.grant(ShareGrant("nothing", "files", "near", writable=True))


def test_an_answer_that_is_none_holds_nobody_up(
    home: Home, edges: Edges, attackers: list[Attacker]
) -> None:
    """It says that it owns blocks where it is told of a change: home waits for its answer to
    that."""
    edges.grant("near", writable=False)
    attacker = Attacker(node_socket(home))
    attackers.append(attacker)
    assert attacker.is_in()
    file = attacker.opens(b"a")
    attacker.told = codec.encode(EngageReply(file, 0, 0, ((0, 1),), ()))
    home.writes("a", "public")
    assert eventually(lambda: (home.papers / "a").read_text() == "public")
