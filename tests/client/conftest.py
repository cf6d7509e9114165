# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.world import World


@pytest.fixture
def world(short_path: Path) -> Iterator[World]:
    made = World(short_path)
    yield made
    made.close()
