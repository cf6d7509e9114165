# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two logs of one service that parted: where, and how one of them gives its part up.

The time and the seed of an operation are random. So two logs that have one operation in common
have all earlier ones in common.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

from replay.log import Log
from replay.operations import Operation
from replay.segments import logs_in
from satchel.ids import OperationNumber

Agrees = Callable[[Operation], bool]
"""Returns whether the other log has an operation as it is, or no longer knows."""


def first_difference(log: Log, last: OperationNumber, agrees: Agrees) -> OperationNumber | None:
    """Return the first operation of `log` that the other log has differently, or None.

    last: the other log's last operation. Asks `agrees` of a few operations only. Raises LogCorrupt,
    LogGone, and errors of `agrees`.
    """

    def same(number: int) -> bool:
        return agrees(next(log.read(OperationNumber(number - 1))))

    low, high = int(log.first), min(int(log.last), int(last))
    if high < low or same(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if same(middle) else (low, middle)
    return OperationNumber(low)


def drop_from(log: Log, number: OperationNumber, beside: Path) -> Path:
    """Move that operation and all later ones into a new log, in clear, beside the one at `beside`.

    Return the path of the new log, as Log.open takes it: it is durable before `log` changes. After
    a crash `log` may lack earlier operations, too, which home has. Raises
    LogFull, LogReadOnly, LogGone.
    """
    base = OperationNumber(log.first - 1)
    kept = list(takewhile(lambda one: one.number < number, log.read(base)))
    place, tries = beside.with_name(f"{beside.name}.dropped-{number}"), 1
    while Log.exists(place):
        tries += 1
        place = beside.with_name(f"{beside.name}.dropped-{number}.{tries}")
    with Log.open(place, after=OperationNumber(number - 1), durability="off") as dropped:
        for operation in log.read(OperationNumber(number - 1)):
            dropped.append(operation)
        dropped.sync()
    log.cut(log.last)
    log.start_from(base)
    for operation in kept:
        log.append(operation)
    return place


def dropped_logs(beside: Path) -> list[Path]:
    """Return the logs that `drop_from` has made beside that one. Raises OSError."""
    if not beside.parent.is_dir():
        return []
    return [
        path for path in logs_in(beside.parent) if path.name.startswith(f"{beside.name}.dropped-")
    ]
