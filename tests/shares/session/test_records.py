# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions as bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from satchel.errors import ConflictError, IntegrityError
from shares.session.records import (
    Answer,
    Arrived,
    Closed,
    Done,
    File,
    Head,
    Kind,
    Operation,
    Record,
    Written,
    pack,
    pack_all,
    unpack,
)
from shares.session.store import Store

RECORDS: list[Record] = [
    Head(1, b"editor"),
    File(3, 7, 2, 11, b"notes"),
    Written(2, 3, 5, b"dear"),
    Done(2, 3, 9),
    Arrived(2),
    Closed(3),
    Operation(3, Kind.WRITE, 3, 0, b"x"),
    Answer(3, 0, 1, 10, 2, b""),
]
GOLDEN = bytes.fromhex(
    "09000000 6a50eb40 01 0100656469746f72"
    "1e000000 941151e7 02 030000000700000000000000020000000b000000000000006e6f746573"
)


def test_golden_bytes() -> None:
    assert pack_all(RECORDS[:2]) == GOLDEN


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_packed_is_unpacked(record: Record) -> None:
    assert list(unpack(pack(record))) == [record]


def test_every_byte_counts() -> None:
    data = pack_all(RECORDS)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises(IntegrityError):
            list(unpack(bytes(damaged)))


def test_a_record_that_was_being_appended_is_cut_off(tmp_path: Path) -> None:
    data = pack_all(RECORDS)
    last = len(pack(RECORDS[-1]))
    for cut in range(1, last):
        path = tmp_path / f"{cut}"
        path.write_bytes(data[:-cut])
        store = Store(path)
        assert store.records == RECORDS[:-1]
        store.append(RECORDS[-1])
        store.close()
        assert path.read_bytes() == data


def test_damage_in_the_middle_is_told(tmp_path: Path) -> None:
    """What comes after it is not thrown away silently."""
    data = bytearray(pack_all(RECORDS))
    data[20] ^= 1
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(IntegrityError):
        Store(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == data


def test_two_processes_cannot_have_one_session(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    with pytest.raises(ConflictError, match="in use"):
        Store(tmp_path / "s")
    store.close()
    Store(tmp_path / "s").close()


def test_a_store_that_is_written_anew_has_what_it_was_given(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.append(*RECORDS)
    store.replace(RECORDS[:2])
    store.append(RECORDS[2])
    store.close()
    again = Store(tmp_path / "s")
    assert again.records == RECORDS[:3]
    again.close(remove=True)
    assert not (tmp_path / "s").exists()
