# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The journal: what is on media, what is beside it when media fails, and both brought together."""

import errno
import itertools
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from client.session.journal import BATCH_BYTES, Journal, JournalGap, JournalParted
from replay import KeyRing, Log, LogBusy, LogCorrupt, LogFull, LogGone, Operation
from satchel.ids import OperationNumber
from tests.client.places import Places
from tests.scripted import operation


def number(value: int) -> OperationNumber:
    return OperationNumber(value)


def encode(number: OperationNumber, time_ns: int, seed: int) -> bytes:
    return b"operation %d" % number


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Path]]:
    """Logs to which nothing can be written any more."""
    logs: set[Path] = set()
    real = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.with_name(path.name.rpartition("-")[0]) in logs:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    yield logs


def add(journal: Journal, count: int) -> list[Operation]:
    return [journal.append(encode) for _ in range(count)]


def test_operations_are_numbered_timed_and_logged_before_anybody_sees_them(places: Places) -> None:
    journal = places.journal()
    seen: list[list[int]] = []
    made = [
        journal.append(encode, lambda op: seen.append([op.number, journal.last])) for _ in range(5)
    ]
    assert [op.number for op in made] == [1, 2, 3, 4, 5]
    assert seen == [[n, n - 1] for n in range(1, 6)]
    assert all(a.time_ns < b.time_ns for a, b in itertools.pairwise(made))
    assert len({op.seed for op in made}) == 5
    assert places.logged(places.media) == [1, 2, 3, 4, 5]
    assert journal.place == places.media
    assert journal.merge(), "there is nothing to merge"
    assert not Log.exists(places.spare)


def test_a_journal_that_is_opened_again_has_everything(places: Places) -> None:
    journal = places.journal()
    made = add(journal, 3)
    journal.close()
    again = places.journal()
    assert (again.base, again.last) == (0, 3)
    assert again.wait(number(0), 10, 0) == made
    assert again.append(encode).number == 4


def test_one_journal_at_a_time(places: Places) -> None:
    places.journal()
    with pytest.raises(LogBusy):
        places.journal()


def test_a_damaged_log_is_refused_and_says_what_is_good(places: Places) -> None:
    journal = places.journal()
    add(journal, 9)
    journal.close()
    path = next(places.media.parent.glob("log-*.log"))
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match="are good; the home server has those that are stable"):
        places.journal()


