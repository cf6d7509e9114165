# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded workloads: the file, what is derived from it, and what comes from nbdkit's log."""

from pathlib import Path

import pytest

from papers.workloads.guest import seen_by_nbdkit
from papers.workloads.record import WORKLOADS, row_of
from papers.workloads.recording import (
    FOLDER,
    HELD_OUT,
    TRAINING,
    Access,
    Life,
    Mark,
    Recording,
    Touch,
    decode,
    encode,
    recordings,
)

LIFE = Life("try", False, {"disk0": 70, "ram": 1000}, {"disk0": {69: 1}, "ram": {5: 1, 6: 2, 7: 9}})
TRY = Recording(
    "try",
    TRAINING,
    (LIFE, Life("other", True, {"ram": 64}, {"ram": {}})),
    (
        Access(0.0, 0, False, "ram", 5, 3),
        Access(0.001, 1, False, "ram", 0, 32),
        Access(0.002, 0, True, "ram", 6, 1),
        Access(0.5, 0, False, "disk0", 69, 1),
        Access(0.0, 0, False, "ram", 4, 5),
    ),
    (Mark(0, 0, "resumed"), Mark(3, 0, "first add"), Mark(5, 1, "idle")),
)

GOLDEN = bytes.fromhex(
    "534154545241434501000000e0000000e0012d00d85d007680300f6223b9cd0ad768aed06a0d76930d4832f7"
    "f297883750a4621398d830755ea4974ac5aaa8f07f01b5951ed51ac48df8347e265ea2ec7e9c4dc6f788218e"
    "476b0096ec6c731ca66eb773508b8ec71b2aa1cc1f6fe22b4ffe7ec86e2a485c73870d4e7cef2f20b1b30b3d"
    "8223bb3d1d2316581b479cd025426f0ad78939de3e849465634bb0d9c2d154125f781fbde9930a35b5b47538"
    "a4957f14284f9e03294812fb6a25e1fa1369957d882a7d92c5dcfe819336e0fca71050f5b51d87bb0e7c069a"
    "d7b9e89810a0d3a8b9014108f3eb5c1f1dbc9d00"
)


def test_a_recording_is_read_as_it_was_written() -> None:
    assert decode(encode(TRY)) == TRY


def test_the_bytes_of_version_1_are_still_read() -> None:
    assert decode(GOLDEN) == TRY


@pytest.mark.parametrize(
    "data", [b"", b"SATTRACE" + bytes(8), encode(TRY)[:-1], b"x" + encode(TRY)[1:]]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a recording"):
        decode(data)


def test_only_content_that_is_still_there_is_read() -> None:
    assert [(at.volume, numbers) for at, numbers in TRY.reads()] == [
        ("ram", [1, 2, 9]),
        ("disk0", [1]),
        ("ram", [1, 9]),
    ]


def test_first_touches_of_a_life_are_a_trace_of_a_resume() -> None:
    trace = TRY.trace(0)
    assert trace.touches == (
        Touch(0.0, "ram", 5, 3),
        Touch(0.503, "disk0", 69, 1),
        Touch(0.0, "ram", 4, 5),
    )
    assert trace.response == 1
    assert trace.data == {"disk0": frozenset({69}), "ram": frozenset({5, 6, 7})}


LOG = """\
2026-11-21 19:02:35.194132 Ready thread_model=3
2026-11-21 19:02:35.208547 connection=1 Connect export="ram" tls=0 size=0x100000 write=1
2026-11-21 19:02:35.208548 connection=2 Connect export="disk0" tls=0 size=0x100000 write=1
2026-11-21 19:02:35.208813 connection=1 Read id=1 offset=0x2000 count=0x1000 ...
2026-11-21 19:02:35.208820 connection=2 Zero id=1 offset=0x0 count=0x200 trim=0 fua=1 fast=0 ...
2026-11-21 19:02:35.208823 connection=1 ...Read id=1 return=0
2026-11-21 19:02:35.208977 connection=2 Write id=2 offset=0x0 count=0x2000 fua=1 ...
2026-11-21 19:02:35.209014 connection=2 ...Write id=2 return=0
2026-11-21 19:02:35.209382 connection=1 Flush id=5 ...
2026-11-21 19:02:36.000000 connection=1 Read id=3 offset=0x0 count=0x1000 ...
"""


def test_requests_come_from_the_log_of_nbdkit_until_the_life_ends(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG, encoding="ascii")
    everything = list(seen_by_nbdkit(tmp_path / "log", float("inf")))
    seen = list(seen_by_nbdkit(tmp_path / "log", everything[0].began + 0.5))
    assert [(s.volume, s.write, s.offset, s.length) for s in seen] == [
        ("ram", False, 0x2000, 0x1000),
        ("disk0", True, 0, 0x200),
        ("disk0", True, 0, 0x2000),
    ]
    assert len(everything) == 4
    assert round((seen[0].ended - seen[0].began) * 1e6) == 10


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.trace")), ids=lambda path: path.name)
def test_the_recorded_workloads_are_whole(path: Path) -> None:
    recording = Recording.load(path)
    assert path.name == f"{recording.workload}.{recording.run}.trace"
    for access in recording.accesses:
        life = recording.lives[access.life]
        assert access.count > 0
        assert 0 <= access.first <= life.volumes[access.volume] - access.count
    assert all(m.at <= len(recording.accesses) for m in recording.marks)
    for number, life in enumerate(recording.lives):
        trace = recording.trace(number)
        assert 0 < trace.response <= len(trace.touches)
        assert all(max(b) < life.volumes[n] for n, b in life.content.items() if b)


def test_every_workload_has_a_run_to_learn_from_and_one_to_be_judged_by() -> None:
    names = [
        {path.name.split(".")[0] for path in FOLDER.glob(f"*.{run}.trace")}
        for run in (TRAINING, HELD_OUT)
    ]
    assert names[0] == names[1] == set(WORKLOADS)
    assert sum(path.stat().st_size for path in FOLDER.glob("*.trace")) <= 4 << 20
    assert recordings(TRAINING)[0].run == TRAINING


def test_statistics_are_those_of_the_recording() -> None:
    row = "| notes held-out | 4 | 27 | 13618 | 13614 / 4 | 185 | 5536 | 59% |"
    assert row_of(Recording.load(FOLDER / "notes.held-out.trace")) == row
