# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cell without a machine, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.site import Site


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    made = Site(short_path)
    yield made
    made.close()
