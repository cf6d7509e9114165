# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of one service, in order, durable before any replica sees them.

The journal is on the medium where there is one, else on the client's own disk, the spare place.
When the medium fails (pulled out, full, read-only; at the start or in the middle of a run), what
home has not yet acknowledged is written to the spare place and the journal goes on there:

    on media --the medium fails--> beside the medium     `failure` says why

The next run brings both together, and only then is the spare log emptied. Operations in the spare
log that do not follow what is on the medium are kept until the ones between them are known.

The journal of a stateless service stays empty: any replica answers, nothing is replayed.
All operations of a stateful one stay in memory as well, because a replica that comes up later
replays them from there when the medium is gone.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from replay import Durability, KeyRing, Log, LogFull, LogGone, LogReadOnly, Operation
from satchel.errors import ConflictError, IntegrityError, SatchelError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

Encode = Callable[[OperationNumber, int, int], bytes]
"""Makes an operation's payload from its number, its time (ns) and its seed."""

BATCH_BYTES = 8 << 20
"""Bytes of operations that `wait` returns at most, unless the first one alone is larger."""

AHEAD_NS = 3600 * 10**9
"""The most that an operation's time is ahead of the clock, to be later than the previous one."""

FIRST = OperationNumber(0)

NEVER = threading.Event()
"""Not set by anybody."""


class JournalGap(IntegrityError):
    """Operations are missing between the journal's last one and the one that follows."""


class JournalParted(ConflictError):
    """Two logs of one service have different operations with the same number."""

    def __init__(self, number: OperationNumber, where: str, fix: str) -> None:
        super().__init__(
            f"operation {number} in the journal is not the one {where}",
            why="two clients used the service without knowing of each other",
            fix=fix,
        )
        self.number = number


