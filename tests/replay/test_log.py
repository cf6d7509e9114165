# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import struct
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import replay.log
from replay import (
    Log,
    LogBusy,
    LogReadOnly,
    LogState,
    LogUnsupported,
    Operation,
    OperationGap,
    OperationsCut,
)
from satchel.errors import StateError
from satchel.ids import OperationNumber
from tests.replay.logs import content, files, filled, operation, ring
from tests.waiting import eventually

GOLDEN_HEADER = bytes.fromhex(
    "53415443484c4f47 05000000 01000000 0100000000000000" + "00" * 32 + "01000000"
)
GOLDEN_KEY = bytes(range(32))
GOLDEN_HEADER_SEAL = bytes.fromhex(
    "51d14074d196f8a9dc1fa54133b5b4431d81d9f5b23664ccedbf0d418699a6dd"
)
GOLDEN_SEAL = bytes.fromhex("de3d3e254af981ecb06696764359f1fa8f3d4275f59a6e95b059f006b2e98897")


def number(value: int) -> OperationNumber:
    return OperationNumber(value)


def test_golden_bytes(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", keys=ring(GOLDEN_KEY)) as log:
        log.append(Operation(number(1), 2, 3, b"hello"))
    record = struct.pack("<4sIQQQI", b"SATO", 5, 1, 2, 3, zlib.crc32(b"hello"))
    expected = GOLDEN_HEADER + struct.pack("<I", zlib.crc32(GOLDEN_HEADER))
    expected += GOLDEN_HEADER_SEAL + struct.pack("<I", zlib.crc32(GOLDEN_HEADER_SEAL))
    expected += record + struct.pack("<I", zlib.crc32(record)) + b"hello"
    expected += GOLDEN_SEAL + struct.pack("<I", zlib.crc32(GOLDEN_SEAL))
    assert (tmp_path / "log-00000001.log").read_bytes() == expected.ljust(1 << 20, b"\0")


def test_an_empty_log(tmp_path: Path) -> None:
    with Log.open(tmp_path / "deep" / "log") as log:
        assert (log.first, log.last, log.durable) == (1, 0, 0)
        assert content(log) == []
        assert log.torn is None


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 20) as log:
        assert content(log) == [operation(n) for n in range(1, 21)]
    assert len(files(tmp_path / "log")) > 3
    with Log.open(tmp_path / "log") as log:
        assert (log.first, log.last, log.durable) == (1, 20, 20)
        assert content(log) == [operation(n) for n in range(1, 21)]
        assert [o.number for o in log.read(number(18))] == [19, 20]
        assert list(log.read(number(20))) == []
        assert list(log.read(number(99))) == []


def test_numbers_follow_each_other(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 3) as log:
        for wrong in (3, 5):
            with pytest.raises(OperationGap) as caught:
                log.append(operation(wrong))
            assert (caught.value.number, caught.value.last) == (wrong, 3)
        log.append(operation(4))


def test_a_log_may_begin_after_a_checkpoint(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", after=number(100)) as log:
        assert (log.first, log.last) == (101, 100)
        log.append(operation(101))
    with Log.open(tmp_path / "log", after=number(5)) as log:
        assert (log.first, log.last) == (101, 101)


@pytest.mark.parametrize("upto", range(21))
def test_cut(tmp_path: Path, upto: int) -> None:
    with filled(tmp_path / "log", 20) as log:
        log.cut(number(upto))
        for _ in range(2):
            assert (log.first, log.last, log.durable) == (upto + 1, 20, 20)
            assert content(log) == [operation(n) for n in range(upto + 1, 21)]
            log.close()
            log = Log.open(tmp_path / "log")  # noqa: PLW2901
        log.append(operation(21))
        log.close()


def test_cut_beyond_the_end(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 20) as log:
        log.cut(number(50))
        assert (log.first, log.last, log.durable) == (51, 50, 50)
        log.append(operation(51))
    assert files(tmp_path / "log") == ["log-00000051.log"]


def test_operations_that_were_cut_are_not_silently_skipped(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 20) as log:
        log.cut(number(10))
        with pytest.raises(OperationsCut):
            next(log.read(number(5)))


def test_an_empty_log_starts_anew_anywhere(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 20) as log:
        with pytest.raises(StateError):
            log.start_from(number(30))
        log.cut(log.last)
        for base in (30, 7, 7):
            log.start_from(number(base))
            assert (log.first, log.last, log.durable) == (base + 1, base, base)
        log.append(operation(8))
    assert files(tmp_path / "log") == ["log-00000008.log"]


def test_reading_needs_the_medium_only_for_old_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay.log, "RECENT_COUNT", 5)
    with filled(tmp_path / "log", 20) as log:
        assert content(log) == [operation(n) for n in range(1, 21)]
        for path in tmp_path.glob("*.log"):
            path.unlink()
        assert [o.number for o in log.read(number(15))] == [16, 17, 18, 19, 20]


