# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What surrogates save (`satchel stats`), and the bytes of docs/formats/client-state.md."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.state.savings import (
    KEPT,
    DailySavings,
    HeadStart,
    Savings,
    SavingsInvalid,
    decode,
    encode,
    saved_since,
)
from tests.client.test_cli import Person
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually

REAL = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

ROW = DailySavings("2026-11-26", "cafe", operations=12, seconds=3.5, bytes=4_000_000)

GOLDEN = b"""{
 "version": 1,
 "saved": [
  {
   "day": "2026-11-26",
   "surrogate": "cafe",
   "operations": 12,
   "seconds": 3.5,
   "bytes": 4000000
  }
 ]
}
"""


def test_the_bytes_are_those_of_the_format() -> None:
    assert encode([ROW]) == GOLDEN
    assert decode(GOLDEN) == [ROW]


def test_the_newest_rows_are_kept() -> None:
    rows = [DailySavings("2026-11-26", f"s{number}") for number in range(KEPT + 3)]
    assert decode(encode(rows)) == rows[3:]


@pytest.mark.parametrize("at", range(0, len(GOLDEN), 3))
def test_a_changed_byte_is_noticed_or_harmless(at: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[at] ^= 0x55
    try:
        rows = decode(bytes(damaged))
    except SavingsInvalid:
        return
    assert all(row.operations >= 0 and row.seconds >= 0 and row.bytes >= 0 for row in rows)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_nothing_else_is_taken(value: object) -> None:
    with pytest.raises(SavingsInvalid):
        decode(json.dumps({"version": 1, "saved": [value]}).encode())


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    savings = Savings.of(tmp_path, "notes")
    savings.fetched("cafe", {"media": 5})
    (tmp_path / "savings" / "notes.json").write_bytes(GOLDEN[:-20])
    assert savings.rows() == []
    savings.fetched("cafe", {"media": 7})
    assert [row.bytes for row in savings.rows()] == [7]


def test_bytes_from_home_are_not_saved_and_absurd_ones_are_not_counted(tmp_path: Path) -> None:
    savings = Savings.of(tmp_path, "notes")
    savings.fetched("cafe", {"media": 5, "home": 11, "cache": 2})
    savings.fetched("cafe", {"media": 1 << 80})
    savings.fetched("cafe", {"home": 3})
    assert [row.bytes for row in savings.rows()] == [7]


def test_a_lead_is_what_home_was_later_by_and_has_a_most() -> None:
    now = [0.0]
    lead = HeadStart(10.0, clock=lambda: now[0])
    lead.first(1, "cafe")
    lead.first(2, "cafe")
    lead.first(3, "home")
    lead.first(4, "station")
    now[0] = 0.5
    for number in (1, 3, 1):
        lead.home(number)
    now[0] = 3600.0
    lead.home(2)
    assert lead.take() == {"cafe": (2, 10.5)}
    assert lead.take() == {}


def test_a_wrong_answer_saves_nothing() -> None:
    now = [0.0]
    lead = HeadStart(10.0, clock=lambda: now[0])
    lead.first(1, "liar")
    lead.first(2, "cafe")
    now[0] = 1.0
    lead.forget("liar")
    lead.home(1)
    lead.home(2)
    assert lead.take() == {"cafe": (1, 1.0)}


def test_days_and_services_are_added_up(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    folder = tmp_path / "savings"
    folder.mkdir()
    for service, seconds in (("notes", 1.0), ("mail", 2.0)):
        days = [(today - timedelta(days=ago)).isoformat() for ago in (7, 6, 0, -26_000)]
        rows = [DailySavings(day, "cafe", operations=1, seconds=seconds) for day in days]
        (folder / f"{service}.json").write_bytes(encode(rows))
    (every,) = saved_since(tmp_path, None, 7)
    assert (every.operations, every.seconds, every.day) == (4, 6.0, today.isoformat())
    (one,) = saved_since(tmp_path, "notes", 1)
    assert (one.operations, one.seconds) == (1, 1.0)


@REAL
def test_a_surrogate_that_answers_first_is_shown_with_what_it_saved(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    for _ in range(20):
        assert post(url).status_code == 200
    assert operations(runner).wait_stable(15.0)
    first = operations(runner).tally.first_responses["a"]
    runner.close()
    with closing(Person(carried)) as person:
        rows = person.sees("stats", "notes")
        assert person.sees("stats", "speech") == []
    assert [row["surrogate"] for row in rows] == ["a"]
    assert rows[0]["bytes"] > 0
    assert rows[0]["operations"] <= first
    assert (rows[0]["seconds"] > 0) == (rows[0]["operations"] > 0)


@REAL
def test_whereis_says_all_places_of_a_service(carried: World) -> None:
    with closing(Person(carried)) as person:
        person.runs("notes", "--media", str(carried.stick), "--at", "a")
        assert eventually(lambda: "a" in {row["where"] for row in person.sees("whereis", "notes")})
        rows = {(row["where"], row["what"]) for row in person.sees("whereis", "notes")}
        (client,) = {where for where, what in rows if what == "client"}
        assert client.startswith("laptop-")  # and digits of its key
        assert rows - {(client, "client")} == {
            ("home", "replica"),
            ("a", "replica"),
            ("home", "machine"),
        }
        carried.home.cut()
        away = person.types("whereis", "notes", "--json")
        assert away.returncode == 8
        assert {row["where"] for row in json.loads(away.stdout)} >= {"a"}


@REAL
def test_whereis_looks_at_the_medium(carried: World) -> None:
    with closing(Person(carried)) as person:
        text = person.config.read_text()
        person.config.write_text(f'media = "{carried.stick}"\n{text}')
        rows = {(row["where"], row["what"]): row for row in person.sees("whereis")}
    assert rows[str(carried.stick), "checkpoint"]["state"] == "whole"
