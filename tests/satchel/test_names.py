# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from satchel.names import BadName, check_name, host_name


@pytest.mark.parametrize("name", ["a", "notes", "hotspot-2", "0", "a" * 63])
def test_a_label_is_a_name(name: str) -> None:
    assert check_name(name, "service") == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a.b", "a/b", "..", "a b", "a\n", "ä", "a" * 64]
)
def test_anything_else_is_refused_and_says_what_it_should_have_named(name: str) -> None:
    with pytest.raises(BadName, match="cannot name a service"):
        check_name(name, "service")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("home", "home"),
        ("Anna's Laptop.lan", "anna-s-laptop"),
        ("x" * 70, "x" * 63),
        ("...", "host"),
    ],
)
def test_a_host_has_a_name_whatever_it_is_called(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert check_name(host_name(), "host") == name
