# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Policies and relaxations of some of a share's files: how they are kept, and what programs see."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from homeserver.cli.share import POLICY_HELP
from homeserver.shares import ShareDamaged, ShareRegistry
from satchel.errors import NotFoundError, UnsupportedError, UsageError
from shares.home import NodeRecord, PathRule, ShareRecord, Terms
from shares.node import ROOT, Node
from shares.protocol import BLOCK, POLICIES, NodeId
from tests.homeserver.shares.conftest import Home
from tests.shares.history import INITIAL, Operation, check, check_staleness

GOLDEN = b"""\
{
  "version": 3,
  "name": "photos",
  "path": "/srv/photos",
  "policy": "delayed-update",
  "relaxation": 0.0,
  "log": "async",
  "rules": [
    {
      "glob": "cache/*",
      "policy": null,
      "relaxation": 1.5,
      "mark": "private"
    }
  ]
}
"""
SECOND = GOLDEN.replace(b'"version": 3', b'"version": 2').replace(
    b',\n      "mark": "private"', b""
)
FIRST = b"""\
{
  "version": 1,
  "name": "photos",
  "path": "/srv/photos",
  "policy": "delayed-update",
  "relaxation": 0.0,
  "log": "async"
}
"""
RECORD = ShareRecord("photos", "/srv/photos", rules=(PathRule("cache/*", None, 1.5, "private"),))

SECONDS = 4.0
BOUND = 1.0
UID, GID = os.getuid(), os.getgid()


def write(shelf: ShareRegistry, data: bytes) -> None:
    shelf.folder("photos").mkdir(parents=True, exist_ok=True)
    (shelf.folder("photos") / "share.json").write_bytes(data)


@pytest.fixture
def shelf(home: Home) -> ShareRegistry:
    return home.shelf


def test_golden_bytes(shelf: ShareRegistry) -> None:
    shelf.add(RECORD)
    assert (shelf.folder("photos") / "share.json").read_bytes() == GOLDEN
    assert shelf.get("photos") == RECORD


def test_a_description_of_the_first_version_has_no_rules(shelf: ShareRegistry) -> None:
    write(shelf, FIRST)
    assert shelf.get("photos") == ShareRecord("photos", "/srv/photos")


def test_a_rule_of_the_second_version_has_no_mark(shelf: ShareRegistry) -> None:
    write(shelf, SECOND)
    rules = (PathRule("cache/*", None, 1.5),)
    assert shelf.get("photos") == ShareRecord("photos", "/srv/photos", rules=rules)


@pytest.mark.parametrize(
    "data",
    [
        GOLDEN[:-5],
        GOLDEN.replace(b'"private"', b'"secret"'),
        b"[]",
        GOLDEN.replace(b"1.5", b"-1.5"),
        GOLDEN.replace(b"1.5", b"NaN"),
        GOLDEN.replace(b'"cache/*"', b'"/cache/*"'),
        GOLDEN.replace(b"null", b'"never"'),
        GOLDEN.replace(b'"log": "async",', b""),
        FIRST.replace(b'"version": 1', b'"version": 3'),
        FIRST.replace(b'"version": 1', b'"version": true'),
    ],
)
def test_a_damaged_description_is_refused(shelf: ShareRegistry, data: bytes) -> None:
    write(shelf, data)
    with pytest.raises(ShareDamaged, match=r"share\.json"):
        shelf.get("photos")


def test_a_newer_description_is_refused(shelf: ShareRegistry) -> None:
    write(shelf, json.dumps({**json.loads(GOLDEN), "version": 4}).encode())
    with pytest.raises(UnsupportedError, match="version 4"):
        shelf.get("photos")


NODES = b"""{
 "version": 1,
 "nodes": [
  {
   "share": "photos",
   "node": 3,
   "token": "5eed"
  }
 ]
}
"""


def test_golden_bytes_of_nodes(shelf: ShareRegistry) -> None:
    assert shelf.nodes() == []
    shelf.keep_nodes([NodeRecord("photos", NodeId(3), "5eed")])
    assert (shelf.root / "nodes.json").read_bytes() == NODES
    assert shelf.nodes() == [NodeRecord("photos", NodeId(3), "5eed")]


@pytest.mark.parametrize(
    "data",
    [
        NODES[:-4],
        b"[]",
        NODES.replace(b"3", b"0"),
        NODES.replace(b"3", b"true"),
        NODES.replace(b'"5eed"', b"null"),
        NODES.replace(b'"version": 1', b'"version": 2'),
    ],
)
def test_of_nodes_that_cannot_be_read_none_is_known(shelf: ShareRegistry, data: bytes) -> None:
    shelf.keep_nodes([])
    (shelf.root / "nodes.json").write_bytes(data)
    assert shelf.nodes() == []


