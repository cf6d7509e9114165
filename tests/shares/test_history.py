# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The checker: what it passes, what it rejects, and that a search through all orders agrees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shares.history import INITIAL, Operation, check, check_staleness, dump, load


def wrote(value: str, began: float, ended: float | None, node: int = 1) -> Operation:
    return Operation(node, "f/0", True, value, began, ended)


def read(value: str, began: float, ended: float | None, node: int = 2) -> Operation:
    return Operation(node, "f/0", False, value, began, ended)


GOOD = {
    "nothing happened": [],
    "one after the other": [wrote("a", 0, 1), read("a", 2, 3), wrote("b", 4, 5), read("b", 6, 7)],
    "a read during a write sees either": [wrote("a", 0, 9), read("a", 1, 2), read(INITIAL, 0, 1)],
    "a write that nobody knows of was seen": [wrote("a", 0, None), read("a", 5, 6)],
    "a write that nobody knows of was not seen": [wrote("a", 0, None), read(INITIAL, 5, 6)],
    "a write that nobody knows of happens late": [
        wrote("a", 0, None),
        wrote("b", 1, 2),
        read("b", 3, 4),
        read("a", 5, 6),
    ],
    "two writes at once, in the order of the reads": [
        wrote("a", 0, 5),
        wrote("b", 0, 5),
        read("b", 6, 7),
    ],
    "a read that nobody knows of says nothing": [wrote("a", 0, 1), read("z", 2, None)],
}

BAD = {
    "a stale read": [wrote("a", 0, 1), wrote("b", 2, 3), read("a", 4, 5)],
    "the first content after a write": [wrote("a", 0, 1), read(INITIAL, 2, 3)],
    "back to an older value": [
        wrote("a", 0, 9),
        read("a", 1, 2),
        read(INITIAL, 3, 4),
    ],
    "two readers disagree": [
        wrote("a", 0, 9),
        wrote("b", 0, 9),
        read("a", 10, 11),
        read("b", 12, 13),
        read("a", 14, 15, 3),
    ],
    "a value from nowhere": [wrote("a", 0, 1), read("z", 2, 3)],
    "a read of the future": [read("a", 0, 1), wrote("a", 2, 3)],
    "a lost write comes back": [
        wrote("a", 0, None),
        wrote("b", 1, 2),
        read("a", 3, 4),
        read("b", 5, 6),
    ],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_a_good_history_passes(history: list[Operation]) -> None:
    assert check(history) == []


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_a_bad_history_is_rejected(history: list[Operation]) -> None:
    (violation,) = check(history)
    assert set(violation.operations) <= set(history)


def test_a_bad_register_is_found_among_good_ones() -> None:
    good = [Operation(1, f"f/{n}", True, "a", 0, 1) for n in range(50)]
    bad = [Operation(1, "g/0", True, "a", 0, 1), Operation(2, "g/0", False, INITIAL, 2, 3)]
    assert [violation.register for violation in check(good + bad)] == ["g/0"]


def test_two_writes_of_one_value_are_no_history() -> None:
    with pytest.raises(ValueError, match="twice"):
        check([wrote("a", 0, 1), wrote("a", 2, 3)])


def test_a_history_comes_back_from_its_lines() -> None:
    history = [op for operations in (*GOOD.values(), *BAD.values()) for op in operations]
    assert load(dump(history)) == history
    with pytest.raises(TypeError):
        load('{"node": 1}\n')


def test_staleness_is_counted_from_the_end_of_the_overwriting_write() -> None:
    history = [wrote("a", 0, 1), wrote("b", 2, 3), read("a", 7.5, 8)]
    assert check_staleness(history, 5.0) == []
    assert len(check_staleness(history, 4.0)) == 1
    assert check_staleness([wrote("a", 0, 9), wrote("b", 2, 3), read("a", 99, 100)], 1.0) == []


def searched(history: list[Operation]) -> bool:
    """Whether some order of the operations explains them, by trying all of them."""
    pending = [op for op in history if op.writes or op.ended is not None]

    def explains(left: list[Operation], value: str) -> bool:
        if all(op.ended is None for op in left):
            return True
        for op in left:
            if any(other.ended is not None and other.ended < op.began for other in left):
                continue
            if not op.writes and op.value != value:
                continue
            rest = [other for other in left if other is not op]
            if explains(rest, op.value):
                return True
        # An unfinished write may also never have happened.
        return any(
            op.ended is None and explains([o for o in left if o is not op], value) for op in left
        )

    return explains(pending, INITIAL)


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    made = []
    writes = draw(st.integers(0, 4))
    for number in range(writes + draw(st.integers(0, 3))):
        began = draw(st.integers(0, 12))
        ended = began + draw(st.integers(0, 6))
        if number < writes:
            unknown = draw(st.integers(0, 4)) == 0
            made.append(wrote(str(number), began, None if unknown else ended))
        else:
            values = [INITIAL, *map(str, range(writes))]
            made.append(read(draw(st.sampled_from(values)), began, ended))
    return made


@settings(max_examples=400, deadline=None)
@given(histories())
def test_the_checker_agrees_with_a_search_through_all_orders(history: list[Operation]) -> None:
    assert (check(history) == []) == searched(history)
