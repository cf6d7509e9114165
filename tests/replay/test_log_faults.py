# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Crashes, damage and bad media."""

import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replay import (
    Log,
    LogCorrupt,
    LogFull,
    LogGone,
    LogReadOnly,
    LogState,
    Operation,
    OperationsCut,
    logs_in,
)
from replay.chain import TRAILER_SIZE, UNSEALED, encode_trailer
from replay.segments import BASE, SEGMENT_HEADER_SIZE, VOID, encode_header
from satchel.ids import OperationNumber
from testbed.media import Stick
from tests.conftest import requires
from tests.replay.logs import content, files, filled, operation


def single_segment(log_path: Path, count: int) -> Path:
    """A log in one file without room, closed; the path of the file."""
    with Log.open(log_path) as log:
        for number in range(1, count + 1):
            log.append(operation(number))
    path = log_path.with_name("log-00000001.log")
    path.write_bytes(path.read_bytes().rstrip(b"\0"))
    return path


def record_starts(count: int) -> list[int]:
    """Where the records of `single_segment` start, and where the last one ends."""
    starts = [SEGMENT_HEADER_SIZE]
    for number in range(1, count + 1):
        starts.append(starts[-1] + operation(number).record_size + TRAILER_SIZE)
    return starts


def test_torn_at_every_byte_of_the_last_records(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 5)
    whole = path.read_bytes()
    starts = record_starts(5)
    for size in range(starts[2], len(whole) + 1):
        path.write_bytes(whole[:size])
        expected = max(n for n in range(6) if starts[n] <= size)
        with Log.open(tmp_path / "log") as log:
            assert (log.last, log.durable) == (expected, expected)
            assert (log.torn is None) == (size in starts)
            log.append(operation(expected + 1))
        with Log.open(tmp_path / "log") as log:
            assert log.torn is None
            assert content(log) == [operation(n) for n in range(1, expected + 2)]


@pytest.mark.parametrize("tail", [random.Random(8).randbytes(700), b"SATO" * 200])
def test_torn_with_noise_at_the_end(tmp_path: Path, tail: bytes) -> None:
    path = single_segment(tmp_path / "log", 5)
    good = path.stat().st_size
    path.write_bytes(path.read_bytes() + tail)
    with Log.open(tmp_path / "log") as log:
        assert log.last == 5
        assert log.torn is not None
        assert (log.torn.segment, log.torn.offset, log.torn.size) == (path.name, good, len(tail))
    assert path.read_bytes()[good:] == bytes(len(tail))


def test_a_segment_has_its_room_from_the_beginning(tmp_path: Path) -> None:
    """An append changes no size, no place, no folder: what FAT could lose is left alone."""
    with Log.open(tmp_path / "log", segment_bytes=1000) as log:
        (path,) = tmp_path.glob("*.log")
        for number in range(1, 6):
            before = path.stat()
            log.append(operation(number))
            after = path.stat()
            assert (after.st_size, after.st_blocks) == (before.st_size, before.st_blocks)
        large = Operation(OperationNumber(6), 0, 0, b"x" * 5000)
        log.append(large)
        log.append(operation(7))
    sizes = [(tmp_path / name).stat().st_size for name in files(tmp_path / "log")]
    assert sizes == [1000, SEGMENT_HEADER_SIZE + large.record_size + TRAILER_SIZE, 1000]
    with Log.open(tmp_path / "log") as log:
        assert (log.last, log.torn) == (7, None)
        assert content(log) == [*(operation(n) for n in range(1, 6)), large, operation(7)]


def test_torn_within_the_room_of_a_segment(tmp_path: Path) -> None:
    """Any sectors of the last record may be there, and any may be zeros still."""
    with Log.open(tmp_path / "log", segment_bytes=4096) as log:
        log.append(operation(1))
    path = tmp_path / "log-00000001.log"
    whole = path.read_bytes()
    start = len(whole.rstrip(b"\0"))
    record = Operation(OperationNumber(2), 0, 0, random.Random(4).randbytes(1400)).encode()
    record += encode_trailer(UNSEALED)
    places = [range(at, min(at + 512, len(record))) for at in range(0, len(record), 512)]
    for which in range(1, 1 << len(places)):
        torn = bytearray(whole)
        for index, place in enumerate(places):
            if which >> index & 1:
                torn[start + place.start : start + place.stop] = record[place.start : place.stop]
        path.write_bytes(torn)
        complete = which == (1 << len(places)) - 1
        with Log.open(tmp_path / "log", segment_bytes=4096) as log:
            assert (log.last, log.torn is None) == ((2, True) if complete else (1, False))
            log.append(operation(log.last + 1))
        assert path.stat().st_size == 4096
        with Log.open(tmp_path / "log") as log:
            assert log.torn is None


