# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.places import places
from tests.client.world import World

__all__ = ["carried", "places", "world"]


@pytest.fixture
def world(short_path: Path) -> Iterator[World]:
    made = World(short_path)
    yield made
    made.close()


@pytest.fixture
def carried(world: World) -> Iterator[World]:
    """A world in which `notes` runs at home and is on the stick, both at operation 0."""
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    yield world
