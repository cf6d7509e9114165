# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which versions of a thing to keep, as restic and borg have it.

`keep-last n` keeps the newest n. `keep-daily n` keeps the newest of each day, for the n newest days
that have one; hourly, weekly (ISO 8601), monthly and yearly likewise. A version stays if any rule
keeps it, and counts for each rule that does: that is restic's way; in borg what a finer rule keeps
does not count for the coarser ones. Both keep the oldest as well where a rule is not used up; here
it stays only if a rule has it. Days begin at midnight in the time zone of who decides. The hour
that comes twice when summer time ends is two hours.

A clock may have been wrong for a while, ahead or behind. The versions are in the order in which
they were made. Most of them agree with it: the longest series of moments that do not go back. A
version outside of that series counts as made at the moment of the next one in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TypeVar

from satchel.errors import UsageError

T = TypeVar("T")

_PERIODS: Mapping[str, Callable[[datetime], object]] = {
    "hourly": lambda t: (t.date(), t.hour, t.utcoffset()),
    "daily": lambda t: t.date(),
    "weekly": lambda t: tuple(t.isocalendar())[:2],
    "monthly": lambda t: (t.year, t.month),
    "yearly": lambda t: t.year,
}


@dataclass(frozen=True)
class RetentionPolicy:
    """How many to keep by each rule; 0 keeps none by it, -1 all."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < -1:
                raise UsageError(f"--keep-{field.name} must be a number from -1 on")

    @property
    def empty(self) -> bool:
        """Whether it would keep nothing at all."""
        return all(getattr(self, field.name) == 0 for field in fields(self))


def select(
    versions: Sequence[T],
    moment: Callable[[T], datetime],
    policy: RetentionPolicy,
) -> list[tuple[T, tuple[str, ...]]]:
    """Every version, the newest first, with the rules that keep it; none if it is to go.

    versions: in the order in which they were made, the newest last. moment: when one was made by
    the clock of that time, with its time zone.
    """
    moments = _agreed([moment(version) for version in versions], datetime.now(UTC))
    left = {name: getattr(policy, name) for name in ("last", *_PERIODS)}
    seen: dict[str, object] = {}
    result: list[tuple[T, tuple[str, ...]]] = []
    for version, made in zip(reversed(versions), reversed(moments), strict=True):
        local = made.astimezone()
        reasons = ["last"] if left["last"] else []
        for name, period in _PERIODS.items():
            which = period(local)
            if left[name] and seen.get(name) != which:
                seen[name] = which
                reasons.append(name)
        for name in reasons:
            left[name] -= left[name] > 0
        result.append((version, tuple(reasons)))
    return result


def _agreed(moments: Sequence[datetime], now: datetime) -> list[datetime]:
    """Moments that do not go back, of versions in the order in which they were made."""
    past = [made for made in moments if made <= now]
    ends: list[int] = []  # the last of the best series of each length
    tails: list[datetime] = []
    before: list[int] = []
    for index, made in enumerate(moments):
        if past and made > now:
            before.append(-1)
            continue
        length = bisect_right(tails, made)
        before.append(ends[length - 1] if length else -1)
        ends[length:] = [index, *ends[length + 1 :]]
        tails[length:] = [made, *tails[length + 1 :]]
    index = ends[-1] if ends else -1
    series: set[int] = set()
    while index >= 0:
        series.add(index)
        index = before[index]
    agreed = list(moments)
    following = max(series, default=-1)
    for index in range(len(moments) - 1, -1, -1):
        following = index if index in series else following
        agreed[index] = moments[following]
    return agreed