@requires("root")
def test_a_full_medium_gets_segments_without_room(medium: Path) -> None:
    with (medium / "film").open("wb") as film:
        film.truncate(56 << 10)
        os.posix_fallocate(film.fileno(), 0, 56 << 10)
    with Log.open(medium / "log") as log:
        log.append(operation(1))
        with pytest.raises(LogFull):
            log.append(Operation(OperationNumber(2), 0, 0, bytes(9000)))
        log.append(operation(2))
    with Log.open(medium / "log") as log:
        assert content(log) == [operation(1), operation(2)]


def test_torn_with_an_old_record_at_the_end(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 5)
    path.write_bytes(path.read_bytes() + operation(2).encode())
    with Log.open(tmp_path / "log") as log:
        assert log.last == 5
        assert log.torn is not None


def test_torn_in_a_payload_that_holds_records(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 5)
    good = path.read_bytes()
    carrier = Operation(OperationNumber(6), 0, 0, operation(6).encode() + operation(7).encode())
    path.write_bytes(good + carrier.encode()[:-1])
    with Log.open(tmp_path / "log") as log:
        assert log.last == 5


def test_flipped_bytes_are_noticed_wherever_they_are(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 4)
    whole = path.read_bytes()
    starts = record_starts(4)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        path.write_bytes(damaged)
        if at < starts[3]:
            with pytest.raises(LogCorrupt) as caught:
                Log.open(tmp_path / "log")
            start = max([0, *(s for s in starts if s <= at)])
            assert (caught.value.segment, caught.value.offset) == (path.name, start)
            assert path.read_bytes() == damaged
        else:
            with Log.open(tmp_path / "log", read_only=True) as log:
                assert log.last == 3
                assert log.torn is not None


def test_damage_in_an_older_segment_is_not_a_torn_end(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20).close()
    oldest = tmp_path / files(tmp_path / "log")[0]
    oldest.write_bytes(oldest.read_bytes().rstrip(b"\0")[:-1])
    with pytest.raises(LogCorrupt, match=oldest.name):
        Log.open(tmp_path / "log")


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20).close()
    (tmp_path / files(tmp_path / "log")[1]).unlink()
    with pytest.raises(LogCorrupt, match="are missing"):
        Log.open(tmp_path / "log")


def test_a_missing_first_segment_looks_like_a_cut(tmp_path: Path) -> None:
    filled(tmp_path / "log", 20).close()
    (tmp_path / files(tmp_path / "log")[0]).unlink()
    with Log.open(tmp_path / "log") as log:
        assert log.first > 1
        with pytest.raises(OperationsCut):
            next(log.read(OperationNumber(0)))


def test_a_renamed_segment_is_noticed(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 3)
    path.rename(path.with_name("log-00000002.log"))
    with pytest.raises(LogCorrupt, match="starts with operation 1"):
        Log.open(tmp_path / "log")


@pytest.mark.parametrize("left", [b"", b"SATCH", bytes(64), bytes(5000)])
def test_a_last_segment_without_a_header_is_a_torn_end(tmp_path: Path, left: bytes) -> None:
    filled(tmp_path / "log", 20).close()
    (tmp_path / "log-00000021.log").write_bytes(left)
    with Log.open(tmp_path / "log") as log:
        assert log.last == 20
        assert log.torn is not None
        log.append(operation(21))


@pytest.mark.parametrize("left", [b"", b"SATCH", bytes(5000), encode_header(1, BASE | VOID)])
def test_a_first_segment_that_was_not_finished_is_begun_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "log-00000001.log").write_bytes(left)
    with Log.open(tmp_path / "log") as log:
        assert (log.first, log.last) == (1, 0)
        log.append(operation(1))