def test_of_several_rules_the_last_one_counts() -> None:
    record = RECORD.with_terms("*.tmp", "write-invalidate", None)
    assert record.terms("a/b") == ("delayed-update", 0.0)
    assert record.terms("cache/a/b") == ("delayed-update", 1.5)
    assert record.terms("cache/a.tmp") == ("write-invalidate", 1.5)
    record = record.with_terms("cache/*", None, 0.5)
    assert [rule.glob for rule in record.rules] == ["*.tmp", "cache/*"]
    assert record.with_terms("cache/*", "write-update", None).terms("cache/a.tmp") == (
        "write-update",
        0.5,
    )
    assert record.with_terms(None, "write-update", None).terms("x") == ("write-update", 0.0)
    assert Terms("*.tmp", forget=True).change(record).terms("b.tmp") == ("delayed-update", 0.0)


def test_the_help_names_the_policies_that_there_are() -> None:
    """Nothing but an error did."""
    assert all(name in POLICY_HELP for name in POLICIES)


def test_terms_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(UsageError):
        RECORD.with_terms("x", "never", None)
    with pytest.raises(UsageError):
        RECORD.with_terms("", None, 1.0)
    with pytest.raises(UsageError):
        Terms(forget=True).change(RECORD)
    with pytest.raises(NotFoundError, match="no rule for x"):
        Terms("x", forget=True).change(RECORD)


def test_a_file_has_the_terms_of_its_path_when_a_node_opens_it(home: Home) -> None:
    home.add(rules=(PathRule("cache/*", "write-update", 2.0),))
    (home.root / "cache").mkdir()
    (home.root / "cache" / "a").touch()
    (home.root / "b").touch()
    os.link(home.root / "cache" / "a", home.root / "c")
    hub = home.join("one").node.hub
    folder = hub.lookup(ROOT, b"cache").attributes.file
    relaxed = hub.open(hub.lookup(folder, b"a").attributes.file, False, False)
    strong = hub.open(hub.lookup(ROOT, b"b").attributes.file, False, False)
    assert (relaxed.policy, relaxed.relaxation) == ("write-update", 2.0)
    assert (strong.policy, strong.relaxation) == ("delayed-update", 0.0)
    file = hub.lookup(ROOT, b"c").attributes.file
    hub.close(lambda _: None, file)
    assert hub.open(file, False, False).relaxation == 0.0, "it has a name to which nothing applies"
    home.shares.change("photos", Terms("b", relaxation=1.0).change)
    home.begin_again()
    assert home.share.record.terms("b") == ("delayed-update", 1.0)


class Program:
    """Reads, or writes, both files in turn, and notes what it saw of the first block of each."""

    def __init__(self, node: Node, which: int, handles: dict[str, int]) -> None:
        self.history: list[Operation] = []
        self._node, self._which, self._handles = node, which, handles

    def run(self, until: float, pause: float) -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            for name, handle in self._handles.items():
                self._access(name, handle, turn)
            time.sleep(pause)

    def _access(self, name: str, handle: int, turn: int) -> None:
        value = f"{turn:08}"
        began = time.monotonic()
        if self._which == 0:
            self._node.write(handle, 0, value.encode())
        else:
            data = self._node.read(handle, 0, 8)
            value = data.decode() if data.strip(b"\0") else INITIAL
        ended = time.monotonic()
        self.history.append(Operation(self._which, name, self._which == 0, value, began, ended))


def test_one_path_is_as_old_as_its_rule_allows_and_another_is_strong(home: Home) -> None:
    home.add(rules=(PathRule("cache*", relaxation=BOUND),))
    nodes = [home.join(name).node for name in ("writer", "reader")]
    handles: list[dict[str, int]] = [{}, {}]
    for name in ("cache", "strong"):
        entry, handle = nodes[0].create(ROOT, name.encode(), 0o644, os.O_RDWR, UID, GID)
        nodes[0].write(handle.number, 0, bytes(BLOCK))
        handles[0][name] = handle.number
        handles[1][name] = nodes[1].open(entry.attributes.file, os.O_RDONLY).number
    programs = [Program(node, which, handles[which]) for which, node in enumerate(nodes)]
    until = time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=program.run, args=(until, pause))
        for program, pause in zip(programs, (0.05, 0.01), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = {
        name: [one for program in programs for one in program.history if one.register == name]
        for name in ("cache", "strong")
    }
    assert len({one.value for one in seen["cache"] if not one.writes}) > 1, "it never got newer"
    assert not check_staleness(seen["cache"], BOUND)
    assert check_staleness(seen["cache"], BOUND / 20), "nothing was read that was old"
    assert not check(seen["strong"])
