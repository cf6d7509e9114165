# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who reads what another node had alone, and has written to its end, waits for nobody."""

from __future__ import annotations

import threading

import pytest

from shares.node import ROOT, find, open_file
from tests.shares.home.homes import LocalHome, Member
from tests.waiting import eventually

LONG_LEASE = 30.0


@pytest.fixture(params=[0.0, 1.0], ids=["latest", "relaxed"])
def members(home: LocalHome, request: pytest.FixtureRequest) -> tuple[Member, Member]:
    home.lease = LONG_LEASE
    home.add(relaxation=request.param)
    return home.join("one"), home.join("two")


def write(home: LocalHome, member: Member, content: bytes) -> None:
    """Returns when home has heard that it is written."""
    with open_file(member.node, "f", "wb") as file:
        file.write(content)
    number = find(member.node, "f")
    session = home.share.sessions[member.node.hub.node]
    assert eventually(lambda: not home.share.promises.writes(session, number))


def test_what_is_written_is_read_while_its_writer_is_cut_off(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members
    two.node.entries(ROOT)  # so that no name there is made ahead of home
    write(home, one, b"first" * 10_000)
    with one.unreached():
        with open_file(two.node, "f", "rb") as file:
            assert file.read() == b"first" * 10_000
        with open_file(two.node, "f", "rb") as file:
            assert file.read() == b"first" * 10_000
        assert one.node.hub.node in home.share.sessions


def test_who_writes_it_waits_for_who_has_copies(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members
    write(home, one, b"first")
    reader = open_file(one.node, "f", "rb", 0)
    assert reader.read() == b"first"

    def overwrite() -> None:
        with open_file(two.node, "f", "r+b") as file:
            file.write(b"later")

    writer = threading.Thread(target=overwrite)
    with one.unreached():
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        reader.seek(0)
        assert reader.read() == b"first"
    writer.join(LONG_LEASE)
    assert not writer.is_alive()
    reader.close()
    with open_file(one.node, "f", "rb", relaxation=0.0) as file:
        assert file.read() == b"later"


def test_its_writer_asks_before_it_writes_again(
    home: LocalHome, members: tuple[Member, Member]
) -> None:
    one, two = members
    for turn in range(2):
        write(home, one, b"%d" % turn)
        with open_file(two.node, "f", "rb", relaxation=0.0) as file:
            assert file.read() == b"%d" % turn
        write(home, two, b"%d by two" % turn)
        with open_file(one.node, "f", "rb", relaxation=0.0) as file:
            assert file.read() == b"%d by two" % turn
