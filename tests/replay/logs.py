# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Logs with known operations."""

from pathlib import Path

from replay import KeyRing, Log, LogKey, Operation
from satchel.ids import OperationNumber


def operation(number: int) -> Operation:
    """An operation of which everything follows from its number; about 100 bytes."""
    payload = b"%d" % number * 20
    return Operation(OperationNumber(number), number * 1000, number * 7, payload)


def ring(key: bytes | None, epoch: int = 1) -> KeyRing | None:
    """Keys with that one alone."""
    made = "2026-11-21T05:00:00.000000+00:00"
    return KeyRing((LogKey(epoch, key, made),)) if key else None


def filled(path: Path, count: int, key: bytes | None = None) -> Log:
    """A log with operations 1 to `count`, about five to a segment."""
    log = Log.open(path, segment_bytes=600, keys=ring(key))
    for number in range(1, count + 1):
        log.append(operation(number))
    return log


def content(log: Log) -> list[Operation]:
    """Everything that the log has."""
    return list(log.read(OperationNumber(log.first - 1)))


def files(log: Path) -> list[str]:
    """The names of what lies beside a log's lock, sorted."""
    lock = f"{log.name}.lock"
    return sorted(path.name for path in log.parent.iterdir() if path.name != lock)
