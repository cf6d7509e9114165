# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the replicas answered to the last operations, compared by digest as the answers come.

Home is believed: whoever answered otherwise than home diverges, whichever of the two was first.
While home has not answered, an answer is compared with the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

from client.feed import Feed
from replay import Response
from satchel.ids import OperationNumber

OPERATIONS_KEPT = 1024
"""Operations whose answers are remembered for comparison with later ones."""

PAYLOAD_BYTES_KEPT = 16 << 20
"""Bytes of responses that are remembered whole; of older ones the digests are."""


@dataclass
class Said:
    """What one replica answered. payload: None where it is not remembered any more."""

    digest: bytes
    payload: bytes | None


@dataclass(frozen=True)
class Divergence:
    """One replica answered an operation otherwise than the one that is believed."""

    operation: OperationNumber
    feed: Feed
    said: Said
    believed: Feed
    expected: Said


class Comparison:
    """See the module. Not thread-safe. home: the name of the feed that is believed."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._operations: dict[OperationNumber, dict[Feed, Said]] = {}
        self._whole: dict[OperationNumber, int] = {}
        self._bytes = 0

    def add(self, feed: Feed, response: Response) -> tuple[bool, list[Divergence]]:
        """Whether another replica had answered that operation before, and who diverges now that
        this answer is known. An answer that a replica repeats says nothing new."""
        said = self._operations.setdefault(response.number, {})
        if feed in said:
            return False, []
        digest = response.digest
        alike = next((s.payload for s in said.values() if s.digest == digest and s.payload), None)
        if alike is None:
            self._note(response)
        said[feed] = Said(digest, response.payload if alike is None else alike)
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

    def _bound(self) -> None:
        while len(self._operations) > OPERATIONS_KEPT:
            self._drop(next(iter(self._operations)))
        while self._bytes > PAYLOAD_BYTES_KEPT and len(self._whole) > 1:
            number = next(iter(self._whole))
            self._bytes -= self._whole.pop(number)
            for said in self._operations[number].values():
                said.payload = None

    def _drop(self, number: OperationNumber) -> None:
        del self._operations[number]
        self._bytes -= self._whole.pop(number, 0)
