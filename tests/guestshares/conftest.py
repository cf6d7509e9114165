# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of calls begin with."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from tests.guestshares.home import Home


@pytest.fixture
def home(short_path: Path) -> Iterator[Home]:
    (short_path / "papers").mkdir()
    shelf = ShareRegistry(short_path / "shelf")
    with contextlib.closing(Shares(shelf, short_path / "s", 3.0)) as shares:
        shares.add(ShareRecord("papers", str(short_path / "papers")))
        made = Home(short_path, shares)
        yield made
        made.end()
