# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes of the same process that reach it over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shares.home.homes import LocalHome


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHome]:
    """A node that was cut off connects again at once, so that a test decides how long that was."""
    monkeypatch.setattr("wire.conversation.greeting.RETRY_SECONDS", 0.02)
    home = LocalHome(tmp_path)
    yield home
    home.close()
