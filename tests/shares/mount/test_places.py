# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a share cannot be mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from satchel.errors import UsageError
from shares.mount import MountedShare


def nobody(ends: Any) -> Any:
    raise AssertionError("home is not asked")


@pytest.mark.parametrize("inside", [".", "state", "a/state", "link"])
def test_no_share_is_mounted_over_the_folder_where_its_mounts_keep_their_journals(
    tmp_path: Path, inside: str
) -> None:
    """The mount waited for itself, and every program that came to it hung."""
    place = tmp_path / "mounted"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    state = tmp_path / "link" / "state" if inside == "link" else place / inside
    with pytest.raises(UsageError, match="inside of"):
        MountedShare(nobody, "photos", "laptop", place, state)
    assert list(place.iterdir()) == []
