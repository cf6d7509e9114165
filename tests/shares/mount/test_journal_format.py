# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The journal of a mount as it is on disk: golden bytes, cuts at every byte, damage, power cuts."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from satchel.errors import IntegrityError
from shares.mount import Journals
from shares.node.extent import BLOCK, Extent
from shares.node.hub.hub import PendingCreate
from shares.node.journal.journal import MountJournal
from shares.node.journal.leftovers import read_left
from shares.node.journal.records import MountNote, this_boot
from shares.node.journal.written_marks import BaseVersion
from shares.protocol import ATTRIBUTES, FileId

FILE, FOLDER = FileId(0x1234), FileId(1)
EXTENT = Extent(6000, 1, 2, 3)
NOTE = MountNote("files", "/mnt/files", "", "laptop", "secret", this_boot())


def journal(folder: Path, note: MountNote = NOTE) -> MountJournal:
    """With 6,000 bytes of one file that were written."""
    made = MountJournal(folder)
    made.name_of = lambda _: (FOLDER, b"a/name")
    made.mounted(note)
    made.opened(FILE, Extent(10, 0, 77, 0))
    made.sized(FILE, EXTENT, grows=False)
    made.native(FILE, 9)
    (made.blocks / f"{FILE:016x}").write_bytes(content())
    made.wrote(FILE, 0, 2)
    made.wrote(FILE, ATTRIBUTES, 1)
    return made


def content() -> bytes:
    return b"x" * 6000


def record(kind: int, number: int, grant: int, data: bytes, file: int = FILE) -> bytes:
    rest = struct.pack("<IIIQqQ", len(data), kind, 0, file, number, grant) + data
    return struct.pack("<I", zlib.crc32(rest)) + rest


def test_golden_bytes(tmp_path: Path) -> None:
    made = journal(tmp_path)
    name = f"{FILE:016x}"
    written = (made.blocks / f"{name}.written").read_bytes()
    extent = struct.pack("<QQqqq", 1, 6000, 1, 2, 3)
    head = struct.pack("<8sIIQQ", b"SATWRITN", 1, 0, FILE, 6000) + extent
    assert written == head.ljust(128, b"\0") + struct.pack("<QQQ", 1, 1, 1)
    generation = made.giving(FILE, (ATTRIBUTES, 0), EXTENT)
    made.at_home(FILE, (ATTRIBUTES, 0), generation)
    home = (made.blocks / f"{name}.home").read_bytes()
    head = struct.pack("<8sIIQQQq", b"SATATHOM", 1, 0, FILE, 9, 6000, 2)
    assert home == head.ljust(128, b"\0") + struct.pack("<QQQQ", 1, 0, 1, 0)
    assert (tmp_path / "journal").read_bytes() == (
        struct.pack("<8sII", b"SATMOUNT", 1, 0)
        + record(1, 0, 0, NOTE.pack(), file=0)
        + record(2, FOLDER, 0, b"a/name")
    )
    assert set(json.loads(NOTE.pack())) == {"share", "mountpoint", "home", "name", "token", "boot"}


def test_what_waits_is_told_until_home_has_it(tmp_path: Path) -> None:
    made = journal(tmp_path)
    (left,) = read_left(tmp_path).files
    assert (left.waiting.grants, left.size, left.name) == (
        {ATTRIBUTES: 9, 0: 9, 1: 9},
        6000,
        (FOLDER, b"a/name"),
    )
    assert left.waiting.base == BaseVersion(10, 77)
    assert left.read(1) == b"x" * (6000 - BLOCK) + bytes(2 * BLOCK - 6000)
    generation = made.giving(FILE, (ATTRIBUTES, 0, 1), EXTENT)
    made.wrote(FILE, 1, 1)  # again, before home has answered
    made.at_home(FILE, (ATTRIBUTES, 0, 1), generation)
    (left,) = read_left(tmp_path).files
    assert left.waiting.blocks == [1]
    made.at_home(FILE, (1,), made.giving(FILE, (1,), None))
    assert not read_left(tmp_path).waits
    assert not made.waits


