# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client keeps of services: docs/formats/known.md."""

import stat
from pathlib import Path

import pytest

from client.latest import KnownCopy, Latest, LatestCopies
from client.log_keys import LogKeys
from satchel.errors import IntegrityError
from satchel.ids import CheckpointId, OperationNumber

KEY = bytes(range(32))


def test_golden_bytes(tmp_path: Path) -> None:
    Latest(tmp_path / "latest").put("notes", OperationNumber(157))
    assert (tmp_path / "latest" / "notes").read_bytes() == bytes.fromhex("31 35 37 0a")
    copies = LatestCopies(tmp_path / "copies")
    copies.put("kept", KnownCopy(CheckpointId("0f3c9a5be1d27c44"), led_on=True))
    assert (tmp_path / "copies" / "kept").read_bytes() == b"0f3c9a5be1d27c44+\n"
    copies.put("kept", KnownCopy(CheckpointId("0f3c9a5be1d27c44"), led_on=False))
    assert (tmp_path / "copies" / "kept").read_bytes() == b"0f3c9a5be1d27c44\n"
    LogKeys(tmp_path / "keys").keep("notes", KEY)
    kept = tmp_path / "keys" / "notes"
    assert kept.read_bytes() == KEY
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_the_newest_is_known(tmp_path: Path) -> None:
    latest = Latest(tmp_path / "latest")
    assert latest.get("notes") == 0
    for number in (5, 7, 7, 3):
        latest.put("notes", OperationNumber(number))
        assert latest.get("notes") == number
    assert latest.get("speech") == 0


@pytest.mark.parametrize("damaged", [b"", b"7", b"-7\n", b"7\n7\n", b"1" * 20 + b"\n", b"\xff\n"])
def test_what_is_damaged_is_not_there(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "notes").write_bytes(damaged)
    assert Latest(tmp_path).get("notes") == 0
    assert LogKeys(tmp_path).get("notes") is None
    assert LatestCopies(tmp_path).get("notes") is None


def test_a_key_of_another_size_is_none(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="7 bytes"):
        LogKeys(tmp_path).keep("notes", KEY[:7])
    assert LogKeys(tmp_path).get("notes") is None
