# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from satchel.names import BadName, check_name


@pytest.mark.parametrize("name", ["a", "notes", "hotspot-2", "0", "a" * 63])
def test_a_label_is_a_name(name: str) -> None:
    assert check_name(name, "service") == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a.b", "a/b", "..", "a b", "a\n", "ä", "a" * 64]
)
def test_anything_else_is_refused_and_says_what_it_should_have_named(name: str) -> None:
    with pytest.raises(BadName, match="cannot name a service"):
        check_name(name, "service")
