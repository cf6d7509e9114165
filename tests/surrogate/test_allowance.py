# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much that nobody waits for may be under way: by what answers took."""

from surrogate.fetching.allowance import (
    FIRST_BYTES,
    LEAST_BYTES,
    MEMORY_SECONDS,
    MOST_BYTES,
    QUEUE_SECONDS,
    Allowance,
)

WAY = 0.06


def known(way: float = WAY) -> Allowance:
    """One that a small answer has shown the way."""
    allowance = Allowance()
    allowance.answered(way, 0.0, 2000, 2000)
    return allowance


def answered(allowance: Allowance, now: float, took: float, part: float = 1.0) -> None:
    """An answer to as much as may be under way, or to a part of it."""
    size = int(part * allowance.bytes)
    allowance.answered(now, now - took, size, size)


def test_answers_that_hardly_wait_make_room_for_twice_as_much() -> None:
    allowance = known()
    answered(allowance, 1.0, WAY + 0.001)
    assert allowance.bytes == 2 * FIRST_BYTES
    for n in range(20):
        answered(allowance, 1.1 + 0.1 * n, WAY + 0.001)
    assert allowance.bytes == MOST_BYTES


def test_answers_that_wait_leave_room_for_what_waits_for_the_right_time() -> None:
    """Over a link that carries RATE, one request or many at a time."""
    rate = 1.4e6
    alone, stream = known(), known()
    for n in range(30):
        answered(alone, 0.1 * n + 1.0, WAY + alone.bytes / rate)
        answered(stream, 0.1 * n + 1.0, max(WAY, stream.bytes / rate))
        for allowance in (alone, stream):
            if allowance.probing:
                allowance.answered(0.1 * n + 1.0, 0.1 * n + 1.0 - WAY, 2000, 2000)
    assert 0.9 <= alone.bytes / (rate * QUEUE_SECONDS) <= 1.1
    assert 0.9 <= stream.bytes / (rate * (WAY + QUEUE_SECONDS)) <= 1.1


def test_there_is_a_least_that_may_be_under_way() -> None:
    allowance = known()
    for now in (2.0, 2.5, 3.0):
        answered(allowance, now, WAY + 0.4)
    assert allowance.bytes == LEAST_BYTES


def test_the_quickest_of_several_answers_counts() -> None:
    """One of them may have given way to an operation."""
    allowance = known()
    for took in (WAY + 0.2, WAY + 0.001, WAY + 0.2):
        allowance.answered(1.0, 1.0 - took, FIRST_BYTES // 5, FIRST_BYTES)
    assert allowance.bytes == 2 * FIRST_BYTES


def test_what_did_not_use_its_room_says_nothing() -> None:
    allowance = known()
    for n in range(50):
        answered(allowance, 1.0 + n / 100, WAY, 0.4)
        allowance.answered(1.0 + n / 100, 1.0, 0, FIRST_BYTES)
    assert allowance.bytes == FIRST_BYTES


def test_what_was_asked_for_before_there_was_more_room_does_not_count_again() -> None:
    allowance = known()
    for _ in range(3):
        allowance.answered(1.0, 1.0 - WAY, FIRST_BYTES // 2, FIRST_BYTES)
    assert allowance.bytes == 2 * FIRST_BYTES


def test_urgent_answers_show_the_way_and_nothing_else() -> None:
    allowance = known()
    for n in range(5):
        allowance.answered(1.0 + n, n + 0.5, MOST_BYTES, MOST_BYTES, urgent=True)
    assert allowance.bytes == FIRST_BYTES
    allowance.answered(6.0, 5.99, 2000, 2000, urgent=True)
    answered(allowance, 7.0, 4 * (0.01 + QUEUE_SECONDS))
    assert FIRST_BYTES // 4 - 1 <= allowance.bytes <= FIRST_BYTES // 4


def test_one_small_request_shows_the_way_at_first_and_from_time_to_time() -> None:
    assert Allowance().probing
    allowance = known()
    assert not allowance.probing
    answered(allowance, WAY + MEMORY_SECONDS, WAY, part=0.1)
    assert allowance.probing
    allowance.answered(20.0, 19.9, 2000, 200_000, urgent=True)
    assert allowance.probing, "that was behind much else"
    allowance.answered(20.2, 20.1, 2000, 2000)
    assert not allowance.probing


def test_a_way_that_became_longer_is_believed_after_a_while() -> None:
    allowance = known(0.005)
    for n in range(4):
        allowance.answered(10.0 * n + 9, 10.0 * n + 8.9, 2000, 2000)
    allowance.answered(39.2, 39.1, 2000, 2000)
    answered(allowance, 40.0, 0.101)
    assert allowance.bytes == 2 * FIRST_BYTES


def test_the_rate_is_what_arrives_in_the_time_that_it_may_take() -> None:
    allowance = known()
    assert allowance.rate == FIRST_BYTES / (WAY + QUEUE_SECONDS)
    assert Allowance().rate == 0.0
