# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names and attributes on mounts that a local folder has right."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.node.test_mounts import mounts, staying

__all__ = ["mounts", "staying"]

pytestmark = requires("fuse")


@pytest.mark.parametrize("to", ["c", "a"], ids=["on", "back"])
def test_a_folder_that_another_mount_has_moved_is_renamed_at_once(
    mounts: list[Path], to: str
) -> None:
    """It gave ESTALE until a program had looked at the folder."""
    one, two = mounts
    for turn in range(6):
        for name in "abc":
            (one / f"{name}{turn}").mkdir()
        folder = Path(f"a{turn}", "d")
        (one / folder).mkdir()
        (one / folder / "file").write_text("x")
        assert (two / folder / "file").stat()
        (one / folder).rename(one / f"b{turn}" / "d")
        (two / f"b{turn}" / "d").rename(two / f"{to}{turn}" / "d")
        assert (one / f"{to}{turn}" / "d" / "file").read_text() == "x"


def test_a_sparse_file_is_shrunk_at_once_whatever_its_size(mounts: list[Path]) -> None:
    """It took 20 s for each tebibyte, and home took the mount for lost."""
    one, two = (place / "file" for place in mounts)
    with one.open("w+b", buffering=0) as file:
        began = time.monotonic()
        for size in (5, 0):
            file.truncate(1 << 40)
            os.pwrite(file.fileno(), b"far", 1 << 39)
            assert two.stat().st_size == 1 << 40
            file.truncate(size)
            os.pwrite(file.fileno(), b"12345678", 0)
        assert time.monotonic() - began < 10
        assert two.read_bytes() == b"12345678"


@pytest.mark.parametrize("size", [7 << 60, 17 << 40], ids=["7 EiB", "17 TiB"])
def test_a_size_that_no_file_can_have_changes_nothing(mounts: list[Path], size: int) -> None:
    """The handle gave EFBIG for every call from then on, and home's file was changed."""
    one, two = (place / "file" for place in mounts)
    one.write_bytes(b"before")
    with one.open("r+b", buffering=0) as file:
        if takes(one.parent.parent.parent, size):
            return  # nothing is refused on this file system
        for cut in (file.truncate, lambda to: os.posix_fallocate(file.fileno(), 0, to)):
            with pytest.raises(OSError, match=r"too large|No space"):
                cut(size)
            assert os.fstat(file.fileno()).st_size == two.stat().st_size == 6
            os.pwrite(file.fileno(), b"after!", 0)
            os.fsync(file.fileno())
            assert file.read(10) == two.read_bytes() == b"after!"
            file.seek(0)


def takes(folder: Path, size: int) -> bool:
    """Whether a file of that folder's file system can be so long."""
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            file.truncate(size)
        except OSError:
            return False
        return True
