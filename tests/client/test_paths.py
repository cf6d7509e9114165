# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a client is expected next, and the bytes of docs/formats/client-state.md."""

import json
from pathlib import Path

import pytest

from client.state.paths import Paths, PathsInvalid, decode, encode, likely_next
from satchel.errors import ConflictError, NotFoundError, UsageError

GOLDEN = b"""\
{
 "version": 1,
 "paths": [
  [
   "cafe",
   "library"
  ]
 ]
}
"""


def test_a_path_says_what_comes_next() -> None:
    paths = [("a", "b", "c")]
    assert [likely_next(here, paths, []) for here in "abcd"] == ["b", "c", None, None]


def test_the_newest_path_goes_before_others_and_any_before_the_past() -> None:
    paths = [("a", "b"), ("a", "c")]
    assert likely_next("a", paths, ["a", "d", "a", "d"]) == "c"


def test_without_a_path_it_is_what_came_next_most_times() -> None:
    assert likely_next("a", [], list("abacabacabab")) == "b"
    assert likely_next("b", [], list("abacabacabab")) == "a"


def test_once_or_one_of_many_is_no_guess() -> None:
    assert likely_next("a", [], list("ab")) is None
    assert likely_next("a", [], list("abacadabacad")) is None
    assert likely_next("a", [], ["a", "a", "a"]) is None


def test_golden_bytes(tmp_path: Path) -> None:
    assert encode([("cafe", "library")]) == GOLDEN
    assert decode(GOLDEN) == [("cafe", "library")]
    paths = Paths(tmp_path / "state")
    assert paths.all() == []
    paths.add(["cafe", "library"])
    assert (tmp_path / "state" / "paths.json").read_bytes() == GOLDEN
    paths.add(["library", "cafe", "library"])
    with pytest.raises(ConflictError):
        paths.add(["cafe", "library"])
    paths.remove(["cafe", "library"])
    assert paths.all() == [("library", "cafe", "library")]
    with pytest.raises(NotFoundError):
        paths.remove(["cafe", "library"])


@pytest.mark.parametrize("names", [[], ["a"], ["a", "a"], ["a", "../b"]])
def test_what_is_no_path_is_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UsageError):
        Paths(tmp_path).add(names)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version": 2, "paths": []}',
        b'{"version": 1}',
        b'{"version": 1, "paths": ["ab"]}',
        b'{"version": 1, "paths": [["a", 1]]}',
        json.dumps({"version": 1, "paths": [["a"]]}).encode(),
    ],
)
def test_other_bytes_are_refused_and_a_damaged_file_is_begun_anew(
    tmp_path: Path, data: bytes
) -> None:
    with pytest.raises(PathsInvalid):
        decode(data)
    (tmp_path / "paths.json").write_bytes(data)
    assert Paths(tmp_path).all() == []
