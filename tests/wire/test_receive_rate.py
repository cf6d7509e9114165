# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How fast answers arrive: read over links whose rate is known."""

from collections.abc import Iterator

import pytest

from wire.receive_rate import ReceiveRate

RATE = 1e6
PIECE = 10_000


class Reader:
    """Reads answers from a link of RATE that begins to send each `late` seconds after it is asked,
    no faster than `rate`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.arrivals = ReceiveRate(lambda: self.now)

    def pieces(self, size: int, late: float = 0.0, rate: float = RATE) -> Iterator[bytes]:
        self.now += late
        for _ in range(size // PIECE):
            self.now += PIECE / min(rate, RATE)
            yield bytes(PIECE)

    def read(self, size: int, late: float = 0.0, rate: float = RATE) -> float:
        """The rate that is known after that."""
        for _ in self.arrivals.watch(self.pieces(size, late, rate)):
            pass
        return self.arrivals.rate


def test_what_a_peer_does_before_it_sends_does_not_count() -> None:
    assert Reader().read(200_000, late=0.5) == pytest.approx(RATE)


def test_small_answers_add_up() -> None:
    reader = Reader()
    assert reader.read(30_000) == 0.0
    assert reader.read(30_000, late=1.0) == pytest.approx(RATE)


def test_an_answer_of_one_piece_says_nothing() -> None:
    reader = Reader()
    for _ in range(20):
        assert reader.read(PIECE) == 0.0


def test_answers_that_share_a_link_are_taken_together() -> None:
    reader = Reader()
    one, other = (reader.arrivals.watch(reader.pieces(200_000)) for _ in range(2))
    for _ in zip(one, other, strict=True):
        pass
    assert reader.arrivals.rate == pytest.approx(RATE, rel=0.1)


def test_what_is_sent_a_little_faster_each_time_shows_the_link() -> None:
    """And nothing above that."""
    reader = Reader()
    rate = reader.read(200_000, rate=2e5)
    assert rate == pytest.approx(2e5)
    for _ in range(60):
        rate = reader.read(200_000, late=0.05, rate=1.03 * rate)
    assert rate == pytest.approx(RATE)


def test_an_answer_that_breaks_off_is_under_way_no_more() -> None:
    reader = Reader()
    pieces = reader.arrivals.watch(reader.pieces(200_000))
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    reader.now += 1000.0
    assert reader.read(200_000) == pytest.approx(RATE)
