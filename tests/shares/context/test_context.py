# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs open after what: learnt, told, kept, and forecast."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from shares.context import (
    Forecast,
    KeptContext,
    Scans,
    Succession,
    Successors,
    SuccessorsInvalid,
    load_successors,
    save_successors,
)
from shares.context.forecast import FIRST, LAST, LEAST
from shares.context.successors import EDGES, LIMIT, MOST
from shares.protocol import FileId

A, B, C, D = map(FileId, (10, 11, 12, 13))

GOLDEN = bytes.fromhex(
    "5341544354455854"  # SATCTEXT
    "01000000" "02000000"
    "0a00000000000000" "0b00000000000000" "03000000" "00000000"
    "0b00000000000000" "0c00000000000000" "01000000" "02000000"
)  # fmt: skip


def made(*edges: tuple[FileId, FileId, int, int]) -> Successors:
    found = Successors()
    for edge in edges:
        found.add(Succession(*edge))
    return found


def nowhere() -> None:
    """A folder of which the names are not known."""


def test_the_bytes_are_those_of_the_page() -> None:
    successors = made((A, B, 3, 0), (B, C, 1, 2))
    assert successors.encode() == GOLDEN
    assert list(Successors.decode(GOLDEN).edges()) == list(successors.edges())


@pytest.mark.parametrize("cut", range(len(GOLDEN)))
def test_a_table_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(SuccessorsInvalid):
        Successors.decode(GOLDEN[:cut])


def test_every_changed_byte_of_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "context"
    save_successors(path, made((A, B, 3, 0), (B, C, 1, 2)))
    whole = path.read_bytes()
    assert len(load_successors(path)) == 2
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert len(load_successors(path)) == 0


def test_a_chain_follows_what_is_usual_and_ends_where_it_is_not() -> None:
    successors = made((A, B, 3, 0), (A, C, 1, 0), (B, C, 2, 0), (C, D, 1, 4))
    assert successors.chain(A, 8) == [B, C]  # D is usually written
    assert successors.chain(A, 1) == [B]
    assert made((A, B, 1, 0), (A, C, 1, 0), (A, D, 1, 0)).chain(A, 8) == []


def test_a_chain_that_comes_round_ends() -> None:
    assert made((A, B, 1, 0), (B, C, 1, 0), (C, A, 1, 0)).chain(A, 8) == [B, C]


def test_a_table_is_bounded() -> None:
    successors, dice = Successors(), random.Random(1)
    for _ in range(5 * LIMIT):
        before, after = FileId(dice.randrange(2 * LIMIT)), FileId(dice.randrange(50))
        successors.add(Succession(before, after, dice.randrange(3 * MOST), 1))
    edges = list(successors.edges())
    assert len(successors) <= LIMIT
    assert len(edges) <= EDGES * LIMIT
    assert all(edge.reads + edge.writes <= 2 * MOST for edge in edges)
    assert list(Successors.decode(successors.encode()).edges()) == edges


@pytest.mark.parametrize("by_name", [True, False])
def test_a_scan_in_either_order_is_known_from_its_third_open(by_name: bool) -> None:
    listed = [(b"%d" % number, FileId(number)) for number in (7, 3, 9, 1, 5, 8, 2)]
    order = [file for _, file in (sorted(listed) if by_name else listed)]
    scans = Scans()
    found = [scans.opened(FileId(1000), file, listed, 3) for file in order]
    assert found[:2] == [[], []]
    assert found[2:] == [order[at : at + 3] for at in range(3, len(order) + 1)]


def test_opens_here_and_there_are_no_scan() -> None:
    listed = [(b"%03d" % number, FileId(number)) for number in range(1, 100)]
    dice, scans, wrong = random.Random(2), Scans(), 0
    for _ in range(200):
        wrong += bool(scans.opened(FileId(1000), FileId(dice.randrange(1, 100)), listed, 8))
    assert wrong < 5


def test_what_was_opened_once_is_forecast_the_next_time() -> None:
    forecast = Forecast()
    for file in (A, B, C):
        assert forecast.opened(file, nowhere, writes=False) == []
    assert forecast.opened(A, nowhere, writes=False) == [B, C]
    assert forecast.learnt()[:2] == [Succession(A, B, 1, 0), Succession(B, C, 1, 0)]
    assert forecast.learnt() == []


def test_a_forecast_that_is_right_grows_and_one_that_is_wrong_shrinks() -> None:
    chain = [FileId(number) for number in range(1, 2000)]
    forecast = Forecast(made(*((a, b, 1, 0) for a, b in itertools.pairwise(chain))))
    sizes = []
    for file in chain[:600]:
        found = forecast.opened(file, nowhere, writes=False)
        sizes += [len(found)] if found else []
        for each in found:
            forecast.fetched(each)
    assert sizes[0] == FIRST
    assert LAST // 2 < max(sizes) <= LAST
    assert forecast.vain == 0
    for _ in range(100):
        for each in list(forecast.ahead):
            forecast.dropped(each)
        for each in (found := forecast.opened(chain[1000], nowhere, writes=False)):
            forecast.fetched(each)
    assert len(found) == LEAST


def test_home_keeps_what_nodes_tell_and_refuses_what_cannot_be(tmp_path: Path) -> None:
    kept = KeptContext(tmp_path / "context")
    kept.take([Succession(A, B, 1, 0), Succession(A, C, -5, 1 << 40)], 10)
    kept.save(now=True)
    again = KeptContext(tmp_path / "context")
    assert again.take([], 10) == [Succession(A, B, 1, 0)]
    assert again.take([], 0) == []
