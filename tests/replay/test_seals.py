# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a log are by who has its key."""

import random
import stat
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from replay import KeyRing, Log, LogKey, kept_keys
from satchel.errors import IntegrityError
from satchel.ids import OperationNumber
from tests.replay.logs import files, filled, operation, ring

KEY = bytes(range(32))
OTHER = bytes(32)


def doubtful(path: Path, key: bytes | None = KEY) -> set[int]:
    with Log.open(path, read_only=True, keys=ring(key)) as log:
        return {int(number) for number in log.doubtful}


def test_what_was_written_with_the_key_is_not_doubtful(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20, KEY).close()
    assert len(files(tmp_path / "log")) > 3
    assert doubtful(tmp_path / "log") == set()
    with Log.open(tmp_path / "log", keys=ring(KEY)) as log:
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
    with Log.open(tmp_path / "log", keys=ring(KEY)) as log:
        log.append(operation(21))
    assert doubtful(tmp_path / "log") == set()


def test_operations_that_others_appended_are_doubtful_and_those_behind_them_are_not(
    tmp_path: Path,
) -> None:
    filled(tmp_path / "log", 6, KEY).close()
    for key, numbers in ((None, (7, 8)), (OTHER, (9,)), (KEY, (10, 11))):
        with Log.open(tmp_path / "log", keys=ring(key)) as log:
            for number in numbers:
                log.append(operation(number))
    assert doubtful(tmp_path / "log") == {7, 8, 9}


def test_a_segment_of_another_life_does_not_fit(tmp_path: Path) -> None:
    """Two logs by one key, and an operation that is in both: the end of one behind the other."""
    filled(tmp_path / "one", 10, KEY).close()
    keys = ring(KEY)
    with Log.open(tmp_path / "two", after=OperationNumber(5), segment_bytes=600, keys=keys) as log:
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


def test_the_keys_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    keys = kept_keys(tmp_path / "log.key")
    assert kept_keys(tmp_path / "log.key") == keys
    assert stat.S_IMODE((tmp_path / "log.key").stat().st_mode) == 0o600
    assert kept_keys(tmp_path / "other.key") != keys
    (tmp_path / "log.key").write_bytes(random.Random(1).randbytes(7))
    with pytest.raises(IntegrityError, match="7 bytes"):
        kept_keys(tmp_path / "log.key")


MADE, ENDED = "2026-11-01T00:00:00.000000+00:00", "2026-11-29T12:00:00.000000+00:00"
RING_BYTES = (
    b"satchel log keys 2\n"
    b"1 2026-11-01T00:00:00.000000+00:00 2026-11-29T12:00:00.000000+00:00 "
    + b"00" * 32
    + b"\n2 2026-11-29T12:00:00.000000+00:00 - "
    + KEY.hex().encode()
    + b"\n"
)


def test_the_bytes_of_keys_are_those_of_the_page() -> None:
    keys = KeyRing((LogKey(1, OTHER, MADE, ENDED), LogKey(2, KEY, ENDED)))
    assert keys.to_bytes() == RING_BYTES
    assert KeyRing.from_bytes(RING_BYTES) == keys
    (only,) = KeyRing.from_bytes(KEY).keys  # version 1
    assert (only.epoch, only.key, only.until) == (1, KEY, None)
    for harm in (b"", b"x", RING_BYTES[:-1], RING_BYTES + b"1", RING_BYTES.replace(b"\n2", b"\n1")):
        with pytest.raises(IntegrityError):
            KeyRing.from_bytes(harm)
    grown = keys
    for _ in range(20):
        grown = grown.changed()
    assert [key.epoch for key in grown.keys] == [*range(15, 23)]


OLD = KeyRing.from_bytes(KEY)
NEW = OLD.changed()
AGED = OLD.changed(days=30)


def judged(path: Path, keys: KeyRing) -> set[int]:
    with Log.open(path, read_only=True, keys=keys) as log:
        return {int(number) for number in log.doubtful}


def append(path: Path, keys: KeyRing | None, *numbers: int) -> None:
    with Log.open(path, segment_bytes=600, keys=keys) as log:
        for number in numbers:
            log.append(operation(number))


def test_operations_under_an_earlier_key_count_once_a_later_one_vouches(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, OLD, *range(1, 8))
    assert judged(path, OLD) == judged(path, AGED) == set()
    assert judged(path, NEW) == set(range(1, 8))
    with Log.open(path, segment_bytes=600, keys=NEW) as log:
        log.vouch()
        log.vouch()
    assert judged(path, NEW) == set()
    append(path, NEW, 8, 9)
    assert judged(path, NEW) == set()
    append(path, OLD, 10, 11)  # by who has only the earlier key
    assert judged(path, NEW) == {10, 11}


@pytest.mark.parametrize("vouched", [False, True])
def test_who_has_the_earlier_key_changes_nothing_that_a_later_one_vouches_for(
    tmp_path: Path, vouched: bool
) -> None:
    """He writes other operations with right seals of his key, and puts the later segments after
    them, with and without the operation that fits."""
    for name in ("ours", "his"):
        append(tmp_path / name, OLD, *range(1, 3))
    later = tmp_path / "ours"
    append(later, OLD, 3)
    with Log.open(later, segment_bytes=600, keys=NEW) as log:
        log.vouch()
        if vouched:
            log.append(operation(4))
    with Log.open(tmp_path / "his", segment_bytes=600, keys=OLD) as log:
        log.append(replace(operation(3), payload=b"forged"))
    last = max(name for name in files(later) if name.startswith("ours-"))
    (tmp_path / last.replace("ours", "his")).write_bytes((tmp_path / last).read_bytes())
    assert judged(later, NEW) == set()
    assert {1, 2, 3} <= judged(tmp_path / "his", NEW)


def test_what_the_current_key_has_sealed_counts_before_what_others_appended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, OLD, 1, 2)
    append(path, NEW, *range(3, 7))
    append(path, None, 7)
    append(path, NEW, 8, 9)
    assert judged(path, NEW) == {1, 2, 7}


def test_a_segment_vouches_for_nothing_that_its_writer_doubted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, OLD, 1, 2)
    append(path, NEW, *range(3, 20))
    assert judged(path, NEW) == {1, 2}
    append(path, NEW, *range(20, 30))
    assert judged(path, NEW) == {1, 2}
    with Log.open(path, segment_bytes=600, keys=NEW) as log:
        log.cut(OperationNumber(2))
        log.append(operation(30))
    assert judged(path, NEW) == set()


def test_an_empty_segment_that_claims_the_current_key_vouches_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, OLD, 1, 2)
    with Log.open(path, keys=ring(OTHER, epoch=2)) as log:  # he does not know the key
        log.vouch()
    assert judged(path, NEW) == {1, 2}


def test_a_log_of_version_4_is_read_and_led_on(tmp_path: Path) -> None:
    path, segment = tmp_path / "log", tmp_path / "log-00000001.log"
    append(path, OLD, 1, 2)
    data = segment.read_bytes()
    fields = data[:8] + struct.pack("<I", 4) + data[12:56] + bytes(4)
    records = data[100:].rstrip(b"\0")
    segment.write_bytes(fields + struct.pack("<I", zlib.crc32(fields)) + records)
    assert judged(path, OLD) == set()
    assert judged(path, NEW) == {1, 2}
    append(path, OLD, 3)
    append(path, AGED, 4)
    assert judged(path, AGED) == set()
    with Log.open(path, read_only=True) as log:
        assert list(log.read(OperationNumber(0))) == [operation(n) for n in range(1, 5)]
