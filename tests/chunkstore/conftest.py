# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Store
from media import Media


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """A second, empty store: a surrogate's cache."""
    with Store.create(tmp_path / "other") as made:
        yield made


@pytest.fixture
def media(tmp_path: Path) -> Iterator[Media]:
    root = tmp_path / "media"
    root.mkdir()
    with Media.init(root) as made:
        yield made
