# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it over its socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homeserver.shares import ShareRegistry, Shares
from shares.home import Share, ShareRecord
from tests.shares.home.homes import LEASE, LocalHome, Member, SocketLine

__all__ = ["LEASE", "Home", "Member"]


class Home(LocalHome):
    """A home's shares, which can be killed and begun again."""

    def __init__(self, folder: Path, short: Path) -> None:
        super().__init__(folder)
        self._short = short
        self.shelf = ShareRegistry(folder / "shares")
        self.shares = Shares(self.shelf, short / "s", LEASE)

    def add(self, **options: Any) -> Share:
        self.shares.add(ShareRecord("photos", str(self.root), **options))
        return self.share

    @property
    def share(self) -> Share:
        return self.shares.get("photos")

    def begin_again(self, lease: float | None = None) -> None:
        assert lease is None
        self.shares.close()
        self.shares = Shares(self.shelf, self._short / "s", LEASE)

    def line(self, way: Path | None = None) -> SocketLine:
        """way: a socket that leads to home's."""
        return SocketLine(way or self._short / "s")

    def end(self) -> None:
        self.shares.close()


@pytest.fixture
def home(tmp_path: Path, short_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, short_path)
    yield home
    home.close()
