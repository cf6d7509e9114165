# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does for a node of a share that asks: the other end of the node's hub."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shares.context import Succession
from shares.home.channel import Open
from shares.home.session import NodeSession
from shares.home.share import Share
from shares.node import (
    OPENED_AHEAD,
    SUCCESSIONS,
    Attributes,
    Changes,
    Entry,
    Lease,
    LockKind,
    Made,
    Making,
    Opened,
    Unmade,
    Usage,
    answer_request,
)
from shares.protocol import FileId, Message, NodeId


class HomeHub:
    """Hub for one node. Thread-safe.

    session: the node, which is not in the share's list yet
    """

    def __init__(
        self, share: Share, node: NodeId, name: str, token: str, conversation: str, channel: Open
    ) -> None:
        self.node = node
        self.session = NodeSession(
            node,
            name,
            token,
            conversation,
            open_channel=channel,
            perform=self._perform,
            grace=share.grace,
        )
        self._share = share

    def _perform(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        answer_request(self, payload, answer)

    @property
    def connected(self) -> bool:
        return self.session.connected

    def post(
        self,
        message: Message,
        arrived: Callable[[Message], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        size = len(getattr(message, "data", b""))
        self.session.count("in", type(message).__name__, size + 25)
        self._share.coherence.request(
            self.session, message, arrived or _nothing, failed or _nothing
        )

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
        disown: Callable[[FileId, Callable[[], None]], None],
    ) -> None:
        raise AssertionError("the node listens at its own end")

    def beat(self, since: float, heard: Callable[[Lease | None], None]) -> None:
        heard(Lease(self._share.lease, self._share.lost_since(since)))

    def ping(self, heard: Callable[[], None]) -> None:
        raise AssertionError("home's end of the connection answers, whatever it has to do")

    def leave(self) -> None:
        """Taken up once it is answered: what ends the session throws away what is unsent."""

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        return self._share.names.lookup(self.session, parent, name)

    def attributes(self, file: FileId) -> Attributes:
        return self._share.attributes.get(self.session, file)

    def change(self, file: FileId, changes: Changes) -> Attributes:
        return self._share.attributes.change(self.session, file, changes)

    def allocate(self, file: FileId, mode: int, offset: int, length: int) -> None:
        self._share.allocation.allocate(self.session, file, mode, offset, length)

    def read_link(self, file: FileId) -> bytes:
        return self._share.tree.read_link(file)

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Made:
        make = partial(self._share.tree.make_folder, parent, name, mode, uid, gid)
        return self._share.names.make(self.session, parent, name, make)

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Made:
        make = partial(self._share.tree.make_link, parent, name, target, uid, gid)
        return self._share.names.make(self.session, parent, name, make)

    def link(self, file: FileId, parent: FileId, name: bytes) -> Made:
        make = partial(self._share.tree.link, file, parent, name)
        return self._share.names.make(self.session, parent, name, make, (file, None))

    def unlink(self, parent: FileId, name: bytes) -> Unmade:
        return self._share.names.unlink(self.session, parent, name)

    def remove_folder(self, parent: FileId, name: bytes) -> Unmade:
        return self._share.names.remove_folder(self.session, parent, name)

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> tuple[Attributes | None, Made]:
        return self._share.names.rename(self.session, parent, name, new_parent, new_name, flags)

    def entries(self, folder: FileId, most: int) -> list[Entry]:
        return self._share.names.entries(self.session, folder, most)

    def usage(self) -> Usage:
        return self._share.tree.usage()

    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Made, Opened]:
        return self._share.names.create(self.session, parent, name, mode, uid, gid, exclusive)

    def ids(self, told: Callable[[FileId, int], None]) -> None:
        told(*self._share.creations.give_ids(self.session))

    def make(
        self, making: Making, answered: Callable[[tuple[Made, Opened] | OSError | None], None]
    ) -> None:
        answered(self._share.creations.made_ahead(self.session, making))

    def make_again(self, making: Making, answered: Callable[[int | OSError | None], None]) -> None:
        answered(self._share.creations.made_again(self.session, making))

    def open(self, file: FileId, writes: bool, cut: bool) -> Opened:
        return self._share.files.open(self.session, file, writes, cut)

    def open_all(self, files: list[FileId]) -> list[Opened | None]:
        return [self._share.files.open_ahead(self.session, file) for file in files[:OPENED_AHEAD]]

    def succeeded(self, seen: list[Succession], told: Callable[[list[Succession]], None]) -> None:
        told(self._share.context.take(seen, SUCCESSIONS))

    def mark(self, file: FileId, mark: str) -> None:
        self._share.files.mark(self.session, file, mark)

    def written(self, file: FileId, told: Callable[[Attributes | None], None]) -> None:
        self._share.files.written(self.session, file)
        told(self._share.attributes.settled(self.session, file))

    def close(self, file: FileId, closed: Callable[[Attributes | None], None]) -> None:
        self._share.files.close(self.session, file)
        closed(self._share.attributes.settled(self.session, file))

    def sync(self, file: FileId) -> None:
        self._share.blocks.sync(file)

    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self._share.locks.get(self.node, file, owner, start, end, kind)

    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self._share.locks.set(self.node, file, owner, start, end, kind, pid, wait)

    def forget_locks(self, file: FileId, owner: int) -> None:
        self._share.locks.forget(self.node, file, owner)


def _nothing(_: object) -> None:
    pass