class Journal:
    """Operations since `base`, in memory and in a log. Thread-safe.

    path:  where the log is, or None for a stateless service
    spare: where the log goes on when that fails; the same as `path` where there is no media
    keys:  of the service, which seal the log at `path`; None before home has given them to this
           client, and for a log on the client's own disk
    secret: that conceals the operations at `path`; None for a log in clear
    """

    def __init__(
        self,
        path: Path | None,
        spare: Path | None,
        durability: Durability = "each",
        keys: KeyRing | None = None,
        secret: bytes | None = None,
    ) -> None:
        """Raises LogCorrupt, LogBusy, and what the spare place raises when both fail."""
        self._writing = threading.Lock()  # held while the log is written to
        self._changed = threading.Condition()  # guards the list; never held during IO
        self._operations: list[Operation] = []
        self._base = FIRST
        self._latest_ns = 0
        self._stable = FIRST
        self._path = path
        self._spare = spare
        self._durability = durability
        self._keys = keys
        self._secret = secret
        self._doubtful: set[OperationNumber] = set()
        self._log: Log | None = None
        self.failure: SatchelError | None = None
        if path is not None:
            self._open(path)

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

    @property
    def place(self) -> Path | None:
        """The folder of the log that is written to now; None without a log."""
        return self._log.path if self._log else None

    @property
    def beside(self) -> bool:
        """Whether the medium has failed, so that new operations are not on it."""
        return self.failure is not None

    def doubtful(self, after: OperationNumber) -> set[OperationNumber]:
        """Those behind `after` that were in a log without the seal of the service's key."""
        return {number for number in self._doubtful if after < number <= self.last}

    def vouch(self) -> None:
        """Let the current key vouch for all operations in the log: the caller knows that they are
        the service's. Raises as Log.vouch."""
        with self._writing:
            if self._log:
                self._log.vouch()

    def get(self, number: OperationNumber) -> Operation | None:
        """That operation, or None when the journal does not have it."""
        with self._changed:
            if not self._base < number <= self._last():
                return None
            return self._operations[number - self._base - 1]

    def restart(self, base: OperationNumber) -> None:
        """Forget every operation and go on after `base`. The caller knows that home has them."""
        with self._writing:
            if self._log:
                self._log.cut(self._log.last)
                self._log.start_from(base)
            with self._changed:
                self._operations.clear()
                self._base = base

    def cut(self, upto: OperationNumber) -> None:
        """Forget operations up to that number, which a checkpoint has and nobody replays."""
        with self._writing:
            if self._log:
                self._log.cut(upto)
            self._forget(upto)

    def sync(self) -> None:
        """Have every operation durable, whatever the durability. Raises as Log.sync."""
        with self._writing:
            if self._log:
                self._log.sync()

    def merge(self) -> bool:
        """Bring in what an earlier run had to log beside the medium; empty that log.

        False when its operations do not follow what is here: call again when those between are
        known. Raises JournalParted.
        """
        with self._writing:
            if self.beside or self._spare is None or self._spare == self._path:
                return True
            if not Log.exists(self._spare):
                return True
            with Log.open(self._spare) as spare:
                operations = _all(spare)
                if not self._follow(operations):
                    return False
                for operation in operations:
                    self._keep_new(operation)
                if not self.beside:
                    spare.cut(spare.last)
            return True

    def extend(self, operations: Iterable[Operation]) -> None:
        """Take over operations that home has and the journal has not. Raises JournalGap."""
        with self._writing:
            for operation in operations:
                if operation.number > self._last() + 1:
                    raise JournalGap(
                        f"the journal ends at operation {self._last()}",
                        why=f"the next one that is known is {operation.number}",
                        fix="refresh the medium at home",
                    )
                self._keep_new(operation)

    def append(
        self, encode: Encode, promise: Callable[[Operation], None] = lambda operation: None
    ) -> Operation:
        """Number, make and keep a new operation. Durable on return (durability `each`).

        promise: told of the operation when it is durable and before any replica can see it
        Raises what encode raises, and a MediaError when it can be written nowhere.
        """
        with self._writing:
            operation = self.draft(encode)
            self._write(operation)
            promise(operation)
            self._publish(operation)
            return operation

    def draft(self, encode: Encode, number: OperationNumber | None = None) -> Operation:
        """Make an operation that is not kept, with that number or with that of the next one.

        Raises what encode raises.
        """
        with self._changed:
            number = number or OperationNumber(self._last() + 1)
            now = self._latest_ns = self._moment()
        seed = secrets.randbits(64)
        return Operation(number, now, seed, encode(number, now, seed))

    def wait(
        self, after: OperationNumber, limit: int, timeout: float, called: threading.Event = NEVER
    ) -> list[Operation]:
        """Operations after that number, at most `limit` of at most BATCH_BYTES together; empty
        when none came in `timeout` seconds or before `called` was set. Who sets it calls `wake`.

        Raises JournalGap when the journal begins later than that.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._last() > after or called.is_set(), timeout)
            if after < self._base:
                raise JournalGap(
                    f"operation {after + 1} is not in the journal",
                    why=f"it begins with operation {self._base + 1}",
                    fix="bring up a replica from a newer checkpoint",
                )
            start = after - self._base
            return _up_to(BATCH_BYTES, self._operations[start : start + limit])

    def acknowledge(self, number: OperationNumber) -> None:
        """Note that home has every operation up to that one on disk."""
        with self._changed:
            self._stable = max(self._stable, number)

    def wake(self) -> None:
        """Wake every waiter, so that it sees whether it was called."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let the log go. Nothing happens the second time."""
        with self._writing:
            if self._log:
                self._log.close()

    def _last(self) -> OperationNumber:
        return OperationNumber(self._base + len(self._operations))

    def _open(self, path: Path) -> None:
        try:
            self._log = Log.open(
                path, durability=self._durability, keys=self._keys, secret=self._secret
            )
            self._load(self._log)
        except (LogFull, LogReadOnly, LogGone) as error:
            if self._spare in (None, path):
                raise
            if Log.exists(path):
                with Log.open(path, read_only=True, keys=self._keys, secret=self._secret) as log:
                    self._load(log)
            self._go_on_beside(error)

    def _load(self, log: Log) -> None:
        self._operations = _all(log)
        self._doubtful |= log.doubtful
        first = self._operations[0].number if self._operations else log.last + 1
        self._base = OperationNumber(first - 1)
        if self._operations:
            self._latest_ns = self._operations[-1].time_ns

    def _moment(self) -> int:
        """Return the time of the next operation: now, or just after the latest one if the clock
        went back a little. A clock that was far ahead must not date later operations."""
        now, after = time.time_ns(), self._latest_ns + 1
        return after if now < after <= now + AHEAD_NS else now

    def _follow(self, operations: Sequence[Operation]) -> bool:
        """Whether these can be joined to what is here. Raises JournalParted."""
        for operation in operations:
            mine = self.get(operation.number)
            if mine is not None and mine != operation:
                raise JournalParted(
                    operation.number,
                    f"in {self._spare}",
                    fix=f"`satchel log {self._spare.name if self._spare else 'SERVICE'}` compares "
                    "both with home's log, which counts",
                )
        return not operations or operations[0].number <= self._last() + 1

    def _keep_new(self, operation: Operation) -> None:
        if operation.number == self._last() + 1:
            self._write(operation)
            self._publish(operation)

    def _write(self, operation: Operation) -> None:
        if self._log is None:
            return
        try:
            self._log.append(operation)
        except (LogFull, LogReadOnly, LogGone) as error:
            if self.beside or self._spare in (None, self._path):
                raise
            self._go_on_beside(error)
            self._log.append(operation)

    def _publish(self, operation: Operation) -> None:
        with self._changed:
            self._operations.append(operation)
            self._latest_ns = max(self._latest_ns, operation.time_ns)
            self._changed.notify_all()

    def _go_on_beside(self, error: SatchelError) -> None:
        """The medium has failed: log in the spare place what home may not have, and go on there."""
        assert self._spare is not None
        logger.error("%s; operations are logged in %s from here on", error, self._spare)
        log = Log.open(self._spare, durability=self._durability)
        try:
            self._join(log)
        except BaseException:
            log.close()
            raise
        if self._log:
            self._log.close()
        self._log, self.failure = log, error

    def _join(self, log: Log) -> None:
        """Let the spare log go on from what it has, or from the first unstable operation."""
        there = _all(log)
        if not self._follow(there):
            raise JournalGap(
                f"operations {self._last() + 1} to {there[0].number - 1} are missing",
                why=f"the medium ends before them and {self._spare} begins after them",
                fix="start with writable media where home can be reached: home has them",
            )
        needed = max(min(self._stable, self._last()), self._base)
        if not there or log.last < needed:
            log.cut(log.last)
            log.start_from(OperationNumber(needed))
        for operation in there:
            if operation.number == self._last() + 1:
                self._publish(operation)
        for operation in self._operations[log.last - self._base :]:
            log.append(operation)

    def _forget(self, upto: OperationNumber) -> None:
        with self._changed:
            drop = min(len(self._operations), max(0, upto - self._base))
            del self._operations[:drop]
            self._base = OperationNumber(self._base + drop)


def _all(log: Log) -> list[Operation]:
    return list(log.read(OperationNumber(log.first - 1)))


def _up_to(size: int, operations: list[Operation]) -> list[Operation]:
    """The first operations, of `size` bytes together or of one operation."""
    total = 0
    for index, operation in enumerate(operations):
        total += operation.record_size
        if total > size and index:
            return operations[:index]
    return operations
