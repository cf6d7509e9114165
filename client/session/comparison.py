# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the replicas answered to the last operations, compared by digest as the answers come.

Home is believed: whoever answered otherwise than home diverges, whichever of the two was first.
While home has not answered, an answer is compared with the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

from client.session.feed import Feed
from replay import Operation, Response
from satchel.ids import OperationNumber

OPERATIONS_KEPT = 1 << 14
"""The last operations, whose answers are remembered for comparison with later ones. Not what came
last: who replays a long log would drive out what its answers are going to be compared with."""

PAYLOAD_BYTES_KEPT = 16 << 20
"""Bytes of responses that are remembered whole; of older ones the digests are."""


@dataclass
class ReplicaAnswer:
    """What one replica answered. payload: None where it is not remembered any more; signature: of
    its host's statement, empty without one."""

    digest: bytes
    payload: bytes | None
    signature: bytes = b""


@dataclass(frozen=True)
class Divergence:
    """One replica answered an operation otherwise than the one that is believed. asked: that
    operation, where no journal has it."""

    operation: OperationNumber
    feed: Feed
    said: ReplicaAnswer
    believed: Feed
    expected: ReplicaAnswer
    asked: Operation | None = None


class Comparison:
    """See the module. Not thread-safe. home: the name of the feed that is believed."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._operations: dict[OperationNumber, dict[Feed, ReplicaAnswer]] = {}
        self._whole: dict[OperationNumber, int] = {}
        self._bytes = 0
        self._forgotten = 0

    def add(self, feed: Feed, response: Response) -> tuple[bool, list[Divergence]]:
        """Whether another replica had answered that operation before, and who diverges now that
        this answer is known. An answer that a replica repeats says nothing new, and one to an
        operation that is remembered no more is compared with nothing."""
        if response.number <= self._forgotten:
            return False, []
        self._forget_up_to(response.number - OPERATIONS_KEPT)
        said = self._operations.setdefault(response.number, {})
        if feed in said:
            return False, []
        digest = response.digest
        alike = next((s.payload for s in said.values() if s.digest == digest and s.payload), None)
        if alike is None:
            self._note(response)
        payload = alike or (None if response.long else response.payload)
        said[feed] = ReplicaAnswer(digest, payload, response.signature)
        found = self._divergences(response.number, feed)
        self._bound()
        return len(said) > 1, found

    def forget(self, feed: Feed) -> None:
        """Compare nothing with what that replica said: it is not trusted any more."""
        for number in list(self._operations):
            self._operations[number].pop(feed, None)
            if not self._operations[number]:
                self._drop(number)

    def _divergences(self, number: OperationNumber, feed: Feed) -> list[Divergence]:
        said = self._operations[number]
        home = next((other for other in said if other.name == self._home), None)
        believed = home or next(iter(said))
        judged = list(said) if feed is home else [feed]
        return [
            Divergence(number, other, said[other], believed, said[believed])
            for other in judged
            if said[other].digest != said[believed].digest
        ]

    def _note(self, response: Response) -> None:
        self._whole[response.number] = self._whole.get(response.number, 0) + len(response.payload)
        self._bytes += len(response.payload)

    def _forget_up_to(self, number: int) -> None:
        """Remember nothing of operations up to that one."""
        if not self._operations:
            self._forgotten = max(self._forgotten, number)
        while self._forgotten < number:
            self._forgotten += 1
            if self._forgotten in self._operations:
                self._drop(OperationNumber(self._forgotten))

    def _bound(self) -> None:
        while self._bytes > PAYLOAD_BYTES_KEPT and len(self._whole) > 1:
            number = next(iter(self._whole))
            self._bytes -= self._whole.pop(number)
            for said in self._operations[number].values():
                said.payload = None

    def _drop(self, number: OperationNumber) -> None:
        del self._operations[number]
        self._bytes -= self._whole.pop(number, 0)
