# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Retention policies, by the rules of restic and borg."""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from satchel.errors import UsageError
from satchel.retention import RetentionPolicy, select

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def kept(versions: list[datetime], **rules: int) -> list[datetime]:
    return [v for v, why in select(versions, lambda t: t, RetentionPolicy(**rules)) if why]


def days(*numbers: int) -> list[datetime]:
    return [START + timedelta(days=number) for number in numbers]


def test_the_newest() -> None:
    versions = days(0, 1, 2, 3)
    assert kept(versions, last=2) == days(3, 2)
    assert kept(versions, last=9) == days(3, 2, 1, 0)
    assert kept(versions, last=-1) == days(3, 2, 1, 0)
    assert kept([], last=1) == []


def test_the_newest_of_each_day_that_has_one() -> None:
    morning = [day - timedelta(hours=6) for day in days(0, 1, 5, 9)]
    versions = sorted([*morning, *days(0, 5)])
    assert kept(versions, daily=3) == [morning[3], *days(5), morning[1]]
    assert kept(versions, daily=-1) == [morning[3], *days(5), morning[1], *days(0)]


def test_each_period() -> None:
    """2026-01-01 is a Thursday; its week is the first of the year, and began in 2025."""
    versions = [START + timedelta(hours=6 * n) for n in range(-400, 400)]
    newest = versions[-1]
    assert kept(versions, hourly=2) == [newest, newest - timedelta(hours=6)]
    weeks = kept(versions, weekly=3)
    assert weeks[0] == newest
    assert [t.isoweekday() for t in weeks[1:]] == [7, 7]
    assert [t.month for t in kept(versions, monthly=4)] == [4, 3, 2, 1]
    assert [(t.year, t.month, t.day) for t in kept(versions, yearly=3)[1:]] == [(2025, 12, 31)]
    assert len(kept(versions, weekly=-1)) == len({t.isocalendar()[:2] for t in versions})


def test_rules_add_up_and_are_told() -> None:
    chosen = select(days(0, 1, 2, 31), lambda t: t, RetentionPolicy(last=1, daily=2, monthly=2))
    assert [(t, why) for t, why in chosen] == [
        (days(31)[0], ("last", "daily", "monthly")),
        (days(2)[0], ("daily", "monthly")),
        (days(1)[0], ()),
        (days(0)[0], ()),
    ]


def test_of_one_moment_the_later_one_is_newer() -> None:
    chosen = select(["a", "b", "c"], lambda _: START, RetentionPolicy(last=1))
    assert chosen == [("c", ("last",)), ("b", ()), ("a", ())]


def test_days_are_those_of_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    noon = datetime(2026, 6, 1, 11, tzinfo=UTC)  # 23:00 there
    versions = [noon, noon + timedelta(hours=2)]
    assert len(kept(versions, daily=-1)) == 2


def test_policies_that_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="keep-daily"):
        RetentionPolicy(daily=-2)
    assert RetentionPolicy().empty
    assert not RetentionPolicy(yearly=-1).empty


def test_whatever_is_kept() -> None:
    """The newest stays if anything does; no day has two versions that are kept for it."""
    dice = random.Random(1)
    for _ in range(300):
        versions = [
            START + timedelta(hours=dice.randrange(3000)) for _ in range(dice.randrange(50))
        ]
        versions.sort()
        last, daily, monthly = (dice.randrange(8) for _ in range(3))
        chosen = select(
            versions, lambda t: t, RetentionPolicy(last=last, daily=daily, monthly=monthly)
        )
        assert sorted(v for v, _ in chosen) == sorted(versions)
        stays = [v for v, why in chosen if why]
        if versions and (last or daily or monthly):
            assert stays[0] == max(versions)
        kept_days = [v.date() for v, why in chosen if "daily" in why]
        there = {v.date() for v in versions}
        assert len(kept_days) == len(set(kept_days)) == min(daily, len(there))
        assert sum("last" in why for _, why in chosen) == min(last, len(versions))


@pytest.mark.parametrize(
    "wrong", [datetime(2098, 5, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
)
def test_a_clock_that_was_wrong_once_costs_no_good_day(wrong: datetime) -> None:
    good = days(0, 1, 2, 3)
    versions = [*good[:2], wrong, *good[2:]]
    assert kept(versions, daily=4) == list(reversed(good))
    assert kept(versions, last=3) == [good[3], good[2], wrong]
    assert kept([*good, wrong], daily=4) == [wrong, *reversed(good[:3])]


def test_the_hour_that_comes_twice_keeps_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    summer = datetime(2025, 10, 26, 0, 30, tzinfo=UTC)
    versions = [summer, summer + timedelta(hours=1)]
    assert kept(versions, hourly=2) == versions[::-1]
