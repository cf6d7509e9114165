# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it over its socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from homeserver.shares import Shares, ShareShelf
from shares.fuse import Session, Window
from shares.home import Share, ShareRecord
from shares.node import Buffer, Membership, Node
from shares.node import Member as Staying
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
        self.windows: list[Window] = []
        self._mounted: list[tuple[Session, threading.Thread]] = []

    def add(self, **options: Any) -> Share:
        self.shares.add(ShareRecord("photos", str(self.root), **options))
        return self.shares.get("photos")

    @property
    def share(self) -> Share:
        return self.shares.get("photos")

    def begin_again(self) -> None:
        self.shares.close()
        self.shares = Shares(self.shelf, self._short / "s", LEASE)

    def join(
        self,
        name: str = "node",
        token: str = "",
        wait: float = 5.0,
        buffer: Buffer | None = None,
        patience: float = 30.0,
        ahead: bool = True,
        way: Path | None = None,
    ) -> Member:
        """wait: seconds for which programs wait for home, and an end for what home is to have;
        patience: for which its calls wait for a connection; ahead: as for Node; way: a socket that
        leads to home's."""
        over: list[str] = []
        membership = Membership(
            partial(Caller, way or self._short / "s"),
            "photos",
            name,
            token=token,
            over=over.append,
            patience=patience,
        )
        hub = membership.join(60)
        buffer = buffer or Buffer(self._folder / f"buffer{len(self.members)}", 1 << 24)
        member = Member(membership, Node(hub, buffer, wait, self._window, ahead=ahead), over)
        self.members.append(member)
        return member

    def member(self, name: str) -> Staying:
        """A node that joins again by itself; its test closes it."""
        folder = self._folder / f"buffer-{name}"
        call = partial(Caller, self._short / "s")
        buffer = Buffer(folder, 1 << 24)
        return Staying(call, "photos", name, buffer, wait=20.0, make=self._window, ahead=True)

    def _window(self, descriptor: int, size: int) -> Window:
        self.windows.append(Window(descriptor, size))
        return self.windows[-1]

    @property
    def answered(self) -> int:
        """Reads and writes that no node was asked for."""
        return sum(window.reads + window.writes for window in self.windows)

    def mount(self, node: Node) -> Path:
        """Where programs reach the node's files by a session of this process."""
        place = self._folder / f"mounted{len(self._mounted)}"
        place.mkdir()
        session = Session(node, place)
        thread = threading.Thread(target=session.run)
        thread.start()
        self._mounted.append((session, thread))
        return place

    def unmount(self) -> None:
        for session, thread in self._mounted:
            session.close()
            thread.join()
        self._mounted.clear()

    def close(self) -> None:
        self.unmount()
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
