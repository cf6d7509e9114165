# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Long answers come to a program in pieces, and go on when the replica that gives them ends."""

import hashlib
from collections.abc import Iterator

import httpx2

from tests.client.world import World, operations, post
from tests.needs import requires
from tests.scripted import long_body
from tests.waiting import eventually

pytestmark = requires("sshd", "ssh")

MEBIBYTES = 24
"""More than all windows and buffers between a guest and its program."""


def digest(pieces: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def expected(mebibytes: int = MEBIBYTES) -> str:
    return hashlib.sha256(long_body(mebibytes)).hexdigest()


def asked(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=60, trust_env=False)


def test_an_answer_in_pieces_has_all_bytes_and_every_replica_agrees(carried: World) -> None:
    runner = carried.runner(response_seconds=60.0)
    runner.move("a")
    assert post(carried.proxy(runner)).status_code == 200
    with asked(carried.proxy(runner)) as client:
        with client.stream("GET", f"/long/{MEBIBYTES}") as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["transfer-encoding"] == "chunked"
            assert digest(answer.iter_bytes()) == expected()
        assert client.get("/").status_code == 200
    assert eventually(lambda: operations(runner).tally.later_responses == 3)
    assert operations(runner).tally.diverged == 0


def test_another_replica_goes_on_from_the_byte_where_the_first_one_died(carried: World) -> None:
    runner = carried.runner(response_seconds=60.0)
    runner.move("a")
    with (
        asked(carried.proxy(runner)) as client,
        client.stream("GET", f"/long/{MEBIBYTES}") as answer,
    ):
        pieces = answer.iter_bytes(1 << 16)
        first = next(pieces)
        leader = answer.headers["x-satchel-leader"]
        if leader == "a":
            carried.spots["a"].crash()
        else:
            carried.home.cut()
        found = hashlib.sha256(first)
        for piece in pieces:
            found.update(piece)
        assert found.hexdigest() == expected()


def test_a_program_that_goes_away_holds_nobody_up(carried: World) -> None:
    runner = carried.runner(response_seconds=60.0)
    runner.move("a")
    url = carried.proxy(runner)
    with asked(url) as client, client.stream("GET", f"/long/{MEBIBYTES}") as answer:
        next(answer.iter_raw())
    assert post(url).status_code == 200
    assert eventually(lambda: operations(runner).tally.later_responses == 2)
    assert operations(runner).tally.diverged == 0
