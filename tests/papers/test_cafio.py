# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""CAFIO's cache does what the paper prints, and launches are counted as they go."""

import random

import pytest

from caching import Queue
from papers.cafio.algorithm import MINWAIT_SECONDS, WEEK_SECONDS, Cafio, File
from papers.cafio.launches import Device, Request, _launched, _Tally


def file(number: int, app: str = "app") -> File:
    return app, "disk0", number


def ranked() -> Cafio:
    """Of files 0 to 2 the first was read most, the last least; each has one page, its number."""
    cafio = Cafio(3)
    for number, times in enumerate((3, 2, 1)):
        for turn in range(times):
            cafio.read(turn * MINWAIT_SECONDS, file(number), number)
    for number in range(3):
        cafio.read(1000.0 + number * 0.1, file(number), number)
    return cafio


def test_files_are_high_normal_or_low_by_thirds_of_their_reads() -> None:
    cafio = ranked()
    assert [cafio.priority(file(n)) for n in range(3)] == [Queue.HIGH, Queue.NORMAL, Queue.LOW]


def test_writes_make_a_file_high_that_is_read_least() -> None:
    cafio = ranked()
    cafio.write(2000.0, file(2), 2)
    cafio.read(3000.0, file(2), 2)
    assert cafio.priority(file(2)) is Queue.HIGH


def test_what_is_low_goes_first_then_what_is_normal() -> None:
    cafio = ranked()
    for new, gone in ((10, 2), (11, 1)):
        assert not cafio.read(1001.0 + new, file(new, "other"), new)
        assert gone not in cafio._pages
        assert 0 in cafio._pages


def test_a_burst_counts_once() -> None:
    cafio = Cafio(10)
    for turn in range(100):
        cafio.read(turn * 0.04, file(0), 0)
    for turn in range(2):
        cafio.read(turn * MINWAIT_SECONDS, file(1), 1)
    contexts = cafio._contexts["app"]
    assert (contexts[file(0)].nread, contexts[file(1)].nread) == (1, 2)


def test_counts_begin_anew_each_week() -> None:
    cafio = Cafio(10)
    for turn in range(5):
        cafio.read(turn * MINWAIT_SECONDS, file(0), 0)
    cafio.read(WEEK_SECONDS, file(1), 1)
    assert cafio._contexts["app"][file(0)].nread == 0


def test_the_score_is_of_reads_and_of_writes_by_the_most_of_each() -> None:
    cafio = ranked()
    for turn in range(4):
        cafio.read(2000.0 + turn, file(0), 0)
    assert cafio.score(file(0)) == 1.0
    assert cafio.score(file(2)) == 0.0
    cafio.write(2010.0, file(0), 0)
    assert cafio.score(file(0)) == 2.0


@pytest.mark.parametrize("capacity", [1, 2, 7, 40])
def test_it_never_holds_more_and_never_loses_what_was_just_read(capacity: int) -> None:
    luck, cafio, now = random.Random(capacity), Cafio(capacity), 0.0
    for _ in range(5000):
        now += luck.expovariate(2.0)
        number = int(luck.paretovariate(0.7)) % 97
        app = f"app{number % 3}"
        if luck.random() < 0.2:
            cafio.write(now, file(number // 4, app), number)
            continue
        cafio.read(now, file(number // 4, app), number)
        assert number in cafio._pages
        assert len(cafio) <= capacity
        assert 0 <= cafio.score(file(number // 4, app)) <= 2


class Holds:
    """A cache that has even contents."""

    def begin(self, app: str) -> None: ...
    def write(self, now: float, request: Request) -> None: ...
    def read(self, now: float, request: Request) -> int:
        return sum(int(str(key)) % 2 for key in request.keys)


def test_a_launch_takes_its_own_time_and_that_of_what_is_missed() -> None:
    device = Device("made up", seconds=0.5, rate=4096 * 0.4, part=4)
    launch = [
        Request(1.0, file(0), write=False, keys=(2, 4)),
        Request(2.0, file(0), write=False, keys=(1, 2, 3)),
        Request(3.0, file(0), write=True, keys=(5,)),
    ]
    tally = _Tally()
    assert _launched(Holds(), "app", launch, 10.0, device, tally) == pytest.approx(18.5)
    found = tally.measured()
    assert found.seconds == pytest.approx(8.5)
    assert found.hits == pytest.approx(0.6)
    assert found.speed == pytest.approx(5 * 4096 / 2.5)