def test_a_file_that_home_has_not_made_waits(tmp_path: Path) -> None:
    made = MountJournal(tmp_path)
    made.mounted(NOTE)
    making = PendingCreate(FILE, FOLDER, b"new", 0o644, 0, 0, 5)
    made.making(making)
    assert read_left(tmp_path).making == [making]
    made.made(FILE, 7)
    assert not read_left(tmp_path).waits


def test_a_journal_that_is_cut_at_any_byte_is_read_or_put_aside(tmp_path: Path) -> None:
    whole = tmp_path / "k-1"
    made = journal(whole)
    made.making(PendingCreate(FileId(99), FOLDER, b"new", 0o644, 0, 0, 5))
    made.set_aside(FILE, {0: b"y" * BLOCK})
    records = (whole / "journal").read_bytes()
    first = 16 + len(record(1, 0, 0, NOTE.pack(), file=0))
    root = tmp_path / "root"
    for end in [*range(0, first + 60), *range(first + 60, len(records), 97)]:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(whole, root / "k-1")
        (root / "k-1" / "journal").write_bytes(records[:end])
        left = list(Journals(root).left())
        if end < first:
            assert left == []
            assert [path.name for path in Journals(root).damaged()] == ["k-1.damaged"]
            assert (root / "k-1.damaged" / "blocks" / f"{FILE:016x}").read_bytes() == content()
        else:
            assert [each.file for each in left[0].files] == [FILE]


@pytest.mark.parametrize("name", ["written", "home"])
@pytest.mark.parametrize("damage", [b"", b"SATWRONG" + bytes(120)])
def test_marks_that_cannot_be_read_are_named_and_stay(
    tmp_path: Path, name: str, damage: bytes
) -> None:
    journal(tmp_path / "k-1")
    (tmp_path / "k-1" / "blocks" / f"{FILE:016x}.{name}").write_bytes(damage)
    (left,) = Journals(tmp_path).left()
    assert left.files == []
    assert list(left.unreadable) == [tmp_path / "k-1" / "blocks" / f"{FILE:016x}"]


def test_a_journal_of_another_version_is_put_aside(tmp_path: Path) -> None:
    journal(tmp_path / "k-1")
    path = tmp_path / "k-1" / "journal"
    data = path.read_bytes()
    path.write_bytes(data[:8] + struct.pack("<I", 2) + data[12:])
    assert list(Journals(tmp_path).left()) == []
    assert [path.name for path in Journals(tmp_path).damaged()] == ["k-1.damaged"]


def test_after_a_power_cut_what_was_synced_counts_and_the_rest_is_doubtful(tmp_path: Path) -> None:
    made = journal(tmp_path, MountNote("files", "/m", "", "laptop", "secret", "an earlier boot"))
    left = read_left(tmp_path)
    assert (left.files, [each.file for each in left.doubtful]) == ([], [FILE])
    data = content().ljust(2 * BLOCK, b"\0")
    made.sync(FILE, lambda number: data[number * BLOCK : (number + 1) * BLOCK])
    (made.blocks / f"{FILE:016x}").write_bytes(b"")  # never came to the disk
    left = read_left(tmp_path)
    (synced,) = left.files
    assert left.doubtful == []
    assert synced.waiting.grants == {ATTRIBUTES: 9, 0: 9, 1: 9}
    assert synced.read(0) + synced.read(1) == data
    assert (synced.waiting.extent.size, synced.waiting.base) == (6000, BaseVersion(10, 77))


def test_what_was_closed_in_order_counts_after_a_reboot(tmp_path: Path) -> None:
    made = journal(tmp_path, MountNote("files", "/m", "", "laptop", "secret", "an earlier boot"))
    made.close(keep=True)
    left = read_left(tmp_path)
    assert ([each.file for each in left.files], left.doubtful) == ([FILE], [])


def test_a_folder_without_a_journal_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError):
        read_left(tmp_path)
