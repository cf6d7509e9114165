# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that nodes at real sockets, whose connections are slow and break, make and look for in
folders that were one node's own: as if each were made at one moment, for all of them.

Each name of each folder is a register. Who makes it, and nobody made it before, writes the id of
the file; who looks it up, lists the folder, or is told that it exists has read it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shares.home.directory.promises import Promises
from shares.home.nodes.session import NodeSession
from shares.node import ROOT, Node
from shares.node.names.local_creations import LocalCreations
from shares.protocol import FileId
from tests.homeserver.shares.conftest import Home
from tests.homeserver.shares.delayed import DelayedSocket
from tests.shares.history import INITIAL, Operation, check, dump
from tests.shares.home.test_promises import remembering

UID, GID = os.getuid(), os.getgid()

NODES = 3
FOLDERS = 30
NAMES = 10
DELAY_SECONDS = 0.004
"""Of a way to home, in each direction."""

EXISTS = "?"
"""What was read by who was told that the name is there; that is what somebody wrote."""


class Recorder:
    """A program at each node. In each folder, which one of the nodes has made, that one makes all
    names in order; the others begin some time later to look for them, and to make them as well."""

    def __init__(self, nodes: list[Node]) -> None:
        self.history: list[Operation] = []
        self._nodes = nodes
        self._number, self._folder = -1, FileId(0)
        self._all = threading.Barrier(len(nodes), action=self._next)

    def _next(self) -> None:
        self._number += 1
        name = b"folder %d" % self._number
        maker = self._nodes[self._number % len(self._nodes)]
        self._folder = maker.make_folder(ROOT, name, 0o755, UID, GID).attributes.file

    def run(self) -> None:
        with ThreadPoolExecutor(len(self._nodes)) as programs:
            tasks = [programs.submit(self._program, which) for which in range(len(self._nodes))]
            for task in tasks:
                task.result(300)

    def _program(self, which: int) -> None:
        chance = random.Random(which)
        for _ in range(FOLDERS):
            self._all.wait(60)
            if self._number % len(self._nodes) == which:
                for name in range(NAMES):
                    self._make(which, name)
                    time.sleep(chance.random() * 0.006)
                continue
            time.sleep(chance.random() * 0.02)
            for _ in range(NAMES):
                act = chance.choice([self._make, self._look, self._look, self._list])
                act(which, chance.randrange(NAMES))

    def _make(self, which: int, name: int) -> None:
        node, began = self._nodes[which], time.monotonic()
        flags = os.O_RDWR | os.O_EXCL
        try:
            entry, handle = node.create(self._folder, b"%d" % name, 0o644, flags, UID, GID)
        except FileExistsError:
            self._note(which, name, EXISTS, began)
            return
        self._note(which, name, str(entry.attributes.file), began, writes=True)
        with suppress(OSError):  # nobody has called it back: that is what is looked for
            node.release(handle.number, 0)

    def _look(self, which: int, name: int) -> None:
        began, value = time.monotonic(), INITIAL
        with suppress(FileNotFoundError):
            value = str(self._nodes[which].lookup(self._folder, b"%d" % name).attributes.file)
        self._note(which, name, value, began)

    def _list(self, which: int, name: int) -> None:
        del name
        began = time.monotonic()
        entries = self._nodes[which].entries(self._folder)
        found = {int(entry.name): str(entry.attributes.file) for entry in entries}
        for each in range(NAMES):
            self._note(which, each, found.get(each, INITIAL), began)

    def _note(
        self, which: int, name: int, value: str, began: float, *, writes: bool = False
    ) -> None:
        register = f"{self._number}/{name}"
        self.history.append(Operation(which, register, writes, value, began, time.monotonic()))

    def violations(self) -> str:
        """What no order explains; "" where there is one."""
        made: defaultdict[str, set[str]] = defaultdict(set)
        for op in self.history:
            if op.writes:
                made[op.register].add(op.value)
        twice = [op for op in self.history if op.writes and len(made[op.register]) > 1]
        if twice:
            return dump(twice)
        history = [
            replace(op, value=next(iter(made[op.register]), "nobody")) if op.value == EXISTS else op
            for op in self.history
        ]
        found = check(history)
        return dump(found[0].operations) if found else ""


@pytest.fixture
def recorder(home: Home, short_path: Path, request: pytest.FixtureRequest) -> Recorder:
    home.add()
    nodes = []
    for number in range(NODES):
        way = short_path / f"way{number}"
        slow = DelayedSocket(way, short_path / "s", DELAY_SECONDS)
        request.addfinalizer(slow.close)
        nodes.append(remembering(home, home.join(str(number), line=home.line(way)).node))
    return Recorder(nodes)


def test_names_that_one_node_makes_ahead_are_made_at_one_moment_for_all(
    home: Home, recorder: Recorder
) -> None:
    over = threading.Event()

    def cut() -> None:
        chance = random.Random(7)
        while not over.wait(0.05):
            caller: Any = home.members[chance.randrange(NODES)].membership._caller
            caller.duplex.cut()

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        recorder.run()
    finally:
        over.set()
        cutting.join()
    assert recorder.violations() == ""
    ahead = sum(s.traffic["in", "make"] for s in home.share.sessions.values())
    assert ahead > FOLDERS  # else the test says nothing
    assert not any(member.over for member in home.members)


def nobody_is_called_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Promises, "_disown", lambda *about: False)


def the_owner_makes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCreations, "disown", lambda ahead, folder, done: done())


def what_is_made_is_behind_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Home's answer to being called back is not held up by what was said before it."""
    perform = NodeSession._perform

    def later(session: NodeSession, payload: bytes, answer: Callable[[bytes], None]) -> None:
        if payload.startswith(b'\x40["make",'):
            threading.Timer(0.01, perform, (session, payload, answer)).start()
        else:
            perform(session, payload, answer)

    monkeypatch.setattr(NodeSession, "_perform", later)
    monkeypatch.setattr(LocalCreations, "disown", answer_at_once)


def answer_at_once(ahead: LocalCreations, folder: FileId, done: Callable[[], None]) -> None:
    ahead.drop(folder)
    done()


@pytest.mark.parametrize(
    "fault", [nobody_is_called_back, what_is_made_is_behind_other_calls, the_owner_makes_on]
)
def test_the_history_of_names_shows(
    fault: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    fault(monkeypatch)  # before the nodes are made, which listen from then on
    recorder: Recorder = request.getfixturevalue("recorder")
    recorder.run()
    assert recorder.violations()
