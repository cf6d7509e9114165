# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a surrogate's node gets home what a guest has written: files at once, each of them once."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable

from guestshares.counts import CallName
from guestshares.gate import Gate
from guestshares.kernel import KernelRequest, Opcode, error_reply
from guestshares.messages import CompletedCalls
from guestshares.requests import asked
from guestshares.settler import Settler
from tests.waiting import eventually

WRITE_ONLY, BOTH = os.O_WRONLY, os.O_RDWR


class Node:
    """Answers a sync when its test says so."""

    def __init__(self) -> None:
        self.syncs: list[tuple[KernelRequest, Callable[[bytes], None]]] = []
        self.told: list[CallName] = []
        self.lost: list[str] = []
        self.settler = Settler(Gate(), self._say, self._perform, self.lost.append)

    def _perform(self, request: KernelRequest, answered: Callable[[bytes], None]) -> None:
        self.syncs.append((request, answered))

    def _say(self, told: CompletedCalls, answered: Callable[[bool], None]) -> None:
        self.told += [done.name for done in told.done]
        answered(True)

    def writes(self, number: int, file: int, flags: int) -> CallName:
        handle = file << 8 | flags
        name = CallName(1, 0, bytes([number]) * 16)
        body = struct.pack("<QQIIQII", handle, 0, 1, 0, 0, 0, 0) + b"x"
        request = asked(Opcode.WRITE, file, body)
        self.settler.written(name, error_reply(0, 0), handle, request)
        return name


def several(node: Node) -> list[CallName]:
    """Calls that are settled together: two files, one of them by two handles."""
    go_on = threading.Event()

    def await_all() -> None:
        go_on.wait(10.0)

    node.settler.then(await_all)
    names = [node.writes(1, 7, WRITE_ONLY), node.writes(2, 8, BOTH), node.writes(3, 7, BOTH)]
    go_on.set()
    return names


def test_files_are_synced_at_once_and_each_once() -> None:
    node = Node()
    names = several(node)
    assert eventually(lambda: len(node.syncs) == 2)
    assert {request.file for request, _ in node.syncs} == {7, 8}
    node.syncs[1][1](error_reply(0, 0))
    assert not node.told
    node.syncs[0][1](error_reply(0, 0))
    assert node.settler.drain(10.0)
    assert node.told == names
    node.settler.close()


def test_one_that_home_does_not_have_loses_the_lead() -> None:
    node = Node()
    several(node)
    assert eventually(lambda: len(node.syncs) == 2)
    node.syncs[0][1](error_reply(0, 0))
    node.syncs[1][1](error_reply(0, 5))
    assert eventually(lambda: bool(node.lost))
    assert not node.told
    node.settler.close()
