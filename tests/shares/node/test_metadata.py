# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names and attributes on mounts that a local folder has right."""

from __future__ import annotations

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
