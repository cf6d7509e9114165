# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it over its socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from homeserver.shares import Share, ShareRecord, Shares, ShareShelf
from overlay.shares import Buffer, Membership, Node
from overlay.shares import Member as Staying
from wire import Caller

LEASE = 2.0


@dataclass
class Member:
    """A node over a real socket."""

    membership: Membership
    node: Node
    over: list[str] = field(default_factory=list)
    gone: bool = False

    def cut_off(self) -> None:
        """As if its network were gone for good: home hears nothing more of it."""
        self.gone = True
        caller: Any = self.membership._caller
        caller._path = caller._path.with_name("nowhere")
        caller.duplex.cut()


class Home:
    """A home's shares, which can be killed and begun again."""

    def __init__(self, folder: Path, short: Path) -> None:
        self._folder, self._short = folder, short
        self.root = folder / "shared"
        self.root.mkdir()
        self.members: list[Member] = []
        self.shelf = ShareShelf(folder / "shares")
        self.shares = Shares(self.shelf, short / "s", LEASE)

    def add(self, **options: Any) -> Share:
        self.shares.add(ShareRecord("photos", str(self.root), **options))
        return self.shares.get("photos")

    @property
    def share(self) -> Share:
        return self.shares.get("photos")

    def begin_again(self) -> None:
        self.shares.close()
        self.shares = Shares(self.shelf, self._short / "s", LEASE)

    def join(self, name: str = "node", token: str = "") -> Member:
        over: list[str] = []
        membership = Membership(
            partial(Caller, self._short / "s"), "photos", name, token=token, over=over.append
        )
        hub = membership.join(10)
        buffer = Buffer(self._folder / f"buffer{len(self.members)}", 1 << 24)
        member = Member(membership, Node(hub, buffer, 5.0), over)
        self.members.append(member)
        return member

    def member(self, name: str) -> Staying:
        """A node that joins again by itself; its test closes it."""
        folder = self._folder / f"buffer-{name}"
        call = partial(Caller, self._short / "s")
        return Staying(call, "photos", name, Buffer(folder, 1 << 24), wait=20.0)

    def close(self) -> None:
        for member in self.members:
            if member.gone:  # what it gives back goes nowhere, and that is soon said
                member.membership.close()
            member.node.close()
            member.membership.close()
        self.shares.close()


@pytest.fixture
def home(tmp_path: Path, short_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, short_path)
    yield home
    home.close()


Join = Callable[..., Member]
