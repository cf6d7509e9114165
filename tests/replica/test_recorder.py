# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a recorder notes of a machine, and what it asks."""

import threading

from replica import RESUME, STEADY, Access, Recorder, recorder
from volumes import Volume


class Watch:
    """A recorder, and what it asked of the resolver behind it."""

    def __init__(self) -> None:
        self.phase = RESUME
        self.asked: list[tuple[int, int]] = []
        self.recorder = Recorder(self._resolve, lambda: self.phase)

    def _resolve(self, volume: Volume, first: int, count: int) -> None:
        self.asked.append((first, count))


def places(accesses: list[Access]) -> list[tuple[str, int, int]]:
    return [(access.phase, access.first, access.count) for access in accesses]


def test_it_notes_and_asks(volume: Volume) -> None:
    watch = Watch()
    threads = [threading.Thread(target=watch.recorder, args=(volume, n, 2)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(watch.asked) == [(n, 2) for n in range(20)]
    watch.phase = STEADY
    watch.recorder(volume, 1, 3)
    accesses = watch.recorder.take()
    assert sorted(places(accesses)[:20]) == [(RESUME, n, 2) for n in range(20)]
    assert places(accesses)[20:] == [(STEADY, 1, 3)]
    assert [access.at for access in accesses] == sorted(access.at for access in accesses)
    assert watch.recorder.take() == []


def test_outside_of_a_phase_it_only_asks(volume: Volume) -> None:
    watch = Watch()
    watch.phase = ""
    watch.recorder(volume, 7, 1)
    assert watch.asked == [(7, 1)]
    assert watch.recorder.take() == []


def test_of_known_runs_it_tells_what_was_written_and_what_was_found_there(volume: Volume) -> None:
    watch = Watch()
    volume.map.touch(2, 2)
    watch.recorder(volume, 2, 1)
    volume.map.mark_dirty(5)
    volume.map.mark_dirty(40)
    volume.map.touch(41)
    accesses = watch.recorder.take({(volume.name, 0)})
    assert [(a.first, a.write, a.hit) for a in accesses] == [
        (2, False, False),
        (5, True, False),
        (3, False, True),
    ]
    volume.map.touch(9)
    assert watch.recorder.take({("other", 0)}) == []


def test_it_does_not_grow_for_ever(volume: Volume, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(recorder, "LIMIT", 3)
    watch = Watch()
    for n in range(9):
        watch.recorder(volume, n, 1)
    assert len(watch.asked) == 9
    assert len(watch.recorder.take()) == 3
