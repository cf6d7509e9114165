# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are private to a node, and files that nobody changes."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from shares.home import PathRule
from shares.node import ROOT, Node, open_file
from shares.node.opened import file_handles
from shares.node.opened.filemarks import IMMUTABLE_NAME
from tests.homeserver.shares.conftest import Home
from tests.needs import requires
from tests.waiting import eventually


def refused(number: int, node_: Node, path: str, mode: str = "rb") -> bool:
    try:
        open_file(node_, path, mode).close()
    except OSError as error:
        assert error.errno == number, error
        return True
    return False


def nodes(home: Home, *rules: PathRule) -> tuple[Node, Node]:
    home.add(rules=rules)
    return home.join("here").node, home.join("there").node


def said(node_: Node) -> int:
    """Messages and calls of the node that home has had, but for heartbeats."""
    return sum(node_.content.traffic.values())


def test_another_node_may_not_open_what_is_private(home: Home) -> None:
    here, there = nodes(home)
    with open_file(here, "diary", "w+b", private=True) as file:
        file.write(b"mine")
        file.flush()
        for mode in ("rb", "r+b", "ab"):
            assert refused(errno.EACCES, there, "diary", mode)
    assert refused(errno.EACCES, there, "diary"), "also when nobody has it open"
    with open_file(here, "diary", "rb") as file:
        assert file.read() == b"mine"


def test_what_is_made_shared_is_read_by_all(home: Home) -> None:
    here, there = nodes(home)
    with open_file(here, "diary", "wb", buffering=0, private=True) as file:
        file.write(b"mine")
        file.make_shared()  # type: ignore[attr-defined]
        with open_file(there, "diary", "rb") as other:
            assert other.read() == b"mine"
        file.write(b" and yours")
    with open_file(there, "diary", "rb") as other:
        assert other.read() == b"mine and yours"


def test_home_hears_nothing_of_a_private_file_but_that_it_was_made(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_handles, "WRITE_BACK_SECONDS", 0.05)
    monkeypatch.setattr(file_handles, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(file_handles, "WRITTEN_SECONDS", 0.05)
    here, _ = nodes(home)
    open_file(here, "diary", "wb", private=True).close()
    calls: list[str] = []
    for name in ("open", "close", "written", "post", "attributes", "mark", "lookup"):
        monkeypatch.setattr(here.hub, name, lambda *a, _n=name, **k: calls.append(_n))
    for turn in range(3):
        with open_file(here, "diary", "ab") as file:
            file.write(b"%d" % turn * 5000)
        time.sleep(0.2)  # what is written back and closed when it rests would be by now
    with open_file(here, "diary", "rb") as file:
        assert file.read() == b"".join(b"%d" % turn * 5000 for turn in range(3))
    assert not calls
    monkeypatch.undo()
    assert (home.root / "diary").read_bytes() == b""


def test_a_private_file_comes_home_when_its_node_leaves_and_stays_private(home: Home) -> None:
    home.add()
    here = home.member("here")
    with open_file(here.node, "diary", "wb", private=True) as file:
        file.write(b"mine")
    here.close()
    assert eventually(lambda: (home.root / "diary").read_bytes() == b"mine")
    home.begin_again()
    there = home.join("there").node
    assert refused(errno.EACCES, there, "diary")
    with open_file(home.join("here").node, "diary", "rb") as file:
        assert file.read() == b"mine"


def test_what_others_have_open_cannot_be_made_private(home: Home) -> None:
    here, there = nodes(home)
    (home.root / "list").write_bytes(b"ours")
    with (
        open_file(there, "list", "rb"),
        pytest.raises(OSError, match=r".") as caught,
    ):
        open_file(here, "list", "r+b", private=True)
    assert caught.value.errno == errno.EBUSY


def test_of_two_nodes_that_want_it_private_one_has_it(home: Home) -> None:
    here, there = nodes(home)
    open_file(here, "diary", "wb", private=True).close()
    assert refused(errno.EACCES, there, "diary")
    with pytest.raises(PermissionError):
        there.set_mark(there.lookup(ROOT, b"diary").attributes.file, b"user.satchel.private", None)


def test_a_rule_makes_files_private_to_who_opens_them_first(home: Home) -> None:
    here, there = nodes(home, PathRule("cache/*", mark="private"))
    (home.root / "cache").mkdir()
    with open_file(here, "cache/a", "wb") as file:
        file.write(b"here's")
    assert refused(errno.EACCES, there, "cache/a")
    with open_file(there, "cache/b", "wb") as file:
        file.write(b"there's")
    assert refused(errno.EACCES, here, "cache/b")


def test_nobody_writes_what_is_immutable(home: Home) -> None:
    here, there = nodes(home)
    with open_file(here, "photo", "wb") as file:
        file.write(b"light")
    file_id = here.lookup(ROOT, b"photo").attributes.file
    here.set_mark(file_id, IMMUTABLE_NAME, b"1")
    assert (home.root / "photo").read_bytes() == b"light"
    for node_ in (here, there):
        for mode in ("r+b", "ab", "wb"):
            assert refused(errno.EPERM, node_, "photo", mode)
        with open_file(node_, "photo", "rb") as file:
            assert file.read() == b"light"
    there.set_mark(file_id, IMMUTABLE_NAME, b"0")
    with open_file(there, "photo", "wb") as file:
        file.write(b"dark")
    with open_file(here, "photo", "rb") as file:
        assert file.read() == b"dark"


def test_what_is_written_cannot_be_made_immutable(home: Home) -> None:
    here, there = nodes(home)
    with open_file(there, "photo", "wb") as file:
        file.write(b"light")
        file.flush()
        with pytest.raises(OSError, match=r".") as caught:
            here.set_mark(here.lookup(ROOT, b"photo").attributes.file, IMMUTABLE_NAME, b"1")
    assert caught.value.errno == errno.EBUSY


def test_opens_and_reads_of_what_is_immutable_ask_nobody(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_handles, "WRITE_BACK_SECONDS", 0.05)
    monkeypatch.setattr(file_handles, "IDLE_SECONDS", 0.05)
    here, there = nodes(home, PathRule("lib/*", mark="immutable"))
    (home.root / "lib").mkdir()
    (home.root / "lib/a").write_bytes(b"code" * 5000)
    with open_file(here, "lib/a", "rb") as file:
        assert file.read() == b"code" * 5000
    assert refused(errno.EPERM, there, "lib/a", "r+b")
    calls: list[str] = []
    for name in ("open", "close", "post", "attributes", "lookup"):
        monkeypatch.setattr(here.hub, name, lambda *a, _n=name, **k: calls.append(_n))
    time.sleep(0.3)  # a file that is no library is closed by now
    with open_file(here, "lib/a", "rb") as file:
        assert file.read() == b"code" * 5000
    assert not calls
    monkeypatch.undo()


@requires("fuse")
def test_a_mount_has_them_as_attributes(home: Home) -> None:
    here, there = nodes(home)
    mine, theirs = home.mount(here), home.mount(there)
    (mine / "diary").write_bytes(b"mine")
    assert eventually(lambda: _set(mine / "diary", "user.satchel.private", b"1"))
    with pytest.raises(PermissionError):
        (theirs / "diary").read_bytes()
    assert (theirs / "diary").exists()
    (mine / "diary").write_bytes(b"mine again")
    os.removexattr(mine / "diary", "user.satchel.private")
    assert (theirs / "diary").read_bytes() == b"mine again"


def _set(path: Path, name: str, value: bytes) -> bool:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        assert error.errno == errno.EBUSY
        return False
    return True
