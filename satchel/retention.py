# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which versions of a thing to keep, as restic and borg have it.

`keep-last n` keeps the newest n. `keep-daily n` keeps the newest of each day, for the n newest days
that have one; hourly, weekly (ISO 8601), monthly and yearly likewise. A version stays if any rule
keeps it, and counts for each rule that does: that is restic's way; in borg what a finer rule keeps
does not count for the coarser ones. Both keep the oldest as well where a rule is not used up; here
it stays only if a rule has it. Days begin at midnight in the time zone of who decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TypeVar

from satchel.errors import UsageError

T = TypeVar("T")

_PERIODS: Mapping[str, Callable[[datetime], object]] = {
    "hourly": lambda t: (t.date(), t.hour),
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

    moment: when a version was made, with its time zone. Of two of one moment the later in
    `versions` is the newer.
    """
    order = sorted(enumerate(versions), key=lambda item: (moment(item[1]), item[0]), reverse=True)
    left = {name: getattr(policy, name) for name in ("last", *_PERIODS)}
    seen: dict[str, object] = {}
    result: list[tuple[T, tuple[str, ...]]] = []
    for _, version in order:
        local = moment(version).astimezone()
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
