# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files of a share for programs without FUSE."""

from __future__ import annotations

import csv
import io
import os
import zipfile

import pytest

from shares.node import ROOT, Node, find, open_file
from tests.shares.node.conftest import NodesHome


@pytest.fixture
def nodes(home: NodesHome) -> list[Node]:
    return [home.node(), home.node()]


def test_text_is_seen_by_another_node_after_flush(nodes: list[Node]) -> None:
    one, two = nodes
    with open_file(one, "a.txt", "w") as file, open_file(two, "/a.txt") as other:
        file.write("one\n")
        file.flush()
        assert other.read() == "one\n"
        file.write("two\n")
        file.flush()
        assert other.readline() == "two\n"


def test_the_standard_library_works_on_it(nodes: list[Node]) -> None:
    one, two = nodes
    with open_file(one, "a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("name", b"content" * 10000)
    with open_file(two, "a.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("name") == b"content" * 10000
    with open_file(two, "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([[1, "a"], [2, "b"]])
    with open_file(one, "a.csv", newline="") as file:
        assert list(csv.reader(file)) == [["1", "a"], ["2", "b"]]


def test_modes_mean_what_they_mean_to_open(nodes: list[Node]) -> None:
    one, two = nodes
    with pytest.raises(FileNotFoundError):
        open_file(one, "a", "rb")
    with open_file(one, "a", "xb") as file:
        file.write(b"0123456789")
    with pytest.raises(FileExistsError):
        open_file(two, "a", "xb")
    with open_file(two, "a", "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"abc")
        assert file.truncate(9) == 9
        file.seek(0)
        assert file.read() == b"0123456ab"
    with open_file(one, "a", "ab") as file:
        assert file.tell() == 9
        file.write(b"!")
    with open_file(two, "a", "rb", buffering=0) as raw:
        assert raw.read(100) == b"0123456ab!"
        with pytest.raises(io.UnsupportedOperation):
            raw.write(b"x")
    with open_file(one, "a", "wb"):
        pass
    assert two.lookup(ROOT, b"a").attributes.size == 0
    for mode in ("", "rw", "q", "rr", "r+x"):
        with pytest.raises(ValueError, match="mode"):
            open_file(one, "a", mode)


def test_a_folder_and_a_link_are_no_files(nodes: list[Node]) -> None:
    one, _ = nodes
    folder = one.make_folder(ROOT, b"d", 0o755, 0, 0).attributes.file
    one.make_link(ROOT, b"l", b"d", 0, 0)
    with open_file(one, "d/f", "w") as file:
        file.write("x")
    assert find(one, "d") == folder
    for path in ("d", "l", "/"):
        with pytest.raises(OSError, match=r"directory|symbolic"):
            open_file(one, path)


def test_a_closed_file_is_closed(nodes: list[Node]) -> None:
    raw = open_file(nodes[0], "a", "wb", buffering=0)
    raw.close()
    raw.close()
    with pytest.raises(ValueError, match="closed"):
        raw.write(b"x")
