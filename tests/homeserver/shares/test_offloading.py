# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node is told that a task went elsewhere, and that it came back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shares.node import ROOT, Node, Offloader, OpenReply, open_file
from shares.protocol import FileId
from tests.homeserver.shares.conftest import Home

CONTENT = b"x" * 200_000


@pytest.fixture
def nodes(home: Home) -> tuple[Node, Node]:
    home.add()
    return home.join("mobile").node, home.join("cloud").node


@contextmanager
def asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the node is asked by home, and what it asks, meanwhile."""
    found: list[str] = []
    before = node.content.traffic.copy()
    with monkeypatch.context() as patched:
        real = node.hub.open

        def opens(file: FileId, writes: bool, cut: bool) -> OpenReply:
            found.append("open")
            return real(file, writes, cut)

        patched.setattr(node.hub, "open", opens)
        yield found
    found += (node.content.traffic - before).keys()


def write(node: Node, path: str, content: bytes = CONTENT) -> None:
    with open_file(node, path, "wb") as file:
        file.write(content)


def read(node: Node, path: str) -> bytes:
    with open_file(node, path, "rb") as file:
        return bytes(file.read())


def test_home_has_what_was_written_and_the_task_has_the_file_alone(
    home: Home, nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    mobile, cloud = nodes
    write(mobile, "photo")
    done = Offloader(mobile).offloaded(["photo"])
    assert (done.files, done.open) == (1, 0)
    assert (home.root / "photo").read_bytes() == CONTENT
    with (
        asked(mobile, monkeypatch) as found,
        open_file(cloud, "photo", "r+b", buffering=0) as file,
    ):
        file.write(b"enhanced")
        assert cloud.content.native(file._file)  # type: ignore[attr-defined]
    assert not {"Flush", "Release", "Push", "Recall"} & set(found), "no content is waited for"
    assert read(mobile, "photo") == b"enhanced" + CONTENT[8:]


def test_a_file_that_a_program_has_open_stays_open_and_is_home_s(
    home: Home, nodes: tuple[Node, Node]
) -> None:
    mobile, cloud = nodes
    with open_file(mobile, "photo", "w+b", buffering=0) as file:
        file.write(CONTENT)
        done = Offloader(mobile).offloaded()
        assert (done.files, done.open) == (0, 1)
        assert (home.root / "photo").read_bytes() == CONTENT
        assert read(cloud, "photo") == CONTENT
        file.write(b"more")
        assert read(cloud, "photo") == CONTENT + b"more"


def test_what_comes_back_is_here_before_a_program_asks(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    mobile, cloud = nodes
    write(mobile, "photo")
    here, there = Offloader(mobile), Offloader(cloud)
    here.offloaded(["photo"])
    write(cloud, "photo", b"small")
    there.offloaded(["photo"])
    assert here.returned().files == 1
    with asked(mobile, monkeypatch) as found:
        assert read(mobile, "photo") == b"small"
    assert not found


def test_a_folder_stands_for_its_files(home: Home, nodes: tuple[Node, Node]) -> None:
    mobile, _ = nodes
    (home.root / "a/b").mkdir(parents=True)
    for path in ("a/1", "a/b/2", "3"):
        write(mobile, path, b"text")
    assert Offloader(mobile).offloaded(["a"]).files == 2
    assert (home.root / "a/b/2").read_bytes() == b"text"


def test_what_was_removed_meanwhile_is_left_out(nodes: tuple[Node, Node]) -> None:
    mobile, cloud = nodes
    write(mobile, "photo")
    moved = Offloader(mobile)
    moved.offloaded()
    cloud.unlink(ROOT, b"photo")
    assert moved.returned().files == 0
    with pytest.raises(FileNotFoundError):
        moved.offloaded(["photo"])
