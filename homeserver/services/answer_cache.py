# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The last responses of a service, for a client whose connection broke."""

from __future__ import annotations

from collections import OrderedDict

from replay import Response
from satchel.ids import OperationNumber

ANSWERS_KEPT = 256
ANSWER_BYTES_KEPT = 64 << 20
"""Responses kept for a client that asks again after its connection broke; one always is."""


class AnswerCache:
    """The last responses, bounded in number and bytes. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[OperationNumber, Response] = OrderedDict()
        self._bytes = 0

    def keep(self, response: Response) -> None:
        if old := self._kept.pop(response.number, None):
            self._bytes -= len(old.payload)
        self._kept[response.number] = response
        self._bytes += len(response.payload)
        while len(self._kept) > ANSWERS_KEPT or (
            len(self._kept) > 1 and self._bytes > ANSWER_BYTES_KEPT
        ):
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.payload)

    def of(self, number: OperationNumber) -> Response | None:
        return self._kept.get(number)