def test_a_segment_of_an_unfinished_cut_gives_way_to_the_one_before(tmp_path: Path) -> None:
    """Its records are there before its header is: sectors of them, of it, or of what was there."""
    path = single_segment(tmp_path / "log", 5)
    half = path.read_bytes()[record_starts(5)[2] :]
    noise = random.Random(5).randbytes(SEGMENT_HEADER_SIZE)
    for header in (bytes(len(noise)), noise, encode_header(3, BASE | VOID)):
        (tmp_path / "log-00000003.log").write_bytes(header + half)
        with Log.open(tmp_path / "log") as log:
            assert content(log) == [operation(n) for n in range(1, 6)]
        assert files(tmp_path / "log") == ["log-00000001.log"]


def test_a_segment_that_is_removed_is_made_void_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its clusters are used for next never looks like a segment."""
    left: dict[str, bytes] = {}
    unlink = Path.unlink

    def look(path: Path, *, missing_ok: bool = False) -> None:
        left[path.name] = path.read_bytes()[:SEGMENT_HEADER_SIZE]
        unlink(path, missing_ok=missing_ok)

    with filled(tmp_path / "log", 20) as log:
        names = files(tmp_path / "log")
        monkeypatch.setattr(Path, "unlink", look)
        log.cut(log.last)
    assert left == {name: encode_header(int(name[4:12]), VOID) for name in names}


def test_logs_whose_names_begin_alike(tmp_path: Path) -> None:
    names = ("a", "a-1", "a-00000001")
    for count, name in enumerate(names, start=1):
        filled(tmp_path / name, count).close()
    assert logs_in(tmp_path) == sorted(tmp_path / name for name in names)
    for count, name in enumerate(names, start=1):
        with Log.open(tmp_path / name) as log:
            assert log.last == count


def test_damage_that_comes_later_is_noticed_by_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.log.RECENT_COUNT", 1)
    path = single_segment(tmp_path / "log", 5)
    with Log.open(tmp_path / "log") as log:
        with path.open("r+b") as file:
            file.seek(record_starts(5)[2] + 50)
            file.write(b"!")
        reading = log.read(OperationNumber(0))
        assert [next(reading).number, next(reading).number] == [1, 2]
        with pytest.raises(LogCorrupt) as caught:
            next(reading)
        assert caught.value.last == 2


class Crash(BaseException):
    """The power goes out."""


def crash_after(
    monkeypatch: pytest.MonkeyPatch, changes: int, *, also_after: bool
) -> Callable[[], int]:
    """Lets that many changes of folders and files happen, then raises Crash for ever.

    also_after: the last change still happens, unseen by the program. Returns a count of changes.
    """
    done = 0

    def wrap(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def stumble(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            done += 1
            if done == changes + 1 and also_after:
                original(*args, **kwargs)
            if done > changes:
                raise Crash
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, stumble)

    for owner, name in [
        (os, "fsync"),
        (os, "fdatasync"),
        (os, "pwrite"),
        (Path, "unlink"),
    ]:
        wrap(owner, name)
    return lambda: done


def fresh_log(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    filled(folder / "log", 20).close()


@pytest.mark.parametrize("also_after", [False, True])
@pytest.mark.parametrize("upto", [3, 5, 12, 19, 20, 30])
def test_a_crash_at_any_point_of_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upto: int, also_after: bool
) -> None:
    folder = tmp_path / "folder"
    for changes in range(100):
        fresh_log(folder)
        log = Log.open(folder / "log")
        with monkeypatch.context() as patched:
            count = crash_after(patched, changes, also_after=also_after)
            try:
                log.cut(OperationNumber(upto))
                finished = True
            except Crash:
                finished = False
            patched.undo()
        _abandon(log)
        with Log.open(folder / "log") as again:
            assert again.last in (20, max(20, upto))
            assert 1 <= again.first <= upto + 1
            assert content(again) == [operation(n) for n in range(again.first, again.last + 1)]
            again.append(operation(again.last + 1))
        if finished:
            assert count() == changes or changes == 0
            return
    raise AssertionError("the cut never finished")


@pytest.mark.parametrize("also_after", [False, True])
def test_a_crash_at_any_point_of_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also_after: bool
) -> None:
    folder = tmp_path / "folder"
    for changes in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        log = Log.open(folder / "log", segment_bytes=1)
        log.append(operation(1))
        with monkeypatch.context() as patched:
            crash_after(patched, changes, also_after=also_after)
            try:
                log.append(operation(2))
                finished = True
            except Crash:
                finished = False
            patched.undo()
        _abandon(log)
        with Log.open(folder / "log") as again:
            assert again.last in ((2,) if finished else (1, 2))
            assert content(again) == [operation(n) for n in range(1, again.last + 1)]
        if finished:
            return
    raise AssertionError("the append never finished")


def _abandon(log: Log) -> None:
    """What the kernel does to a killed program's files."""
    os.close(log._fd)
    os.close(log._lock_fd)
    log._fd = log._lock_fd = -1
    log._state = LogState.CLOSED


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fits_in_part_is_taken_back(tmp_path: Path) -> None:
    path = single_segment(tmp_path / "log", 3)
    size = path.stat().st_size
    with Log.open(tmp_path / "log") as log:
        with file_size_limit(size + 50), pytest.raises(LogFull):
            log.append(operation(4))
        assert (log.state, log.last, log.durable) == (LogState.OPEN, 3, 3)
        assert path.stat().st_size == size
        log.append(operation(4))
    with Log.open(tmp_path / "log") as log:
        assert (log.last, log.torn) == (4, None)


