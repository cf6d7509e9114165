# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import os
import time
from pathlib import Path

import pytest

from satchel.files import by_age, write_durably


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_durably(path, b"old")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_durably(path, b"old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_a_time_that_is_to_come_is_the_oldest(tmp_path: Path) -> None:
    now = time.time()
    for name, at in (("old", now - 99), ("ahead", now + 10**9), ("new", now - 9)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert [path.name for path in by_age(tmp_path.iterdir())] == ["ahead", "old", "new"]
