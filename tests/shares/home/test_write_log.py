# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The write log: what counts, after the end of the process and after damage."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import UnsupportedError
from shares.home import WriteLog, write_log
from shares.protocol import BLOCK, FileId
from tests.chunkstore.mounts import fill, tmpfs
from tests.needs import requires

FILE = FileId(7)

GOLDEN = bytes.fromhex(
    "5341545348 4c4f47 01000000 00000000"
    "c31d0665 03000000 01 0700000000000000 0100000000000000 88030000 6e6577"
    "6b8256cf 00000000 02 0700000000000000 0100000000000000 01000000"
)


def parts(log: WriteLog, block: int = 1) -> list[tuple[int, bytes]]:
    return [(part.offset, part.data) for part in log.written(FILE, block)]


def test_it_has_these_bytes(tmp_path: Path) -> None:
    log = WriteLog(tmp_path / "log")
    log.append(FILE, 1, 904, b"new")
    assert parts(log) == [(904, b"new")]
    log.over(FILE, 1, 1)
    log.over(FILE, 5, 1)  # costs nothing
    log.close()
    assert (tmp_path / "log").read_bytes() == GOLDEN


def test_what_was_appended_is_there_again(tmp_path: Path) -> None:
    log = WriteLog(tmp_path / "log")
    log.append(FILE, 1, 0, b"one")
    log.append(FILE, 2, 5, b"two")
    log.append(FILE, 1, 1, b"three")
    log.append(FileId(8), 1, 0, b"other")
    log.over(FILE, 2, 1)
    log.close()
    again = WriteLog(tmp_path / "log")
    assert parts(again) == [(0, b"one"), (1, b"three")]
    assert again.files() == [7, 8] and again.blocks(FILE) == [1]
    assert (again.lag().records, again.lag().bytes) == (3, 13)
    again.over(FileId(8), 0, 0)
    assert again.files() == [7]
    again.close()


def test_of_a_file_that_is_cut_what_lies_before_stays(tmp_path: Path) -> None:
    log = WriteLog(tmp_path / "log")
    log.append(FILE, 0, 0, b"before")
    log.append(FILE, 1, 0, b"across")
    log.append(FILE, 1, 10, b"behind")
    log.append(FILE, 9, 0, b"far behind")
    log.append(FileId(8), 9, 0, b"other")
    log.cut(FILE, BLOCK + 3)
    log.cut(FILE, 5 * BLOCK)  # costs nothing
    assert parts(log) == [(0, b"acr")] and log.lag().bytes == 14
    size = (tmp_path / "log").stat().st_size
    log.close()
    again = WriteLog(tmp_path / "log")
    assert parts(again) == [(0, b"acr")] and parts(again, 0) == [(0, b"before")]
    assert again.blocks(FILE) == [0, 1] and again.blocks(FileId(8)) == [9]
    again.cut(FILE, 0)
    assert again.files() == [8] and (tmp_path / "log").stat().st_size == size + 29
    again.close()


def test_a_whole_block_takes_the_place_of_what_was_before(tmp_path: Path) -> None:
    log = WriteLog(tmp_path / "log")
    for number in range(10):
        log.append(FILE, 1, number, b"x")
    log.append(FILE, 1, 0, bytes(BLOCK))
    assert parts(log) == [(0, bytes(BLOCK))] and log.lag().bytes == BLOCK
    log.close()


def records(path: Path) -> list[bytes]:
    """Content of a log as it is when each record was the last."""
    log = WriteLog(path)
    states = [path.read_bytes()]
    random.seed(4)
    for number in range(12):
        if number % 4 == 3:
            log.over(FILE, random.randrange(3), 1)
        else:
            log.append(FILE, random.randrange(3), number, random.randbytes(random.randrange(30)))
        states.append(path.read_bytes())
    log.close()
    return states


def content(path: Path) -> dict[int, list[tuple[int, bytes]]]:
    log = WriteLog(path)
    found = {block: parts(log, block) for block in log.blocks(FILE)}
    log.append(FILE, 9, 0, b"goes on")
    log.close()
    log = WriteLog(path)
    assert parts(log, 9) == [(0, b"goes on")]
    log.close()
    return found


