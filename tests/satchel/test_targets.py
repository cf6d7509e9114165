# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from satchel.targets import is_plain, leaves, may_meet, normal_path, split_target, without_dots


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("/a?b", (None, "/a?b")),
        ("http://h:1/a?b", ("h:1", "/a?b")),
        ("HTTPS://h", ("h", "/")),
        ("http://h?b", ("h", "/?b")),
        ("*", (None, "*")),
    ],
)
def test_a_target_is_split(target: str, parts: tuple[str | None, str]) -> None:
    assert split_target(target) == parts


def test_one_name_has_one_form_and_two_names_have_two() -> None:
    assert normal_path("/%61/%c3%a9~%7e") == normal_path("/a/%C3%A9%7E~")
    names = ["/a/b", "/a%2Fb", "/a%252Fb", "/%ff", "/%fe", "/%EF%BF%BD", "/a/", "/a", "/a//b", "/A"]
    assert len({normal_path(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *(("/a/b/../c", "/a/c"), ("/a/./b", "/a/b"), ("/a/%2e%2E/b", "/b"), ("/../../a", "/a")),
        *(("/a/..", "/"), ("/a/.", "/a/"), ("/a//../b", "/a/b"), ("/a...", "/a..."), ("/", "/")),
    ],
)
def test_dots_are_followed(path: str, expected: str) -> None:
    assert without_dots(path) == expected


@pytest.mark.parametrize(
    ("path", "out"),
    [
        *(("/d/a", False), ("/d//a/../b", False), ("/d/a/../..", True), ("/d/..%2fe", True)),
        *(("/../d/a", True), ("/d/a//../../e", True), ("/d/a\\..\\..\\e", True), ("/e", True)),
    ],
)
def test_a_path_may_leave_its_folder(path: str, out: bool) -> None:
    assert leaves(path, "/d") is out


def test_what_a_server_may_read_in_two_ways() -> None:
    assert may_meet("/a%2Fb", "/a/b/c")
    assert may_meet("/a//b", "/a/b")
    assert not may_meet("/a/b", "/a/bc")
    assert is_plain("/a b/%C3%A9%25...")
    for path in ("/a%2Fb", "/a/", "/a//b", "/a/./b", "/a/%2E%2e", "/a%5Cb", "/a%00"):
        assert not is_plain(path)