def test_operations_are_given_out_in_batches_of_a_bounded_size(places: Places) -> None:
    journal = Journal(None, None)
    for _ in range(5):
        journal.append(lambda number, time_ns, seed: b"x" * (BATCH_BYTES // 2 - 100))
    journal.append(lambda number, time_ns, seed: b"x" * (2 * BATCH_BYTES))
    journal.append(encode)
    sizes = []
    cursor = number(0)
    while batch := journal.wait(cursor, 32, 0):
        sizes.append(len(batch))
        cursor = batch[-1].number
    assert sizes == [2, 2, 1, 1, 1]
    assert [op.number for op in journal.wait(number(2), 2, 0)] == [3, 4]
    assert journal.place is None


def test_a_batch_may_be_just_as_large_as_the_limit() -> None:
    journal = Journal(None, None)
    head = journal.append(lambda number, time_ns, seed: b"").record_size
    journal.append(lambda number, time_ns, seed: b"x" * (BATCH_BYTES - 2 * head))
    assert len(journal.wait(number(0), 32, 0)) == 2
    journal.append(lambda number, time_ns, seed: b"x" * (BATCH_BYTES - 2 * head + 1))
    journal.append(lambda number, time_ns, seed: b"")
    assert len(journal.wait(number(2), 32, 0)) == 1


def test_a_waiter_gets_what_comes_and_is_woken(places: Places) -> None:
    journal = places.journal()
    began = time.monotonic()
    threading.Timer(0.1, lambda: journal.append(encode)).start()
    assert [op.number for op in journal.wait(number(0), 8, 20)] == [1]
    called = threading.Event()

    def call() -> None:
        called.set()
        journal.wake()

    threading.Timer(0.1, call).start()
    assert journal.wait(number(1), 8, 20, called) == []
    assert journal.wait(number(1), 8, 20, called) == []
    assert time.monotonic() - began < 18


def test_a_cursor_before_the_beginning_is_a_gap(places: Places) -> None:
    journal = places.journal()
    journal.restart(number(7))
    with pytest.raises(JournalGap, match="operation 4 is not in the journal"):
        journal.wait(number(3), 8, 0)


def test_an_operation_that_cannot_be_encoded_is_none(places: Places) -> None:
    journal = places.journal()

    def fail(number: OperationNumber, time_ns: int, seed: int) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        journal.append(fail)
    assert journal.append(encode).number == 1


def test_media_that_is_full_in_the_middle_sends_the_journal_beside_it(
    places: Places, full: set[Path]
) -> None:
    journal = places.journal()
    add(journal, 3)
    journal.acknowledge(number(2))
    full.add(places.media)
    add(journal, 2)
    assert isinstance(journal.failure, LogFull)
    assert journal.beside
    assert journal.place == places.spare
    assert journal.stable == 2
    assert journal.merge()
    assert journal.last == 5
    assert places.logged(places.media) == [1, 2, 3]
    assert places.logged(places.spare) == [3, 4, 5]


@pytest.mark.parametrize(
    ("stable", "logged"),
    [(2, [1, 2, 3, 4]), (3, [1, 2, 3, 4]), (4, [])],
    ids=["before its end", "its end", "after its end"],
)
def test_a_spare_log_is_kept_unless_home_has_more(
    places: Places, full: set[Path], stable: int, logged: list[int]
) -> None:
    """Operations that home has need not be written once more, and no operation is missing."""
    history = [operation(n) for n in range(1, stable + 1)]
    beside = places.journal(media=False)
    beside.extend(history[:3])
    beside.close()
    journal = places.journal()
    journal.extend([*history, *(operation(n) for n in range(stable + 1, 4))])
    journal.acknowledge(number(stable))
    full.add(places.media)
    new = journal.append(encode)
    assert places.logged(places.spare) == [*logged, *([] if new.number in logged else [new.number])]


def test_operations_after_a_restart_are_logged_beside_the_medium(
    places: Places, full: set[Path]
) -> None:
    journal = places.journal()
    journal.restart(number(20))
    made = add(journal, 2)
    full.add(places.media)
    made += add(journal, 1)
    assert places.logged(places.spare) == [21, 22, 23]
    assert journal.wait(number(20), 2, 0) == made[:2]
    assert [journal.get(number(n)) for n in (20, 21, 22, 23, 24)] == [None, *made, None]


def test_a_spare_log_that_leaves_a_hole_is_refused_and_let_go(
    places: Places, full: set[Path]
) -> None:
    beside = places.journal(media=False)
    beside.restart(number(4))
    add(beside, 1)
    beside.close()
    journal = places.journal()
    add(journal, 3)
    full.add(places.media)
    with pytest.raises(JournalGap, match="operations 4 to 4 are missing"):
        journal.append(encode)
    assert (journal.last, journal.beside) == (3, False)
    full.clear()
    assert not journal.merge()
    assert places.logged(places.spare) == [5], "it is open for nobody else"


def test_operations_that_nobody_with_the_key_wrote_are_doubtful(places: Places) -> None:
    sealed = Journal(places.media, places.spare, keys=KeyRing.from_bytes(b"k" * 32))
    add(sealed, 1)
    sealed.close()
    journal = places.journal()
    add(journal, 3)
    journal.close()
    again = Journal(places.media, places.spare, keys=KeyRing.from_bytes(b"k" * 32))
    doubtful = again.doubtful(number(0))
    assert doubtful
    assert again.last in doubtful
    assert again.doubtful(min(doubtful)) == doubtful - {min(doubtful)}
    assert again.doubtful(again.last) == set()
    again.restart(number(0))
    assert again.doubtful(number(0)) == set()
    again.close()


def test_a_time_is_never_given_twice(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock may stand still, or be set back, also between two runs."""
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    journal = places.journal()
    assert [op.time_ns for op in add(journal, 3)] == [5, 6, 7]
    journal.close()
    again = places.journal()
    assert again.append(encode).time_ns == 8
    late = replace(operation(5), time_ns=20)
    again.extend([late])
    assert again.append(encode).time_ns == 21


def test_a_sync_reaches_the_disk(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(places.media, places.spare, "off")
    add(journal, 1)
    synced: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    journal.sync()
    assert len(synced) == 1
    journal.close()


def test_a_log_that_cannot_be_opened_and_has_no_spare_is_refused(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path, **options: object) -> Log:
        raise LogGone("cannot open", why="no medium")

    monkeypatch.setattr(Log, "open", gone)
    with pytest.raises(LogGone):
        Journal(places.media, None)


def test_media_that_is_pulled_out_in_the_middle_sends_the_journal_beside_it(
    places: Places,
) -> None:
    journal = places.journal()
    add(journal, 3)
    places.pull()
    add(journal, 2)
    assert isinstance(journal.failure, LogGone)
    assert places.logged(places.spare) == [1, 2, 3, 4, 5]
    assert [op.number for op in journal.wait(number(0), 9, 0)] == [1, 2, 3, 4, 5]


def test_the_next_run_brings_both_logs_together(places: Places) -> None:
    journal = places.journal()
    add(journal, 3)
    journal.acknowledge(number(3))
    places.pull()
    made = add(journal, 2)
    journal.close()
    places.put_back()
    again = places.journal()
    assert again.last in (3, 4)  # the one whose write failed may have reached the media
    assert again.merge()
    assert again.wait(number(3), 9, 0) == made
    assert places.logged(places.media) == [1, 2, 3, 4, 5]
    assert places.logged(places.spare) == []
    assert not again.beside
    assert again.append(encode).number == 6


def test_what_does_not_follow_is_kept_until_what_is_between_is_known(places: Places) -> None:
    media = places.journal()
    history = add(media, 4)
    media.acknowledge(number(4))
    places.pull()
    beside = add(media, 2)
    media.close()
    shutil.rmtree(places.media.parent)
    places.media.parent.mkdir()

    other_stick = places.journal()
    assert not other_stick.merge()
    assert places.logged(places.spare) == [5, 6]
    other_stick.extend(history[:3])
    assert not other_stick.merge()
    other_stick.extend(history)
    assert other_stick.merge()
    assert other_stick.wait(number(0), 9, 0) == history + beside
    assert places.logged(places.spare) == []


def test_operations_of_one_number_that_differ_are_told_and_both_are_kept(places: Places) -> None:
    beside = places.journal(media=False)
    add(beside, 3)
    beside.close()
    media = places.journal()
    add(media, 2)
    with pytest.raises(
        JournalParted, match="operation 1 in the journal is not the one in"
    ) as parted:
        media.merge()
    assert parted.value.number == 1
    assert places.logged(places.media) == [1, 2]
    assert places.logged(places.spare) == [1, 2, 3]


def test_what_a_checkpoint_has_already_is_not_brought_back(places: Places) -> None:
    beside = places.journal(media=False)
    add(beside, 3)
    beside.close()
    media = places.journal()
    media.restart(number(8))
    assert media.merge()
    assert media.last == 8
    assert places.logged(places.spare) == []


def test_media_that_is_full_at_the_start_is_read_and_the_journal_goes_on_beside_it(
    places: Places, full: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = places.journal()
    made = add(journal, 3)
    journal.close()
    real = Log.open.__func__  # type: ignore[attr-defined]

    def log_open(folder: Path, **options: object) -> Log:
        if folder == places.media and not options.get("read_only"):
            raise LogFull("cannot open", why="no room")
        return real(Log, folder, **options)  # type: ignore[no-any-return]

    monkeypatch.setattr(Log, "open", log_open)
    again = places.journal()
    assert again.beside
    assert again.wait(number(0), 9, 0) == made
    assert again.append(encode).number == 4
    assert places.logged(places.spare) == [1, 2, 3, 4]
    assert places.logged(places.media) == [1, 2, 3]
    again.close()
    third = places.journal()
    assert (third.beside, third.last) == (True, 4)
    assert third.append(encode).number == 5
    assert places.logged(places.spare) == [1, 2, 3, 4, 5]


def test_when_both_places_fail_the_operation_is_refused_and_nothing_is_lost(
    places: Places, full: set[Path]
) -> None:
    journal = places.journal()
    add(journal, 2)
    places.spare.parent.mkdir(parents=True)
    full |= {places.media, places.spare}
    with pytest.raises(LogFull):
        journal.append(encode)
    assert journal.last == 2
    full.discard(places.media)
    assert journal.append(encode).number == 3
    assert not journal.beside
    assert places.logged(places.media) == [1, 2, 3]


def test_without_media_the_disk_has_no_further_place(places: Places, full: set[Path]) -> None:
    journal = places.journal(media=False)
    add(journal, 1)
    full.add(places.spare)
    with pytest.raises(LogFull):
        journal.append(encode)
    full.clear()
    assert journal.append(encode).number == 2
    assert not journal.beside


def test_history_that_leaves_a_hole_is_refused(places: Places) -> None:
    journal = places.journal()
    journal.extend([operation(1), operation(2)])
    journal.extend([operation(1), operation(2), operation(3)])
    with pytest.raises(JournalGap, match="ends at operation 3"):
        journal.extend([operation(5)])
    assert places.logged(places.media) == [1, 2, 3]


def test_a_journal_can_begin_anew_and_be_cut(places: Places) -> None:
    journal = places.journal()
    add(journal, 3)
    journal.restart(number(20))
    assert (journal.base, journal.last) == (20, 20)
    assert [op.number for op in add(journal, 3)] == [21, 22, 23]
    journal.cut(number(22))
    assert (journal.base, journal.last) == (22, 23)
    journal.cut(number(3))
    assert (journal.base, journal.last) == (22, 23)
    assert places.logged(places.media) == [23]
    journal.restart(number(5))
    journal.close()
    again = places.journal()
    assert (again.base, again.last) == (5, 5)


def test_a_clock_that_was_ahead_once_dates_no_later_operation(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    year_2098, hour = 4_039_372_800 * 10**9, 3600 * 10**9
    journal = places.journal()
    with monkeypatch.context() as ahead:
        ahead.setattr("time.time_ns", lambda: year_2098)
        add(journal, 1)
    journal.close()
    again = places.journal()
    before = time.time_ns()
    (right,) = add(again, 1)
    assert before <= right.time_ns <= time.time_ns()
    with monkeypatch.context() as behind:
        behind.setattr("time.time_ns", lambda: right.time_ns - hour // 60)
        assert add(again, 1)[0].time_ns == right.time_ns + 1
    again.close()


def test_a_draft_has_the_next_number_and_is_not_kept(places: Places) -> None:
    journal = places.journal()
    (first,) = add(journal, 1)
    draft = journal.draft(encode)
    assert draft.number == 2
    assert draft.time_ns > first.time_ns
    assert journal.last == 1
    second = journal.append(encode)
    assert second.number == 2
    assert second.time_ns > draft.time_ns
    assert journal.draft(encode, number(9)).number == 9
    journal.close()
    assert places.logged(places.media) == [1, 2]


def test_many_threads_append_and_every_number_is_given_once(places: Places) -> None:
    journal = Journal(places.media, places.spare, "off")
    numbers: list[int] = []

    def work() -> None:
        numbers.extend(op.number for op in add(journal, 50))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 301))
    assert [op.number for op in journal.wait(number(0), 400, 0)] == sorted(numbers)
    journal.close()
    assert places.logged(places.media) == sorted(numbers)