def test_a_torn_log_counts_up_to_its_last_whole_record(tmp_path: Path) -> None:
    states = records(tmp_path / "log")
    wanted = {}
    for state in states:
        (tmp_path / "whole").write_bytes(state)
        wanted[len(state)] = content(tmp_path / "whole")
    for length in range(16, len(states[-1])):
        (tmp_path / "torn").write_bytes(states[-1][:length])
        whole = max(size for size in wanted if size <= length)
        assert content(tmp_path / "torn") == wanted[whole]


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    states = records(tmp_path / "log")
    whole = states[-1]
    wanted = []
    for state in states:
        (tmp_path / "whole").write_bytes(state)
        wanted.append((len(state), content(tmp_path / "whole")))
    for place in range(16, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        (tmp_path / "bad").write_bytes(damaged)
        before = max((size, index) for index, (size, _) in enumerate(wanted) if size <= place)[1]
        assert content(tmp_path / "bad") == wanted[before][1]
        assert (tmp_path / "bad.damaged").read_bytes() == damaged


def test_what_is_no_log_is_kept_aside_and_a_newer_one_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"something else")
    assert content(tmp_path / "log") == {}
    assert (tmp_path / "log.damaged").read_bytes() == b"something else"
    (tmp_path / "new").write_bytes(GOLDEN.replace(b"\x01", b"\x02", 1))
    with pytest.raises(UnsupportedError):
        WriteLog(tmp_path / "new")


def test_a_log_that_is_over_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_log, "COMPACT_BYTES", 200_000)
    log = WriteLog(tmp_path / "log")
    for number in range(1000):
        log.append(FILE, number % 50, 0, bytes([number % 251]) * BLOCK)
        log.over(FILE, number % 50, number % 3)
    assert (tmp_path / "log").stat().st_size < 400_000
    expected = {block: parts(log, block) for block in log.blocks(FILE)}
    log.close()
    again = WriteLog(tmp_path / "log")
    assert {block: parts(again, block) for block in again.blocks(FILE)} == expected
    again.over(FILE, 0, 0)
    again.close()


@requires("root", "mount")
def test_what_is_over_on_a_full_disk_is_over_and_is_said_when_there_is_room(tmp_path: Path) -> None:
    """It raised where nobody expected it: leases were looked at no more, cuts were half made."""
    with tmpfs(tmp_path / "disk", "1m"):
        log = WriteLog(tmp_path / "disk" / "log")
        for block in range(3):
            log.append(FILE, block, 0, b"x" * (BLOCK - 29 - 16 * (block == 0)))
        assert log._file.end == 3 * BLOCK  # so that the next byte needs room
        others = fill(tmp_path / "disk")
        log.over(FILE, 1, 1)
        log.cut(FILE, 2 * BLOCK + 5)
        assert log.blocks(FILE) == [0, 2] and parts(log, 2) == [(0, b"xxxxx")]
        with pytest.raises(OSError, match="space"):
            log.append(FILE, 1, 0, b"new")
        others.unlink()
        log.append(FILE, 1, 0, b"newer")
        log.close()
        again = WriteLog(tmp_path / "disk" / "log")
        assert again.blocks(FILE) == [0, 1, 2]
        assert (parts(again), parts(again, 2)) == ([(0, b"newer")], [(0, b"xxxxx")])
        fill(tmp_path / "disk")
        again.over(FILE, 0, 0)
        again.close()
        last = WriteLog(tmp_path / "disk" / "log")
        assert last.lag().records == 0
        last.close()


def test_a_process_that_is_killed_loses_nothing_that_it_appended(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from shares.home import WriteLog
log = WriteLog(Path(sys.argv[1]))
for number in range(10**6):
    log.append(7, number, 3, b"%d" % number)
    print(number, flush=True)
"""
    arguments: Any = [sys.executable, "-c", code, str(tmp_path / "log")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for _ in range(200):
            process.stdout.readline()
        process.kill()
        said = process.stdout.read().split()
    last = int(said[-1]) if said else 199
    log = WriteLog(tmp_path / "log")
    assert len(log.blocks(FILE)) >= last
    assert all(parts(log, number) == [(3, b"%d" % number)] for number in range(last))
    log.close()


def test_restoring_a_hundred_operations_says_how_long_it_took(
    tmp_path: Path, record_property: Any
) -> None:
    from shares.home import Share, ShareRecord

    root = tmp_path / "shared"
    root.mkdir()
    (root / "file").write_bytes(bytes(50 * BLOCK))

    def share() -> Share:
        return Share(ShareRecord("s", str(root), log="sync"), tmp_path / "s", lease=5.0)

    first = share()
    entries = first.tree.entries(FileId(1))
    first.close()
    log = WriteLog(tmp_path / "s" / "log")
    for number in range(100):
        log.append(entries[0].attributes.file, number % 50, number * 10, b"0123456789")
    log.close()
    began = time.perf_counter()
    second = share()
    record_property("open_seconds", time.perf_counter() - began)
    record_property("replay_seconds", second.blocks.replay_seconds)
    assert second.blocks.restored.records == 100
    second.close()
    assert os.pread(os.open(root / "file", os.O_RDONLY), 10, 49 * BLOCK + 990) == b"0123456789"
    assert WriteLog(tmp_path / "s" / "log").lag().records == 0
