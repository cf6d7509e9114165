# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home in the process of the test: home's machine over a folder, and hubs without a wire.

What hubs carry is encoded and decoded on the way. A hub can be cut: then nothing goes over it
until it is joined again, in the order in which it was sent, as over `wire.duplex`.
"""

from __future__ import annotations

import errno
import itertools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shares.home import Tree
from shares.home.locks import Locks
from shares.node import (
    Attributes,
    Changes,
    Entry,
    Extent,
    Lease,
    LockKind,
    Made,
    Opened,
    Unmade,
    Usage,
    codec,
)
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    UNCUT,
    Action,
    Append,
    Ask,
    Carrier,
    Directory,
    FileId,
    Message,
    NodeId,
    Replay,
    Reply,
    Store,
    Taken,
    Token,
    content,
    filled,
)
from shares.protocol import Opened as FileOpened

SOON = 20.0


class InProcessHome:
    """A share of one folder. lease: seconds."""

    def __init__(self, folder: Path, *, policy: str = "delayed-update", log: str = "async") -> None:
        (folder / "tree").mkdir(parents=True)
        self.tree = Tree(folder / "tree", folder / "index")
        self.policy, self.log = policy, log
        self.relaxation = 0.0
        self.lease = 5.0
        self.logged: list[tuple[NodeId, Message]] = []
        self.lock = threading.RLock()
        self.hubs: dict[NodeId, InProcessHub] = {}
        self.directory = Directory()
        self.locks = Locks()
        self.extents: dict[FileId, Extent] = {}
        self._tokens = itertools.count(1)
        self._waiting: dict[Token, queue.SimpleQueue[Any]] = {}
        self._replies: dict[Token, tuple[InProcessHub, Any]] = {}

    def join(self) -> InProcessHub:
        with self.lock:
            node = NodeId(len(self.hubs) + 1)
            self.hubs[node] = InProcessHub(self, node)
            return self.hubs[node]

    def lose(self, node: NodeId) -> None:
        """Go on without it, as when its lease is over."""
        with self.lock:
            self.hubs[node].lost = True
            self.act(self.directory.lost(node, time.monotonic()))

    def join_again(self, node: NodeId) -> InProcessHub:
        with self.lock:
            self.act(self.directory.rejoining(node, time.monotonic()))
            self.hubs[node] = InProcessHub(self, node)
            return self.hubs[node]

    def close(self) -> None:
        for hub in self.hubs.values():
            hub.end()
        self.tree.close()

    def token(self) -> int:
        return next(self._tokens)

    def request(self, hub: InProcessHub, message: Message, arrived: Any) -> None:
        with self.lock:
            token = self.token()
            self._replies[token] = (hub, arrived)
            self.act(self.directory.request(hub.node, message, token, time.monotonic()))

    def blocking(self, begin: Callable[[int], list[Action]]) -> Any:
        """What the directory has to say to a call: the action that comes in the end."""
        token, answers = self.token(), queue.SimpleQueue[Any]()
        with self.lock:
            self._waiting[token] = answers
            self.act(begin(token))
        return answers.get(timeout=SOON)

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Store):
                self.store(action.message)
            elif isinstance(action, Reply):
                hub, arrived = self._replies.pop(action.token)
                if arrived is not None:
                    hub.deliver(arrived, self.fill(action.message))
            elif isinstance(action, Ask):
                self.hubs[action.node].ask(action.number, self.fill(action.message))
            elif isinstance(action, Append):
                self.logged.append((action.node, action.message))
            elif isinstance(action, FileOpened | Taken):
                self._waiting.pop(action.token).put(action)
            else:
                assert isinstance(action, Replay)

    def fill(self, message: Message) -> Message:
        return filled(message, self.block) if isinstance(message, Carrier) else message

    def block(self, file: FileId, number: int) -> bytes:
        if number == ATTRIBUTES:
            return self.extent(file).pack()
        return self.tree.read(file, number * BLOCK, BLOCK)

    def extent(self, file: FileId) -> Extent:
        """Block -1 as it last came home: the last block that came may be padded beyond it."""
        return self.extents.get(file) or self.tree.extent(file)

    def store(self, message: Carrier) -> None:
        file = message.file
        self.extents[file] = self.extent(file)
        for number, data in content(message):
            if number == ATTRIBUTES:
                self.extents[file] = Extent.unpack(data)
            else:
                self.tree.write(file, number * BLOCK, data)

    def settle(self, file: FileId) -> None:
        if file in self.extents:
            self.tree.extend(file, self.extents.pop(file))

    def changed(self, node: NodeId, folder: FileId, name: bytes | None) -> None:
        """Tell the other nodes, and wait until they have taken it in."""
        told = [hub.tell_stale(folder, name) for at, hub in self.hubs.items() if at != node]
        for event in told:
            event.wait(SOON)


class InProcessHub:
    """Hub. A thread hands on what home sends, another one what the node sends."""

    def __init__(self, home: InProcessHome, node: NodeId) -> None:
        self.node = node
        self.connected = True
        self.lost = False
        self.posted: list[Message] = []
        self._home = home
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._open = threading.Event()
        self._open.set()
        self._carriers = [
            threading.Thread(target=self._carry, args=(box,), daemon=True)
            for box in (self._inbox, self._outbox)
        ]
        for carrier in self._carriers:
            carrier.start()

    def _carry(self, box: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while work := box.get():
            self._open.wait()
            if not self.lost:
                work()

    def cut(self) -> None:
        self.connected = False
        self._open.clear()

    def mend(self) -> None:
        self.connected = True
        self._open.set()

    def end(self) -> None:
        self.mend()
        self._inbox.put(None)
        self._outbox.put(None)
        for carrier in self._carriers:
            carrier.join(SOON)

    def listen(self, answer: Any, stale: Any, disown: Any) -> None:
        self._answer, self._stale = answer, stale

    def ids(self, told: Any) -> None:
        """None: nothing is made ahead here."""

    def make(self, making: Any, answered: Any) -> None:
        raise AssertionError("the node has no folder of its own")

    def make_again(self, making: Any, answered: Any) -> None:
        raise AssertionError("the node has made nothing ahead")

    def deliver(self, arrived: Callable[[Message], None], message: Message) -> None:
        carried = codec.decode(codec.encode(message))
        self._inbox.put(lambda: arrived(carried))

    def ask(self, number: int, message: Message) -> None:
        carried = codec.decode(codec.encode(message))

        def replied(reply: Message) -> None:
            sent = codec.decode(codec.encode(reply))
            self._outbox.put(lambda: self._answered(number, sent))

        self._inbox.put(lambda: self._answer(carried, replied))

    def _answered(self, number: int, reply: Message) -> None:
        home = self._home
        with home.lock:
            home.act(home.directory.answer(self.node, number, reply, time.monotonic()))

    def tell_stale(self, file: FileId, name: bytes | None) -> threading.Event:
        told = threading.Event()

        def tell() -> None:
            self._stale(file, name)
            told.set()

        self._inbox.put(tell)
        return told

    def post(self, message: Message, arrived: Any = None, failed: Any = None) -> None:
        del failed
        self.posted.append(message)
        carried = codec.decode(codec.encode(message))
        self._outbox.put(lambda: self._home.request(self, carried, arrived))

    def beat(self, since: float, heard: Callable[[Lease | None], None]) -> None:
        del since
        lease = Lease(self._home.lease, [])
        self._outbox.put(lambda: self._inbox.put(lambda: heard(lease)))

    def ping(self, heard: Callable[[], None]) -> None:
        if self.connected:
            self._inbox.put(heard)

    def leave(self) -> None:
        pass

    def _reach(self) -> None:
        if not self.connected:
            raise OSError(errno.EIO, "home is not reached")

    def _after_content(self) -> None:
        """What was posted before this call is at home."""
        self._reach()
        done = threading.Event()
        self._outbox.put(done.set)
        done.wait(SOON)

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        self._reach()
        entry = self._home.tree.lookup(parent, name)
        return Entry(entry.name, self.attributes(entry.attributes.file), valid=self._home.lease)

    def attributes(self, file: FileId) -> Attributes:
        self._reach()
        found = self._home.tree.attributes(file)
        if found.mode >> 12 != 8:
            return found
        return self._latest(file).onto(found)

    def _latest(self, file: FileId) -> Extent:
        """Size and times, from the owner of block -1 if there is one."""
        home = self._home
        if home.directory.native(file) == self.node:
            return home.extent(file)
        found = home.blocking(lambda token: home.directory.take(file, token, time.monotonic()))
        extent = home.extent(file)
        with home.lock:
            home.act(home.directory.gave(file, found.token, time.monotonic()))
        return extent

    def change(self, file: FileId, changes: Changes) -> Attributes:
        self._reach()
        home = self._home
        if changes.size is None and changes.modified is None and changes.accessed is None:
            changed = home.tree.change(file, changes)
            home.changed(self.node, file, None)
            return changed
        first = changes.size // BLOCK if changes.size is not None else UNCUT
        cut = -(-changes.size // BLOCK) if changes.size is not None else UNCUT
        found = home.blocking(
            lambda token: home.directory.take(file, token, time.monotonic(), first, cut)
        )
        try:
            with home.lock:
                home.settle(file)
                return home.tree.change(file, changes)
        finally:
            with home.lock:
                home.act(home.directory.gave(file, found.token, time.monotonic()))

    def read_link(self, file: FileId) -> bytes:
        return self._home.tree.read_link(file)

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Made:
        self._reach()
        entry = self._home.tree.make_folder(parent, name, mode, uid, gid)
        self._home.changed(self.node, parent, name)
        return Made(entry, None)

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Made:
        self._reach()
        entry = self._home.tree.make_link(parent, name, target, uid, gid)
        self._home.changed(self.node, parent, name)
        return Made(entry, None)

    def link(self, file: FileId, parent: FileId, name: bytes) -> Made:
        self._reach()
        entry = self._home.tree.link(file, parent, name)
        self._home.changed(self.node, parent, name)
        self._home.changed(self.node, file, None)
        return Made(entry, None)

    def unlink(self, parent: FileId, name: bytes) -> Unmade:
        self._reach()
        file = self._home.tree.unlink(parent, name)
        self._home.changed(self.node, parent, name)
        self._home.changed(self.node, file, None)
        return Unmade(None)

    def remove_folder(self, parent: FileId, name: bytes) -> Unmade:
        self._reach()
        self._home.tree.remove_folder(parent, name)
        self._home.changed(self.node, parent, name)
        return Unmade(None)

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> tuple[Attributes | None, Made]:
        self._reach()
        self._home.tree.rename(parent, name, new_parent, new_name, flags)
        self._home.changed(self.node, parent, name)
        self._home.changed(self.node, new_parent, new_name)
        return None, Made(self._home.tree.lookup(new_parent, new_name), None)

    def entries(self, folder: FileId, most: int) -> list[Entry]:
        self._reach()
        return self._home.tree.entries(folder, most)

    def usage(self) -> Usage:
        return self._home.tree.usage()

    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Made, Opened]:
        self._reach()
        entry, new = self._home.tree.create(parent, name, mode, uid, gid, exclusive)
        if new:
            self._home.changed(self.node, parent, name)
        return Made(entry, None), self._opened(entry.attributes.file)

    def open(self, file: FileId, writes: bool, cut: bool) -> Opened:
        self._reach()
        if cut:
            self.change(file, Changes(size=0))
        self._home.tree.open(file, writes)
        return self._opened(file)

    def _opened(self, file: FileId) -> Opened:
        home = self._home
        found = home.blocking(
            lambda token: home.directory.open(
                self.node, file, token, time.monotonic(), home.relaxation
            )
        )
        with home.lock:
            attributes = home.extent(file).onto(home.tree.attributes(file))
        return Opened(attributes, found.native, home.relaxation, home.policy, home.log, found.grant)

    def written(self, file: FileId, told: Callable[[Attributes | None], None]) -> None:
        def settle() -> None:
            with self._home.lock:
                self._home.settle(file)
            self._inbox.put(lambda: told(None))

        self._outbox.put(settle)

    def close(self, file: FileId, closed: Callable[[Attributes | None], None]) -> None:
        self._outbox.put(lambda: self._close(file, closed))

    def _close(self, file: FileId, closed: Callable[[Attributes | None], None]) -> None:
        home = self._home
        with home.lock:
            home.act(home.directory.close(self.node, file, time.monotonic()))
            home.settle(file)
        home.tree.close_file(file)
        self._inbox.put(lambda: closed(None))

    def sync(self, file: FileId) -> None:
        self._after_content()
        self._home.tree.sync(file)

    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self._home.locks.get(self.node, file, owner, start, end, kind)

    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self._home.locks.set(self.node, file, owner, start, end, kind, pid, wait)

    def forget_locks(self, file: FileId, owner: int) -> None:
        self._home.locks.forget(self.node, file, owner)
