# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Plays operations onto whatever executes them, from where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from replay.operations import Operation, OperationGap, Response
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent


class Executor(Protocol):
    """What operations are played onto: an agent's channel, a replica."""

    @property
    def last(self) -> OperationNumber:
        """The last operation that it has executed, 0 before the first."""

    def execute(self, operation: Operation) -> Response:
        """Executes the operation that follows `last`."""


def _drop(response: Response) -> None:
    """What happens to a response that nobody waits for."""


def play(
    operations: Iterable[Operation],
    executor: Executor,
    *,
    total: int = 0,
    on_progress: Progress = silent,
    on_response: Callable[[Response], None] = _drop,
) -> OperationNumber:
    """Executes the operations that the executor has not executed yet, in order.

    Operations may begin before `executor.last`; those are skipped. `on_progress` counts operations,
    skipped ones too; `total` is how many there are, 0 for unknown. Returns the number of the last
    executed one. Raises OperationGap before anything is executed out of order, and what the
    executor raises.
    """
    last = executor.last
    for done, operation in enumerate(operations, start=1):
        if operation.number > last + 1:
            raise OperationGap("cannot play the log", number=operation.number, last=last)
        if operation.number > last:
            on_response(executor.execute(operation))
            last = operation.number
        on_progress(done, total)
    return last
