# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it over its socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homeserver.shares import Shares, ShareShelf
from shares.home import Share, ShareRecord
from shares.node import Ends
from tests.shares.home.homes import LEASE, LocalHome, Member
from wire import Caller

__all__ = ["LEASE", "Home", "Member"]


class SocketLine:
    """The way of a node over a real socket."""

    def __init__(self, path: Path) -> None:
        self._path, self._way = path, path
        self._callers: list[Any] = []

    def call(self, ends: Ends) -> Caller:
        self._callers.append(Caller(self._way, ends))
        return self._callers[-1]  # type: ignore[no-any-return]

    def cut(self) -> None:
        self._lead_to(self._path.with_name("nowhere"))
        for caller in self._callers:
            caller.duplex.cut()

    def mend(self) -> None:
        self._lead_to(self._path)

    def _lead_to(self, way: Path) -> None:
        self._way = way
        for caller in self._callers:
            caller._path = way


class Home(LocalHome):
    """A home's shares, which can be killed and begun again."""

    def __init__(self, folder: Path, short: Path) -> None:
        super().__init__(folder)
        self._short = short
        self.shelf = ShareShelf(folder / "shares")
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
