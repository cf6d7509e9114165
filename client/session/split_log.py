# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A log that parted from home's: two clients used one service without knowing of each other.

Home's log counts. The operations that only this device has can be dropped. They then stay in a log
beside the device's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from client.places.home import Home
from client.platform.settings import ClientSettings
from client.state.log_keys import LogKeys
from media import Media
from replay import Log, Operation, OperationsCut, drop_from, dropped_logs, first_difference
from satchel.ids import OperationNumber

Label = Callable[[Operation], str]


@dataclass(frozen=True)
class LostOperation:
    """An operation that home does not have: its number, when it was made, and its request."""

    number: int
    time_ns: int
    request: str


@dataclass(frozen=True)
class LogReport:
    """One log of a service on this device, compared with home's.

    state: `as at home`; `unsent`, home lacks its last operations; `parted`, its operations from the
    first of `lost` on are different from home's; `dropped`, it was a part of such a log. kept: the
    log that has the lost operations now.
    """

    log: str
    first: int
    last: int
    state: str
    lost: tuple[LostOperation, ...] = ()
    kept: str = ""


def compare_logs(
    settings: ClientSettings, home: Home, media: Path | None, label: Label, *, drop: bool
) -> list[LogReport]:
    """Compare the logs of a service on this device and on the medium with home's.

    drop: move the operations that parted into a log beside the device's own; that log is durable
    before the other one changes. Raises SatchelError.
    """
    name, own = home.service, settings.data / "log" / home.service
    reports = []
    for path in dropped_logs(own):
        with Log.open(path, read_only=True) as log:
            lost = _listed(log, log.first, label)
            reports.append(LogReport(str(path), log.first, log.last, "dropped", lost))
    logged, log_on_medium = home.status().last_logged, None
    with contextlib.ExitStack() as opened:
        if media is not None:
            medium = opened.enter_context(Media.open(media, settings.media_keys))
            path, secret = medium.log_path(name), medium.log_secret(name)
            keys = LogKeys(settings.state / "log-keys").get(name)
            if Log.exists(path):
                log_on_medium = opened.enter_context(
                    Log.open(path, read_only=not drop, keys=keys, secret=secret)
                )
                other, last = _Other(home, logged, None), logged
                reports.append(_compared(log_on_medium, own, other, last, label, drop=drop))
        if Log.exists(own):
            with Log.open(own, read_only=not drop) as log:
                last = max(logged, log_on_medium.last if log_on_medium else logged)
                other = _Other(home, logged, log_on_medium)
                reports.append(_compared(log, own, other, last, label, drop=drop))
    return reports


@dataclass(frozen=True)
class _Other:
    """The operations that count: home's, and after them the medium's."""

    home: Home
    logged: OperationNumber
    medium: Log | None

    def __call__(self, operation: Operation) -> bool:
        number = operation.number
        if number <= self.logged:
            theirs = self.home.digest(number)
            return theirs in (None, operation.digest)
        if self.medium:
            with contextlib.suppress(OperationsCut):
                return next(self.medium.read(OperationNumber(number - 1)), None) == operation
        return True


def _compared(
    log: Log, own: Path, other: _Other, last: OperationNumber, label: Label, *, drop: bool
) -> LogReport:
    place, first, end = str(log.path), log.first, log.last
    parted = first_difference(log, last, other)
    if parted is None:
        return LogReport(place, first, end, "as at home" if end <= other.logged else "unsent")
    lost = _listed(log, parted, label)
    kept = str(drop_from(log, parted, own)) if drop else ""
    return LogReport(place, first, end, "parted", lost, kept)


def _listed(log: Log, first: OperationNumber, label: Label) -> tuple[LostOperation, ...]:
    found = log.read(OperationNumber(first - 1))
    return tuple(LostOperation(one.number, one.time_ns, label(one)) for one in found)
