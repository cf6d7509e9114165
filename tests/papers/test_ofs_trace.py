# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of calls: the file, those that are published, and the workloads that are made of them."""

import pytest

from papers.ofs.record import USES
from papers.ofs.splits import AWAY, PROCEDURES, THREADS, split, workloads
from papers.ofs.statistics import row_of
from papers.ofs.trace import (
    ABSENT,
    FOLDER,
    SUFFIX,
    Access,
    File,
    Kind,
    Trace,
    decode,
    encode,
    traces,
)

TRY = Trace(
    "mail",
    ("reader", "filter"),
    ("", "search"),
    (File("a", 5000), File("b/c", ABSENT)),
    (
        Access(0, 10, 0, 0, Kind.READ, 0, 0, 5000),
        Access(1_000_000, 0, 1, 1, Kind.WRITE, 1, 0, 10),
        Access(1_000_000, 7, 1, 1, Kind.WRITE, 1, 10, 8192),
        Access(2_500_000, 7, 0, 1, Kind.RESIZE, 0, 300, 0),
    ),
)

GOLDEN = bytes.fromhex(
    "534154544f554348010000008f000000e000af00875d003280300f627da7e9b2994abb45d9676a7fc452db28"
    "d224819d01b4563426b3672610e9fa7a648bd500f94e71af17601f485c2e0cfb696e269e87723f5b16926410"
    "e94e274aeb3abca48dc246c77795c72d018d9f3bee31efd8b33b1dca93a229365a5ea3e72da8b126e3d1c7d3"
    "5615972cbaa2e8e1444b6d4b2a9f178d0ca8adc49de19085000000"
)


def test_a_trace_is_read_as_it_was_written() -> None:
    assert decode(encode(TRY)) == TRY


def test_the_bytes_of_version_1_are_still_read() -> None:
    assert decode(GOLDEN) == TRY


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SATTOUCH" + bytes(8),
        b"SATCALLS" + encode(TRY)[8:],
        encode(TRY)[:-1],
        b"x" + encode(TRY)[1:],
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a recording"):
        decode(data)


def test_an_access_of_what_is_not_named_is_refused() -> None:
    wrong = Trace("x", ("reader",), TRY.procedures, TRY.files, TRY.accesses)
    with pytest.raises(ValueError, match="does not name"):
        decode(encode(wrong))


def test_every_use_is_published_and_all_of_them_are_small() -> None:
    assert tuple(trace.use for trace in traces()) == USES
    assert sum(path.stat().st_size for path in FOLDER.glob(f"*{SUFFIX}")) <= 1 << 20


@pytest.mark.parametrize("use", USES)
def test_the_published_traces_are_whole(use: str) -> None:
    trace = Trace.load(FOLDER / f"{use}{SUFFIX}")
    times = [access.at for access in trace.accesses]
    assert times == sorted(times)
    sizes = [max(0, file.size) for file in trace.files]
    for access in trace.accesses:
        end = access.offset + access.length
        if access.kind is Kind.RESIZE:
            sizes[access.file] = access.offset
        elif access.kind is Kind.WRITE:
            sizes[access.file] = max(sizes[access.file], end)
        else:
            assert end <= sizes[access.file], trace.files[access.file]


def test_statistics_are_those_of_the_trace() -> None:
    row = "| git | 54 | 448 (229) | 5069 / 435 | 12.6 / 0.8 | 6921 / 530 | 590 | 1.5 |"
    assert row_of(Trace.load(FOLDER / f"git{SUFFIX}")) == row


def test_a_split_places_what_belongs_to_its_roles_or_procedures() -> None:
    assert split(TRY, THREADS).away == (False, True, True, False)
    assert split(TRY, PROCEDURES).away == (False, True, True, True)


def test_every_workload_has_something_on_either_node() -> None:
    found = list(workloads(traces()))
    assert [each.name for each in found] == [f"{use} {kind}" for kind in AWAY for use in USES]
    for each in found:
        assert set(each.away) == {True, False}, each.name
