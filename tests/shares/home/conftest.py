# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shares.home.homes import LocalHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[LocalHome]:
    home = LocalHome(tmp_path)
    yield home
    home.close()
