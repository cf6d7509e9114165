# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of one service, in order, durable before any replica sees them.

The journal is on the media where there is one, else on the client's own disk. When the media
fails in the middle of a run (pulled out, full, read-only), what home has not yet acknowledged is
written to the client's disk and the journal goes on there; the next run brings both together.

A stateless service has a journal in memory only: any replica answers, nothing is replayed.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from replay import Durability, Log, Operation
from satchel.errors import IntegrityError, SatchelError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

Encode = Callable[[OperationNumber, int, int], bytes]
"""Makes an operation's payload from its number, its time (ns) and its seed."""


class JournalGap(IntegrityError):
    """Operations are missing between what the journal has and what it should go on from."""


class Journal:
    """Operations since `base`, kept in memory and in a log. Thread-safe.

    folder: where the log is, or None for a stateless service
    spare:  where the log goes on when `folder` fails
    """

    def __init__(
        self, folder: Path | None, spare: Path | None, durability: Durability = "each"
    ) -> None:
        self._changed = threading.Condition()
        self._operations: list[Operation] = []
        self._base = OperationNumber(0)
        self._spare = spare
        self._durability = durability
        self._stable = OperationNumber(0)
        self._log: Log | None = None
        self.failure: SatchelError | None = None
        if folder is None:
            return
        self._log = Log.open(folder, durability=durability)
        self._load(self._log)
        if spare is not None and spare != folder and spare.exists():
            self._merge(spare)

    @property
    def base(self) -> OperationNumber:
        """The number before the first operation that the journal has."""
        return self._base

    @property
    def last(self) -> OperationNumber:
        """The number of the last operation."""
        with self._changed:
            return self._last()

    @property
    def stable(self) -> OperationNumber:
        """The last operation that home has on disk, as far as this client was told."""
        return self._stable

    def start_from(self, base: OperationNumber) -> None:
        """Let an empty journal go on after operation `base`."""
        with self._changed:
            assert not self._operations
            self._base = base
            if self._log:
                self._log.cut(base)

    def extend(self, operations: Iterable[Operation]) -> None:
        """Take over operations that home has and the journal has not."""
        with self._changed:
            for operation in operations:
                if operation.number <= self._last():
                    continue
                if operation.number != self._last() + 1:
                    raise JournalGap(
                        f"the journal ends at operation {self._last()}",
                        why=f"the next one that is known is {operation.number}",
                        fix="refresh the media at home",
                    )
                self._keep(operation)

    def append(self, encode: Encode) -> Operation:
        """Number, make and keep a new operation. Durable on return (policy `each`)."""
        with self._changed:
            number = OperationNumber(self._last() + 1)
            previous = self._operations[-1].time_ns if self._operations else 0
            now, seed = max(time.time_ns(), previous + 1), secrets.randbits(64)
            operation = Operation(number, now, seed, encode(number, now, seed))
            self._keep(operation)
            return operation

    def wait(self, after: OperationNumber, limit: int, timeout: float) -> list[Operation]:
        """Operations after that number, at most `limit`; empty when none came in `timeout` s.

        Raises JournalGap when the journal begins later than that.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._last() > after, timeout)
            if after < self._base:
                raise JournalGap(
                    f"operation {after + 1} is not in the journal",
                    why=f"it begins with operation {self._base + 1}",
                )
            start = after - self._base
            return self._operations[start : start + limit]

    def acknowledge(self, number: OperationNumber) -> None:
        """Note that home has every operation up to that one on disk."""
        with self._changed:
            self._stable = max(self._stable, number)
            if self._log is None:
                self._forget(number)

    def wake(self) -> None:
        """Wake every waiter, so that a feed sees that it should end."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if self._log:
                self._log.close()

    def _last(self) -> OperationNumber:
        return OperationNumber(self._base + len(self._operations))

    def _load(self, log: Log) -> None:
        self._operations = list(log.read(OperationNumber(log.first - 1)))
        first = self._operations[0].number if self._operations else log.last + 1
        self._base = OperationNumber(first - 1)

    def _merge(self, spare: Path) -> None:
        """Bring in what an earlier run had to write beside the media."""
        log = Log.open(spare)
        for operation in log.read(OperationNumber(log.first - 1)):
            if operation.number == self._last() + 1:
                self._keep(operation)
        log.cut(log.last)
        log.close()

    def _keep(self, operation: Operation) -> None:
        if self._log:
            try:
                self._log.append(operation)
            except SatchelError as error:
                self._go_on_beside(error)
                self._log.append(operation)
        self._operations.append(operation)
        self._changed.notify_all()

    def _go_on_beside(self, error: SatchelError) -> None:
        if self.failure or self._spare is None:
            raise error
        logger.error("%s; operations are logged in %s from here on", error, self._spare)
        self.failure = error
        unstable = [op for op in self._operations if op.number > self._stable]
        log = Log.open(self._spare, durability=self._durability)
        log.cut(OperationNumber(unstable[0].number - 1 if unstable else self._last()))
        for operation in unstable:
            log.append(operation)
        self._log = log

    def _forget(self, upto: OperationNumber) -> None:
        drop = min(len(self._operations), max(0, upto - self._base))
        del self._operations[:drop]
        self._base = OperationNumber(self._base + drop)
