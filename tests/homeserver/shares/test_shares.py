# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of a share over real sockets; what they see of it is tests/shares/home/test_shares.py."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from homeserver.shares import Shares
from satchel.errors import ConflictError, NotFoundError
from shares.home import ShareRecord, Suspect
from shares.node import LeaseGrant, open_file
from shares.protocol import BLOCK
from tests.homeserver.shares.conftest import LEASE, Home
from tests.shares.home.test_shares import READ_WRITE, make
from tests.waiting import eventually

UID, GID = os.getuid(), os.getgid()


def test_a_heartbeat_over_a_socket_is_answered_with_the_lease(home: Home) -> None:
    """It was refused: the function that hears of the answer was taken for an argument that is sent,
    and so no real node ever stopped by itself."""
    home.add()
    heard: list[LeaseGrant | OSError | None] = []
    home.join("one").node.hub.beat(heard.append, 0.0)
    assert eventually(lambda: heard == [LeaseGrant(LEASE, [], [])])


def test_connections_that_break_change_nothing(home: Home) -> None:
    home.add()
    members = [home.join(str(n)) for n in range(2)]
    nodes = [member.node for member in members]
    file, first = make(nodes[0], content=bytes(8))
    handles = [first, nodes[1].open(file, READ_WRITE).number]
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.05):
            for member in members:
                member.membership._caller.duplex.cut()  # type: ignore[attr-defined]

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        for turn in range(60):
            nodes[turn % 2].write(handles[turn % 2], 0, turn.to_bytes(8, "little"))
            got = nodes[1 - turn % 2].read(handles[1 - turn % 2], 0, 8)
            assert int.from_bytes(got, "little") == turn
    finally:
        over.set()
        cutting.join()
    assert not any(member.over for member in members)


def test_a_large_native_file_is_closed_without_drowning_home(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was put before the connection at once, and then home was given up."""
    monkeypatch.setattr("wire.conversation.duplex.DROWNED_LIMIT", 40 << 20)
    home.add(log="off")
    one = home.join("one")
    _, handle = make(one.node)
    for megabyte in range(64):
        one.node.write(handle, megabyte << 20, bytes([megabyte + 1]) * (1 << 20))
    one.node.release(handle, 0)
    assert not one.over
    content = (home.root / "file").read_bytes()
    assert content[:: 1 << 20] == bytes(range(1, 65))


def test_a_node_that_comes_back_after_its_lease_has_to_join_again(home: Home) -> None:
    home.add()
    one = home.join("one")
    make(one.node)
    caller = one.membership._caller
    path = caller._path  # type: ignore[attr-defined]
    one.cut_off()
    assert eventually(lambda: not home.share.sessions)
    caller._path = path  # type: ignore[attr-defined]
    assert eventually(lambda: one.over != [])
    again = home.join("one", one.membership.token)
    assert again.node.hub.node == one.node.hub.node
    make(again.node, b"another")


def test_joining_what_is_not_there_is_refused(home: Home) -> None:
    with pytest.raises(NotFoundError, match="no share photos"):
        home.join()


def test_a_share_in_a_share_is_refused(home: Home) -> None:
    home.add()
    (home.root / "sub").mkdir()
    with pytest.raises(ConflictError):
        home.shares.add(ShareRecord("sub", str(home.root / "sub")))


def test_a_log_record_of_ten_bytes_takes_less_than_400_on_the_wire(home: Home) -> None:
    """MEFS takes 1,376 (Section IV.B). Counted: request and reply, with their frames."""
    home.add(log="sync")
    one, two = home.join("one"), home.join("two").node
    file, first = make(one.node, content=bytes(BLOCK))
    two.read(two.open(file, os.O_RDONLY).number, 0, 1)
    one.node.write(first, 0, b"0123456789")
    duplex = one.membership._caller.duplex
    counted = [0, 0]
    send, frame = duplex._send, duplex._frame  # type: ignore[attr-defined]

    def sent(kind: int, number: int, payload: bytes) -> None:
        counted[0] += 17 + len(payload)
        send(kind, number, payload)

    def came(kind: int, number: int, taken: int, payload: bytes) -> None:
        counted[1] += 17 + len(payload)
        frame(kind, number, taken, payload)

    duplex._send, duplex._frame = sent, came  # type: ignore[attr-defined]
    (session,) = (each for each in home.share.sessions.values() if each.name == "one")
    before = session.traffic["in", "LogWrite"]
    for turn in range(50):
        one.node.write(first, 20 * turn, b"0123456789")
    logged = session.traffic["in", "LogWrite"] - before
    assert logged == 50
    per_write = sum(counted) / logged
    print(f"{counted[0] / logged:.0f} bytes to home, {counted[1] / logged:.0f} back")
    assert 0 < per_write < 400


class NetworkDetector:
    """A detector that somebody tells, say the network that nodes are in."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def over(self, node: Suspect, lease: float) -> str | None:
        return "the network says so" if node.name in self.dead else node.over(lease * 1000)


def test_home_takes_another_detector(home: Home, short_path: Path) -> None:
    home.shares.close()
    told = NetworkDetector()
    home.shares = Shares(home.shelf, short_path / "s", LEASE, told)
    home.shares.add(ShareRecord("photos", str(home.root)))
    lost, other = home.join("edge1"), home.join("edge2").node
    with open_file(lost.node, "f", "wb", buffering=0) as file:
        file.write(b"content")
        file.sync()  # type: ignore[attr-defined]
        lost.cut_off()
        assert not eventually(lambda: home.share.lost_since(0), 2.5 * LEASE), "it is only silent"
        told.dead.add("edge1")
        assert eventually(lambda: home.share.lost_since(0))
        (one,) = home.share.lost_since(0)
        assert (one.name, one.why) == ("edge1", "the network says so")
        with open_file(other, "f") as mine:
            assert mine.read() == "content"
