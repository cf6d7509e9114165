# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes of the same process that reach it over a socket. Nodes can be cut
off."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from shares.fuse import MountSession, Window
from shares.home import NodeRecord, NodeRegistry, Share, ShareRecord
from shares.node import Buffer, ConversationOwner, Membership, Node
from shares.node import Member as Staying
from tests.leftovers import SHORT_PREFIX
from wire import Caller, ConversationListener, Duplex

LEASE = 2.0


class Line(Protocol):
    """The way of one node to its home."""

    def call(self, ends: ConversationOwner) -> Any:
        """Make a caller as Membership expects it."""
        ...

    def cut(self) -> None:
        """Home and the node do not reach each other any more."""
        ...

    def mend(self) -> None: ...


class SocketLine:
    """The way of a node to home's socket."""

    def __init__(self, path: Path) -> None:
        self._path, self._way = path, path
        self._callers: list[Any] = []

    def call(self, ends: ConversationOwner) -> Caller:
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


@dataclass
class Member:
    """A node, its way to home, and the conflict copies that it has heard of."""

    membership: Membership
    node: Node
    line: Line
    over: list[str] = field(default_factory=list)
    conflicts: list[bytes] = field(default_factory=list)
    gone: bool = False

    def cut_off(self) -> None:
        """Cut its network for good: home hears nothing more of it."""
        self.gone = True
        self.line.cut()

    def unreached(self) -> AbstractContextManager[None]:
        return unreached(self.line)


@contextmanager
def unreached(line: Line) -> Iterator[None]:
    """Home and the node do not reach each other."""
    line.cut()
    try:
        yield
    finally:
        line.mend()


class LocalHome:
    """A home of one share, which can end and begin again."""

    def __init__(self, folder: Path, lease: float = LEASE) -> None:
        self._folder, self.lease = folder, lease
        self.root = folder / "shared"
        self.root.mkdir()
        self.members: list[Member] = []
        self.lines: dict[str, Line] = {}  # of those that join again by themselves
        self.windows: list[Window] = []
        self._mounted: list[tuple[MountSession, threading.Thread]] = []
        self._known: list[NodeRecord] = []
        self._share: Share | None = None
        self._record = ShareRecord("photos", str(self.root))
        self._short = folder
        self._listener: ConversationListener | None = None

    def add(self, **options: Any) -> Share:
        self._record = ShareRecord("photos", str(self.root), **options)
        self._begin()
        self._short = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))  # a socket's path is short
        self._listener = ConversationListener(self._short / "s", self._welcome)
        return self.share

    @property
    def share(self) -> Share:
        assert self._share is not None
        return self._share

    def _begin(self) -> None:
        self._reception = NodeRegistry(lambda name: self.share, Duplex, self._known, self._keep)
        self._share = Share(
            self._record,
            self._folder / "share",
            lease=self.lease,
            awaited=self._reception.known("photos"),
            gone=self._reception.lost,
        )

    def _welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        answer, channel, taken = self._reception.welcome(hello)
        assert channel is None or isinstance(channel, Duplex)
        return answer, channel, taken

    def _keep(self, nodes: list[NodeRecord]) -> None:
        self._known = nodes

    def set(self, **terms: Any) -> None:
        """Policy, relaxation or log are others, for later opens."""
        self.share.describe(replace(self.share.record, **terms))

    def begin_again(self, lease: float | None = None) -> None:
        self._record = self.share.record
        self.lease = self.lease if lease is None else lease
        self.share.close()
        self._begin()

    def line(self) -> Line:
        return SocketLine(self._short / "s")

    def join(
        self,
        name: str = "node",
        token: str = "",
        wait: float = 5.0,
        buffer: Buffer | None = None,
        patience: float = 30.0,
        ahead: bool = True,
        line: Line | None = None,
    ) -> Member:
        """wait: seconds for which programs wait for home, and an end for what home is to have;
        patience: for which its calls wait for a connection; ahead: as for Node; line: its way."""
        over: list[str] = []
        line = line or self.line()
        membership = Membership(
            line.call, "photos", name, token=token, over=over.append, patience=patience
        )
        hub = membership.join(60)
        buffer = buffer or Buffer(self._folder / f"buffer{len(self.members)}", 1 << 24)
        conflicts: list[bytes] = []
        kept = conflicts.append
        node = Node(hub, buffer, wait, self._window, ahead=ahead, kept=kept)
        self.members.append(Member(membership, node, line, over, conflicts))
        return self.members[-1]

    def member(self, name: str) -> Staying:
        """A node that joins again by itself; its test closes it."""
        buffer = Buffer(self._folder / f"buffer-{name}", 1 << 24)
        self.lines[name] = self.line()
        about = (self.lines[name].call, "photos", name, buffer)
        return Staying(*about, wait=20.0, make=self._window, ahead=True)

    def _window(self, descriptor: int, size: int) -> Window:
        self.windows.append(Window(descriptor, size))
        return self.windows[-1]

    @property
    def answered(self) -> int:
        """Reads and writes that no node was asked for."""
        return sum(window.reads + window.writes for window in self.windows)

    def mount(self, node: Node) -> Path:
        """Mount the node's files by a session of this process; return the place."""
        place = self._folder / f"mounted{len(self._mounted)}"
        place.mkdir()
        session = MountSession(node, place)
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
        self.end()

    def end(self) -> None:
        if self._listener is not None:
            self._listener.close()
            shutil.rmtree(self._short)
        if self._share is not None:
            self._share.close()
