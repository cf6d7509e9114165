# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What surrogates were good for, by the day: seconds and bytes saved; docs/formats/client-state.md.

For example, `cafe` answers an operation after 0.1 s and home after 0.4 s: 0.3 s are saved. What
home was not asked, or has not answered while the session lasted, saves nothing here. Bytes are
those that a replica had until it had caught up and that did not come from home, as its surrogate
says.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from client.platform.settings import HOME
from client.state.kept import decode_rows, encode_rows, load, save
from satchel.errors import IntegrityError
from satchel.names import check_name

logger = logging.getLogger(__name__)

VERSION = 1

KEPT = 400
"""Rows of a service, the newest ones."""

AWAITED = 4096
"""Operations of which home's answer is awaited, the newest ones."""

MOST = 1e15


class SavingsInvalid(IntegrityError):
    """The bytes are not a record of savings, or are of another version."""


@dataclass(frozen=True)
class DailySavings:
    """At one surrogate on one day. day: as 2026-11-26, in UTC; operations: that it answered before
    home; seconds: by which it did; bytes: that did not come from home"""

    day: str
    surrogate: str
    operations: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def __add__(self, other: DailySavings) -> DailySavings:
        return dataclasses.replace(
            self,
            operations=self.operations + other.operations,
            seconds=self.seconds + other.seconds,
            bytes=self.bytes + other.bytes,
        )


def encode(rows: list[DailySavings]) -> bytes:
    """The bytes of the newest ones."""
    return encode_rows(VERSION, "saved", [dataclasses.asdict(row) for row in rows[-KEPT:]])


def decode(data: bytes) -> list[DailySavings]:
    """The rows, the oldest first. Raises SavingsInvalid."""
    try:
        return [_saved(row) for row in decode_rows(data, VERSION, "saved")]
    except (ValueError, KeyError, TypeError, RecursionError, IntegrityError) as error:
        raise SavingsInvalid("it is damaged", why=str(error)[:200]) from error


def _saved(row: Any) -> DailySavings:
    if set(row) != {field.name for field in dataclasses.fields(DailySavings)}:
        raise ValueError("a row has other fields")
    if not isinstance(row["day"], str) or date.fromisoformat(row["day"]).isoformat() != row["day"]:
        raise ValueError("a day is malformed")
    if not isinstance(row["surrogate"], str):
        raise TypeError("a surrogate's name is not a text")
    for name in ("operations", "bytes"):
        if type(row[name]) is not int or not 0 <= row[name] < MOST:
            raise ValueError("a number is malformed")
    if type(row["seconds"]) not in (int, float) or not 0 <= row["seconds"] < MOST:
        raise ValueError("a number is malformed")
    return DailySavings(**row)


class HeadStart:
    """By how much surrogates answer before home, in one session. Thread-safe."""

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        """most: seconds that one operation saves at most: as long a call would have waited"""
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._awaited: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._gained: dict[str, tuple[int, float]] = {}

    def first(self, number: int, replica: str) -> None:
        """That one has answered before the others."""
        if replica == HOME:
            return
        with self._lock:
            self._awaited[number] = replica, self._clock()
            if len(self._awaited) > AWAITED:
                self._awaited.popitem(last=False)

    def home(self, number: int) -> None:
        """Home has answered, too."""
        with self._lock:
            if number in self._awaited:
                replica, at = self._awaited.pop(number)
                operations, seconds = self._gained.get(replica, (0, 0.0))
                seconds += min(self._most, self._clock() - at)
                self._gained[replica] = operations + 1, seconds

    def forget(self, replica: str) -> None:
        """Count nothing of it that home has not answered: it has answered otherwise than home."""
        with self._lock:
            for number, (name, _) in [*self._awaited.items()]:
                if name == replica:
                    del self._awaited[number]

    def take(self) -> dict[str, tuple[int, float]]:
        """Operations and seconds by surrogate since the last time."""
        with self._lock:
            gained, self._gained = self._gained, {}
            return gained


class Savings:
    """Of one service, in a file. One session writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def of(cls, state: Path, service: str) -> Savings:
        """In the folder of a client's state."""
        return cls(state / "savings" / f"{check_name(service, 'service')}.json")

    def rows(self) -> list[DailySavings]:
        """The oldest first; none where the file is missing or damaged, which is logged."""
        return load(self._path, decode)

    def fetched(self, surrogate: str, by_source: Mapping[str, int]) -> None:
        """A replica there has had that many bytes, by source. What cannot be is not counted."""
        size = sum(by_source.values()) - by_source.get(HOME, 0)
        if 0 < size < MOST:
            self._add([DailySavings(today(), surrogate, bytes=size)])

    def gained(self, lead: HeadStart) -> None:
        """What a session has gained since the last time."""
        self._add(
            DailySavings(today(), surrogate, operations=operations, seconds=round(seconds, 3))
            for surrogate, (operations, seconds) in lead.take().items()
        )

    def _add(self, new: Iterable[DailySavings]) -> None:
        """A disk that does not take it is logged."""
        with self._lock:
            rows = {(row.day, row.surrogate): row for row in self.rows()}
            before = dict(rows)
            for row in new:
                key = row.day, row.surrogate
                rows[key] = rows[key] + row if key in rows else row
            if rows == before:
                return
            try:
                save(self._path, encode([*rows.values()]))
            except OSError as error:
                logger.warning("%s: %s", self._path, error)


def saved_since(state: Path, service: str | None, days: int) -> list[DailySavings]:
    """By surrogate, of the last so many days, today included; of one service or of all. The one
    with the most seconds first. Its day is the last one."""
    folder = state / "savings"
    paths = sorted(folder.glob("*.json"))
    if service is not None:
        paths = [folder / f"{check_name(service, 'service')}.json"]
    now = datetime.now(UTC).date()
    first, last = ((now - timedelta(days=ago)).isoformat() for ago in (days - 1, 0))
    found: dict[str, DailySavings] = {}
    for row in (row for path in paths for row in Savings(path).rows() if first <= row.day <= last):
        old = found.get(row.surrogate)
        found[row.surrogate] = dataclasses.replace(
            old + row if old else row, day=max(old.day if old else "", row.day)
        )
    return sorted(found.values(), key=lambda row: -row.seconds)


def today() -> str:
    """As in DailySavings."""
    return datetime.now(UTC).date().isoformat()
