# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What any policy has to move: a bound for the traffic of all of them.

Each version of a block that one side reads and the other one has written goes over the link once,
and to read what was made since the last message takes one and its answer. The other node is beside
home, so what is at home is on its side. What closes take home goes there anyway, and is not moved
again. That nobody forgets a copy, and that everything else is free (owning a block, invalidating,
opening), no policy reaches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from papers.ofs.machines import EXTENT_BYTES
from papers.ofs.network import FRAME, Traffic
from papers.ofs.plan import Plan, Step
from shares.node import encode
from shares.protocol import ATTRIBUTES, BLOCK, Ack, FileId, Flush

LEAST = "least traffic"

_CARRIER = FRAME + len(encode(Flush(FileId(0), 0, 0))) + 1
_ANSWER = FRAME + len(encode(Ack(FileId(0), 0, 0)))
"""Bytes of messages about no block; the one has a byte for the form of content."""

_NAMED = 8 + 2
"""Bytes that say which block is in a message, and how long it is."""


def least(plan: Plan) -> Traffic:
    """Bytes, of content and of messages; closes among them, as in a replay's."""
    counting = _TrafficCount()
    for step in plan.steps:
        counting.do(step)
    return Traffic(bytes=counting.bytes, closes=counting.closes)


@dataclass
class _TrafficCount:
    """lacks: blocks whose latest version the mobile (False) or the other side (True) has not.
    using: tasks that have a file open at the mobile, and touched: whether one has written it since
    it was closed there; changed: whether something was written since the last message."""

    bytes: Counter[str] = field(default_factory=Counter)
    closes: int = 0
    lacks: dict[bool, set[tuple[FileId, int]]] = field(
        default_factory=lambda: {False: set(), True: set()}
    )
    using: Counter[FileId] = field(default_factory=Counter)
    touched: set[FileId] = field(default_factory=set)
    changed: bool = False
    size: defaultdict[FileId, int] = field(default_factory=lambda: defaultdict(int))

    def do(self, step: Step) -> None:
        file, away = step.file, step.away
        if step.opens and not away:
            self.using[file] += 1
        whole = set(step.whole) if step.write else set()
        read = {(file, number) for number in step.numbers if number not in whole}
        if not step.write:
            read.add((file, ATTRIBUTES))
        self._bring(read & self.lacks[away], away)
        self.size[file] = step.bytes
        if step.write:
            self._write(step)
        if step.closes and not away:
            self._close(file)

    def _bring(self, wanted: set[tuple[FileId, int]], away: bool) -> None:
        if wanted:
            self.bytes["content"] += self._content(wanted)
            self.bytes["messages"] += _CARRIER + _ANSWER if self.changed else 0
            self.changed = False
            self.lacks[away] -= wanted

    def _content(self, blocks: set[tuple[FileId, int]]) -> int:
        return sum(_NAMED + self._held(file, number) for file, number in blocks)

    def _held(self, file: FileId, number: int) -> int:
        if number == ATTRIBUTES:
            return EXTENT_BYTES
        return max(0, min(BLOCK, self.size[file] - number * BLOCK))

    def _write(self, step: Step) -> None:
        numbers = [*step.numbers, *([ATTRIBUTES] if step.changes else [])]
        written = {(step.file, number) for number in numbers}
        if step.cut is not None:
            end = -(-step.cut // BLOCK)
            for side in self.lacks.values():
                side -= {each for each in side if each[0] == step.file and each[1] >= end}
        self.lacks[step.away] -= written
        self.lacks[not step.away] |= written
        self.changed = True
        if not step.away:
            self.touched.add(step.file)

    def _close(self, file: FileId) -> None:
        """What the mobile wrote goes home behind the last close, its time with it."""
        self.using[file] -= 1
        if self.using[file] or file not in self.touched:
            return
        self.touched.discard(file)
        self.lacks[True].add((file, ATTRIBUTES))
        going = {each for each in self.lacks[True] if each[0] == file}
        size = self._content(going) + _CARRIER
        self.bytes["content"] += size - _CARRIER
        self.bytes["messages"] += _CARRIER + _ANSWER
        self.closes += size  # as replays count them, without their answers
        self.lacks[True] -= going


__all__ = ["LEAST", "least"]