def test_one_writer(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 3):
        with pytest.raises(LogBusy):
            Log.open(tmp_path / "log")
        with Log.open(tmp_path / "log", read_only=True) as reader:
            assert len(content(reader)) == 3
    Log.open(tmp_path / "log").close()


def test_a_log_opened_to_be_read_changes_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "log", 3).close()
    path = max(tmp_path.glob("*.log"))
    path.write_bytes(path.read_bytes().rstrip(b"\0")[:-1])
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    with Log.open(tmp_path / "log", read_only=True) as log:
        assert (log.last, log.torn is not None) == (2, True)
        with pytest.raises(LogReadOnly):
            log.append(operation(3))
        with pytest.raises(LogReadOnly):
            log.cut(number(1))
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_closed_log(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 3)
    log.close()
    log.close()
    assert log.state is LogState.CLOSED
    calls: list[Callable[[], object]] = [
        lambda: log.append(operation(4)),
        log.sync,
        lambda: log.cut(number(1)),
    ]
    for call in calls:
        with pytest.raises(StateError):
            call()
    with pytest.raises(StateError):
        content(log)
    assert (log.last, log.durable) == (3, 3)


def test_interval_durability(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", durability="interval", interval_s=0.1) as log:
        log.append(operation(1))
        assert log.last == 1
        assert eventually(lambda: log.durable == 1)


def test_no_durability_until_asked(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", durability="off") as log:
        log.append(operation(1))
        assert (log.last, log.durable) == (1, 0)
        log.sync()
        assert log.durable == 1


def test_readers_and_a_writer_that_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay.log, "RECENT_COUNT", 3)
    problems: list[str] = []

    def follow() -> None:
        last = 0
        while last < 300:
            time.sleep(0.001)
            try:
                for found in log.read(number(last)):
                    if found != operation(found.number) or found.number != last + 1:
                        problems.append(f"{found.number} after {last}")
                    last = found.number
            except OperationsCut:
                last = max(last, log.first - 1)

    with Log.open(tmp_path / "log", segment_bytes=500, durability="off") as log:
        threads = [threading.Thread(target=follow) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(1, 301):
            log.append(operation(n))
            if n % 40 == 0:
                log.cut(number(n - 15))
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
    assert problems == []


def test_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path / "log", 0).close()
    header = bytearray((tmp_path / "log-00000001.log").read_bytes()[:60])
    header[8] = 6
    (tmp_path / "log-00000001.log").write_bytes(header + struct.pack("<I", zlib.crc32(header)))
    with pytest.raises(LogUnsupported, match="version 6"):
        Log.open(tmp_path / "log")
    assert files(tmp_path / "log") == ["log-00000001.log"]


def test_an_older_version_is_left_alone(tmp_path: Path) -> None:
    header = struct.pack("<8sIIQI", b"SATCHLOG", 3, 1, 1, 0)
    (tmp_path / "log-00000001.log").write_bytes(header + struct.pack("<I", zlib.crc32(header)))
    with pytest.raises(LogUnsupported, match="version 3"):
        Log.open(tmp_path / "log")
    assert files(tmp_path / "log") == ["log-00000001.log"]


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "1.log").write_text("mine")
    filled(tmp_path / "log", 3).close()
    with Log.open(tmp_path / "log") as log:
        assert log.last == 3
    assert {"notes.txt", "1.log"} <= set(files(tmp_path / "log"))
