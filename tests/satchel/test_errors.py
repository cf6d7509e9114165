# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from satchel import errors
from satchel.errors import ROOTS, SatchelError, UsageError


def test_every_root_has_an_exit_code_and_a_wire_code_of_its_own() -> None:
    assert [root.exit_code for root in ROOTS] == list(range(1, len(ROOTS) + 1))
    assert len({root.wire_code for root in ROOTS}) == len(ROOTS)


def test_roots_are_all_there_are_in_the_module() -> None:
    defined = {value for value in vars(errors).values() if isinstance(value, type)}
    assert defined & {SatchelError, *SatchelError.__subclasses__()} == set(ROOTS)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for root in ROOTS:
        line = next(line for line in drawn.splitlines() if f" {root.__name__} " in line)
        assert f"exit {root.exit_code} " in line
        assert f" {root.wire_code}" in line


def test_the_number_of_an_error_of_the_system_is_not_said() -> None:
    error = UsageError("cannot open it", why=f"no way: {OSError(13, 'Permission denied')}")
    assert str(error) == "cannot open it: no way: Permission denied"


@pytest.mark.parametrize(
    ("why", "fix", "text"),
    [
        ("", "", "cannot open it"),
        ("it is gone", "", "cannot open it: it is gone"),
        ("", "make one", "cannot open it; make one"),
        ("it is gone", "make one", "cannot open it: it is gone; make one"),
    ],
)
def test_an_error_reads_what_why_fix(why: str, fix: str, text: str) -> None:
    error = UsageError("cannot open it", why=why, fix=fix)
    assert str(error) == text
    assert (error.what, error.why, error.fix) == ("cannot open it", why, fix)


def test_a_leaf_has_the_codes_of_its_root() -> None:
    class BadColour(UsageError):
        pass

    assert (BadColour.exit_code, BadColour.wire_code) == (2, "usage")
