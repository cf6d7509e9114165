# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is refused of objects is in tests/wire/test_messages.py."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, NewType

import pytest

from satchel.errors import UsageError
from satchel.typed import Form, TypeMismatch

Number = NewType("Number", int)


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    number: Number
    colour: Colour = Colour.RED

    def __post_init__(self) -> None:
        if self.number == 13:
            raise UsageError("not this one")


@dataclass(frozen=True)
class Outer:
    name: bytes
    inner: Inner | None
    pairs: tuple[tuple[int, str], ...] = ()
    seconds: float = 0.0


WHOLE = Outer(b"\xff\n", Inner(Number(1)), ((1, "a"), (2, "b")), 0.5)


@pytest.mark.parametrize("form", [Form(), Form(lists=True)])
def test_what_json_carried_is_what_it_was(form: Form) -> None:
    value = json.loads(json.dumps(form.plain(WHOLE)))
    assert form.typed(value, Outer, "it") == WHOLE
    assert form.typed(form.plain([WHOLE]), list[Outer], "it") == [WHOLE]


def test_golden_forms() -> None:
    assert Form(lists=True).plain(WHOLE) == ["\udcff\n", [1, "red"], [[1, "a"], [2, "b"]], 0.5]
    assert Form().plain(Inner(Number(2))) == {"number": 2, "colour": "red"}


def test_only_objects_may_lack_what_has_a_default() -> None:
    assert Form().typed({"number": 3}, Inner, "it") == Inner(Number(3))
    with pytest.raises(TypeMismatch, match="must have 2 values"):
        Form(lists=True).typed([3], Inner, "it")


@pytest.mark.parametrize(
    ("value", "hint", "where"),
    [
        ([True, "red"], Inner, r"it\.number"),
        ([1, "green"], Inner, r"it\.colour"),
        ([1, ["red"]], Inner, r"it\.colour"),
        ([13, "red"], Inner, "it: .*not this one"),
        (["\ud800", None, [], 0.0], Outer, r"it\.name"),
        (["a", None, [[1, "a"], [1]], 0.0], Outer, r"it\.pairs\[1\]"),
        (["a", None, [], float("nan")], Outer, r"it\.seconds"),
        ({"number": 1}, Inner, "it: must be an array"),
        (1 << 64, int, "it: must be an integer of 64 bits"),
        (None, int, "it: must be int"),
    ],
    ids=repr,
)
def test_anything_else_is_refused_and_says_where(value: Any, hint: Any, where: str) -> None:
    with pytest.raises(TypeMismatch, match=where):
        Form(lists=True).typed(value, hint, "it")
