# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The record of calls: what is in it is found again, whatever ended the process before."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guestshares import CallName, CallRecord
from satchel.errors import UnsupportedError
from satchel.record_file import NoRecordFile

GOLDEN = bytes.fromhex(
    "53415443414c4c53 01000000 00000000"
    "00fba646 12000000 01 0500000000000000 02000000"
    "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    "1200000000000000000000000000000061 0a"
    "c68f404c 00000000 02 0500000000000000 00000000" + "00" * 32
)
REPLY = bytes.fromhex("12000000000000000000000000000000610a")


def name(operation: int, count: int = 0, what: str = "a") -> CallName:
    return CallName(operation, count, hashlib.sha256(what.encode()).digest())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def record(place: Path) -> Iterator[CallRecord]:
    made = CallRecord(place)
    yield made
    made.close()


def segment(place: Path, number: int = 1) -> Path:
    return place.with_name(f"calls-{number:08}")


def test_the_bytes_are_those_of_the_page(place: Path, record: CallRecord) -> None:
    record.add(name(5, 2), REPLY, durable=True)
    record.finish(5)
    assert segment(place).read_bytes().hex(" ") == GOLDEN.hex(" ")


def test_calls_are_found_by_name_also_by_the_next_process(place: Path, record: CallRecord) -> None:
    for count in range(3):
        record.add(name(5, count), bytes([count]) * 20, durable=count == 1)
    record.add(name(7, 0, "b"), b"x" * 1_000_000, durable=False)
    record.finish(5)
    for found in (record, CallRecord(place)):
        assert [found.find(name(5, count)) for count in range(3)] == [
            bytes([count]) * 20 for count in range(3)
        ]
        assert found.find(name(7, 0, "b")) == b"x" * 1_000_000
        assert found.find(name(5, 3)) is None
        assert found.find(name(7)) is None
        assert found.finished == 5
    found.close()


@pytest.mark.parametrize("lost", [1, 17, 53, 71, 90])
def test_what_is_before_a_torn_end_counts_and_it_is_gone_on_with(place: Path, lost: int) -> None:
    record = CallRecord(place)
    record.add(name(1), b"x" * 37, durable=True)
    record.add(name(2), b"y" * 37, durable=True)
    record.close()
    whole = segment(place).stat().st_size
    os.truncate(segment(place), whole - lost)
    for turn in range(2):
        record = CallRecord(place)
        assert record.find(name(1)) == b"x" * 37
        assert (record.find(name(2)) is None) == (turn == 0)
        if turn == 0:
            record.add(name(2), b"z" * 37, durable=True)
        record.close()


WRITER = """
import sys
from pathlib import Path
from guestshares import CallRecord
from guestshares import CallName
record = CallRecord(Path(sys.argv[1]), segment_bytes=1 << 16)
for number in range(1, 1 << 20):
    record.add(CallName(number, 0, bytes(32)), b"x" * (number % 3000), durable=False)
    print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_what_it_said_it_has(place: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, place], stdout=subprocess.PIPE)
    with writer as process:
        assert process.stdout
        for line in process.stdout:
            if line == b"500\n":
                process.kill()
                break
        last = max([500, *(int(line) for line in process.stdout if line.endswith(b"\n"))])
    record = CallRecord(place)
    for number in range(1, last + 1):
        found = record.find(CallName(number, 0, bytes(32)))
        assert found == b"x" * (number % 3000)
    record.close()


def test_of_a_damaged_end_nothing_is_believed(place: Path) -> None:
    record = CallRecord(place)
    record.add(name(1), b"x" * 37, durable=True)
    record.add(name(2), b"y" * 37, durable=True)
    record.close()
    data = bytearray(segment(place).read_bytes())
    data[-3] ^= 1
    segment(place).write_bytes(data)
    record = CallRecord(place)
    assert record.find(name(1)) == b"x" * 37
    assert record.find(name(2)) is None
    record.close()
    assert segment(place).with_name("calls-00000001.damaged").read_bytes() == data


def test_a_file_that_is_no_record_and_one_of_a_later_version_are_refused(place: Path) -> None:
    CallRecord(place).close()
    data = segment(place).read_bytes()
    segment(place).write_bytes(data[:8] + b"\x02" + data[9:])
    with pytest.raises(UnsupportedError, match="version 2"):
        CallRecord(place)
    segment(place).write_bytes(b"x" + data[1:])
    with pytest.raises(NoRecordFile):
        CallRecord(place)


def test_segments_that_nobody_needs_go_and_the_others_stay(place: Path) -> None:
    record = CallRecord(place, segment_bytes=4096)
    for operation in range(1, 21):
        record.add(name(operation), b"x" * 2000, durable=False)
        record.finish(operation)
    before = len(list(place.parent.iterdir()))
    record.cut(15)
    assert len(list(place.parent.iterdir())) < before / 2
    for found in (record, CallRecord(place)):
        assert all(found.find(name(operation)) for operation in range(16, 21))
        assert found.finished == 20
    assert record.find(name(15)) is None
    record.cut(20)
    assert record.size()[0] == 0
    assert record.size()[1] < 4096
    record.close()
    record = CallRecord(place)
    assert record.finished == 20
    record.add(name(21), b"y", durable=True)
    record.cut(20)
    assert record.find(name(21)) == b"y"
    record.close()
