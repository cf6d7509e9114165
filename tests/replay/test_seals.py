# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a log are by who has its key."""

import random
import stat
from pathlib import Path

import pytest

from replay import Log, kept_key
from replay.chain import KEY_SIZE
from satchel.errors import IntegrityError
from satchel.ids import OperationNumber
from tests.replay.logs import files, filled, operation

KEY = bytes(range(32))
OTHER = bytes(32)


def doubtful(path: Path, key: bytes | None = KEY) -> set[int]:
    with Log.open(path, read_only=True, key=key) as log:
        return {int(number) for number in log.doubtful}


def test_what_was_written_with_the_key_is_not_doubtful(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20, KEY).close()
    assert len(files(tmp_path / "log")) > 3
    assert doubtful(tmp_path / "log") == set()
    with Log.open(tmp_path / "log", key=KEY) as log:
        log.append(operation(21))
    assert doubtful(tmp_path / "log") == set()


def test_with_another_key_everything_is(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20, OTHER).close()
    assert doubtful(tmp_path / "log") == set(range(1, 21))
    assert doubtful(tmp_path / "log", None) == set()


@pytest.mark.parametrize("upto", range(0, 21, 3))
def test_a_log_that_was_cut_keeps_its_seals(tmp_path: Path, upto: int) -> None:
    """Whoever cuts it, in the middle of a segment or between two, needs no key for that."""
    filled(tmp_path / "log", 20, KEY).close()
    with Log.open(tmp_path / "log") as log:
        log.cut(OperationNumber(upto))
    assert doubtful(tmp_path / "log") == set()
    with Log.open(tmp_path / "log", key=KEY) as log:
        log.append(operation(21))
    assert doubtful(tmp_path / "log") == set()


def test_operations_that_others_appended_are_doubtful_and_those_behind_them_are_not(
    tmp_path: Path,
) -> None:
    filled(tmp_path / "log", 6, KEY).close()
    for key, numbers in ((None, (7, 8)), (OTHER, (9,)), (KEY, (10, 11))):
        with Log.open(tmp_path / "log", key=key) as log:
            for number in numbers:
                log.append(operation(number))
    assert doubtful(tmp_path / "log") == {7, 8, 9}


def test_a_segment_of_another_life_does_not_fit(tmp_path: Path) -> None:
    """Two logs by one key, and an operation that is in both: the end of one behind the other."""
    filled(tmp_path / "one", 10, KEY).close()
    with Log.open(tmp_path / "two", after=OperationNumber(5), segment_bytes=600, key=KEY) as log:
        for number in range(6, 20):
            log.append(operation(number))
    theirs = files(tmp_path / "two")
    last = next(name for name in theirs if name.startswith("two-") and int(name[4:12]) > 10)
    first = int(last[4:12])
    with Log.open(tmp_path / "one") as log:
        for number in range(11, first):
            log.append(operation(number))
    (tmp_path / f"one-{last[4:]}").write_bytes((tmp_path / last).read_bytes())
    assert first in doubtful(tmp_path / "one")


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    key = kept_key(tmp_path / "log.key")
    assert len(key) == KEY_SIZE
    assert kept_key(tmp_path / "log.key") == key
    assert stat.S_IMODE((tmp_path / "log.key").stat().st_mode) == 0o600
    assert kept_key(tmp_path / "other.key") != key
    (tmp_path / "log.key").write_bytes(random.Random(1).randbytes(7))
    with pytest.raises(IntegrityError, match="7 bytes"):
        kept_key(tmp_path / "log.key")