def test_a_sync_that_fails_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with filled(tmp_path / "log", 3) as log:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            with pytest.raises(LogGone, match="Input/output error"):
                log.append(operation(4))
        assert (log.state, log.last, log.durable) == (LogState.FAILED, 3, 3)
        with pytest.raises(LogGone, match="cannot log operation 4"):
            log.append(operation(4))
        assert len(content(log)) == 3


def test_a_folder_that_is_gone_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with filled(folder / "log", 3) as log:
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(LogGone):
            log.append(operation(4))
        assert (log.state, log.durable) == (LogState.FAILED, 3)
        assert len(content(log)) == 3


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogGone):
        Log.open(tmp_path / "file" / "log")
    with pytest.raises(LogGone):
        Log.open(tmp_path / "absent" / "log", read_only=True)


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system with 64 KB of room."""
    path = tmp_path / "medium"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "medium", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=False, capture_output=True)


@requires("root")
def test_a_medium_fills_up_and_a_cut_makes_room(medium: Path) -> None:
    with Log.open(medium / "log", segment_bytes=4000) as log:
        with pytest.raises(LogFull, match="No space left"):
            for number in range(1, 1000):
                log.append(operation(number))
        last = log.last
        assert (log.state, log.durable) == (LogState.OPEN, last)
        assert last > 100
        log.cut(OperationNumber(last - 10))
        log.append(operation(last + 1))
    with Log.open(medium / "log") as log:
        assert (log.last, log.torn) == (last + 1, None)
        assert content(log) == [operation(n) for n in range(last - 9, last + 2)]


@requires("root")
def test_a_medium_becomes_read_only(medium: Path) -> None:
    filled(medium / "log", 3).close()
    subprocess.run(["mount", "-o", "remount,ro", medium], check=True)
    with pytest.raises(LogReadOnly, match="Read-only file system"):
        Log.open(medium / "log")
    with Log.open(medium / "log", read_only=True) as log:
        assert len(content(log)) == 3


@requires("root")
def test_a_medium_is_pulled_out(medium: Path) -> None:
    with filled(medium / "log", 20) as log:
        subprocess.run(["umount", "-l", medium], check=True)
        with pytest.raises(LogGone):
            log.append(operation(21))
        assert (log.state, log.last, log.durable) == (LogState.FAILED, 20, 20)
        assert len(content(log)) == 20
        with pytest.raises(LogGone):
            log.append(operation(21))


@requires("root", "loop", "fuse", "mkfs.exfat", "mount.exfat-fuse")
@pytest.mark.parametrize("seen", [True, False])
def test_a_medium_that_is_dead_lets_the_log_go(tmp_path: Path, seen: bool) -> None:
    """The last close of a file on it fails as well."""
    stick = Stick(tmp_path)
    try:
        with filled(stick.root / "log", 20) as log:
            stick.pull(seen=seen)
            with pytest.raises(LogGone):
                log.append(operation(21))
            assert (log.state, log.durable) == (LogState.FAILED, 20)
        assert log.state is LogState.CLOSED
        stick.plug()
        with Log.open(stick.root / "log") as log:
            assert log.last == 20
    finally:
        stick.close()
