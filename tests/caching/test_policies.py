# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What policies give up, and what they find of what is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caching import POLICIES, Lru, MakePolicy, Queue, ThreeQueues

EVERY_POLICY = pytest.mark.parametrize("make", list(POLICIES.values()))
CALLS = st.lists(
    st.tuples(st.sampled_from(["touch", "bring", "give", "remove"]), st.integers(0, 30)),
    max_size=200,
)


@EVERY_POLICY
@given(calls=CALLS)
def test_a_policy_knows_what_is_here(make: MakePolicy, calls: list[tuple[str, int]]) -> None:
    """Held against a set: nothing is lost, nothing is given up twice or while it is pinned."""
    policy, here = make(8), set[int]()
    for call, key in calls:
        if call == "give":
            pinned = {key}
            gone = policy.victims(5, pinned)
            assert len(set(gone)) == len(gone) == min(5, len(here - pinned))
            assert set(gone) <= here - pinned
            here -= set(gone)
        elif call == "remove":
            policy.removed(key)
            here.discard(key)
        elif call == "bring":
            policy.brought(key)
            here.add(key)
        else:
            assert (policy.touched(key) is not None) == (key in here)
            here.add(key)
        assert sum(policy.counts().values()) == len(here)


def found(make: MakePolicy, keys: list[int], capacity: int) -> int:
    policy, hits, size = make(capacity), 0, 0
    for key in keys:
        if policy.touched(key) is not None:
            hits += 1
        elif size == capacity:
            assert len(policy.victims(1)) == 1
        else:
            size += 1
    return hits


def test_part_of_a_loop_that_is_longer_than_the_cache_stays() -> None:
    loops = [*range(400)] * 6
    assert found(Lru, loops, 100) == 0
    assert found(ThreeQueues, loops, 100) >= 5 * 80


def test_what_is_used_again_and_again_outlives_a_scan() -> None:
    keys = [k for n in range(20) for k in (*range(50), *range(1000 + 200 * n, 1200 + 200 * n))]
    assert found(Lru, keys, 100) == 0
    assert found(ThreeQueues, keys, 100) >= 17 * 50


def test_what_was_used_once_is_forgotten() -> None:
    """A cache full of what was asked for often has room for what is asked for from now on."""
    loops, others = [*range(400)] * 6, [*range(1000, 1080)] * 40
    assert found(ThreeQueues, [*loops, *others], 100) >= found(ThreeQueues, loops, 100) + 80 * 25


def test_the_end_is_taken_from_that_has_more_hits() -> None:
    """Of a loop that is too long a part has to stay; where what is used moves on, what is new. What
    takes from the oldest end always finds nothing of the first, from the newest half of the second
    at most. What was asked for often before has to go soon, too: with that it is nearly what LRU
    finds."""
    assert found(ThreeQueues, [*range(400)] * 12, 100) >= 10 * 80
    moving = [n // 10 + n * 7 % 60 for n in range(6000)]
    assert found(ThreeQueues, moving, 100) >= 0.95 * found(Lru, moving, 100)


def test_what_was_asked_for_longest_ago_goes_first_of_lru() -> None:
    policy = Lru(3)
    for key in "abca":
        policy.touched(key)
    policy.brought("ahead")
    assert policy.counts() == {Queue.HIGH: 0, Queue.NORMAL: 3, Queue.LOW: 1}
    assert policy.victims(3, pinned="b") == ["ahead", "c", "a"]


def test_what_nobody_asked_for_goes_first() -> None:
    policy = ThreeQueues(10)
    policy.touched("asked")
    policy.brought("ahead")
    assert policy.counts() == {Queue.HIGH: 0, Queue.NORMAL: 1, Queue.LOW: 1}
    assert policy.victims(1) == ["ahead"]
    assert policy.touched("asked") is Queue.NORMAL
    assert policy.touched("asked") is Queue.HIGH
    policy.brought("ahead")
    assert policy.touched("ahead") is Queue.LOW
