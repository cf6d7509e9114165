# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does for one node of a share: the other end of its hub."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from overlay.coherence import Carrier, FileId, Invalidated, Message, NodeId, Updated
from overlay.shares import (
    Attributes,
    Changes,
    Entry,
    LockKind,
    Opened,
    Usage,
    answer_request,
    codec,
)
from satchel.errors import IntegrityError, SatchelError
from wire import FRAME_LIMIT, Duplex, PeerFailed, Reply

if TYPE_CHECKING:
    from homeserver.shares.share import Share

log = logging.getLogger(__name__)

THREADS = 16
"""Calls of one node that run at once; those that wait for a lock have threads of their own."""

SEEN_LIMIT = 100_000
"""Files and folders that a node is known to know; a node that knows more is told everything."""


class Session:
    """One node. Implements Hub but for `listen`, and `connected`: calls come in over `duplex`.

    token: what the node joins again with; conversation: the word for this conversation
    """

    def __init__(self, share: Share, node: NodeId, name: str, token: str, conversation: str):
        self.share = share
        self.node = node
        self.name = name
        self.token = token
        self.conversation = conversation
        self.opened: set[FileId] = set()
        self.traffic: Counter[tuple[str, str]] = Counter()  # of (direction, kind)
        self.traffic_bytes: Counter[tuple[str, str]] = Counter()
        self.joined = self.heard = time.monotonic()
        self._seen: set[FileId] = set()
        self._everything = False
        self._leaving = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"share-{name}")
        self.duplex = Duplex(f"node {node} ({name})", self._arrived)

    @property
    def connected(self) -> bool:
        return self.duplex.connected

    def knows(self, file: FileId) -> bool:
        """Whether the node was told of that file, or of names in that folder."""
        return self._everything or file in self._seen

    def over(self, silence: float) -> str | None:
        """Why the node is not waited for any more. silence: seconds of it that are borne."""
        if self._leaving:
            return "it has left"
        if time.monotonic() - self.heard > silence:
            return f"nothing was heard of it for {silence:.0f} s"
        return None

    def end(self, why: str) -> None:
        """No call of the node is taken any more. Those under way end by themselves."""
        self.duplex.end(why)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def ask(
        self,
        message: Message,
        arrived: Callable[[Message], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask the node about blocks; never waits. failed: what it says cannot be meant."""

        def take(payload: bytes) -> None:
            try:
                codec.raise_refusal(payload)
                reply = codec.decode(payload)
            except (OSError, IntegrityError) as error:
                failed(str(error))
                return
            self._count("in", type(reply).__name__, payload)
            arrived(reply)

        def unanswered(error: SatchelError) -> None:
            if isinstance(error, PeerFailed):  # else the session is over, and all know that
                failed(str(error))

        payload = codec.encode(message)
        self._count("out", type(message).__name__, payload)
        self.duplex.post(payload, take, unanswered)

    def tell_stale(self, file: FileId, name: bytes | None, done: Callable[[], None]) -> None:
        """Never waits; done: the node answers nothing from what it knew, or is no more."""

        def over(_: bytes | SatchelError) -> None:
            done()

        payload = codec.encode_call("stale", [file, name])
        self._count("out", "stale", payload)
        self.duplex.post(payload, over, over)

    def _arrived(self, payload: bytes, reply: Reply | None) -> None:
        self.heard = time.monotonic()

        def answer(answered: bytes) -> None:
            if len(answered) > FRAME_LIMIT:
                too_long = OSError(errno.EOVERFLOW, f"the answer has {len(answered)} bytes")
                answered = codec.encode_refusal(too_long)
            if reply:
                self._count("out", "reply", answered)
                reply(answered)

        if not codec.is_call(payload):
            self._perform(payload, answer)
            return
        name, values = codec.decode_call(payload)
        self._count("in", name[:40], payload)
        self.share.grace.returned(self.node)
        if name == "set_lock" and values[-1:] == [True]:
            waiting = threading.Thread(
                target=self._call, args=(payload, answer), name="lock", daemon=True
            )
            waiting.start()
        elif name == "beat":
            self._perform(payload, answer)
        elif name == "leave":
            self._perform(payload, answer)
            self._leaving = True
        else:
            self._threads.submit(self._call, payload, answer)

    def _call(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        self.share.grace.wait()
        self._perform(payload, answer)

    def _perform(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        try:
            answer_request(self, payload, answer)
        except (OverflowError, ValueError, TypeError) as error:  # numbers that no call takes
            log.warning("%s: %r", self.duplex.name, error)
            answer(codec.encode_refusal(OSError(errno.EINVAL, str(error))))
        except Exception as error:
            log.exception("%s", self.duplex.name)
            answer(codec.encode_refusal(OSError(errno.EIO, repr(error))))

    def _count(self, direction: str, kind: str, payload: bytes) -> None:
        self.traffic[direction, kind] += 1
        self.traffic_bytes[direction, kind] += len(payload)

    def _told(self, *files: FileId) -> None:
        if len(self._seen) + len(files) > SEEN_LIMIT:
            self._everything = True
            self._seen.clear()
        if not self._everything:
            self._seen.update(files)

    # The hub.

    def post(
        self,
        message: Message,
        arrived: Callable[[Message], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        size = len(getattr(message, "data", b""))
        self.traffic["in", type(message).__name__] += 1
        self.traffic_bytes["in", type(message).__name__] += size + 25
        self.share.request(self, message, arrived or _nothing, failed or _nothing)

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
    ) -> None:
        raise AssertionError("the node listens at its own end")

    def beat(self, heard: Callable[[], None] = lambda: None) -> float:
        heard()
        return self.share.lease

    def leave(self) -> None:
        """Taken up once it is answered: what ends the session throws away what is unsent."""

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        self._told(parent)
        entry = self.share.lookup(self, parent, name)
        self._told(entry.attributes.file)
        return entry

    def attributes(self, file: FileId) -> Attributes:
        self._told(file)
        return self.share.attributes(self, file)

    def change(self, file: FileId, changes: Changes) -> Attributes:
        self._told(file)
        return self.share.change(self, file, changes)

    def read_link(self, file: FileId) -> bytes:
        return self.share.tree.read_link(file)

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Entry:
        entry = self.share.tree.make_folder(parent, name, mode, uid, gid)
        return self._made(parent, entry)

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Entry:
        entry = self.share.tree.make_link(parent, name, target, uid, gid)
        return self._made(parent, entry)

    def link(self, file: FileId, parent: FileId, name: bytes) -> Entry:
        entry = self._made(parent, self.share.tree.link(file, parent, name))
        self.share.notify(self, file, None)
        return entry

    def unlink(self, parent: FileId, name: bytes) -> None:
        self.share.unlink(self, parent, name)

    def remove_folder(self, parent: FileId, name: bytes) -> None:
        self.share.tree.remove_folder(parent, name)
        self.share.notify(self, parent, name)

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> None:
        self.share.rename(self, parent, name, new_parent, new_name, flags)

    def entries(self, folder: FileId) -> list[Entry]:
        self._told(folder)
        entries = self.share.entries(self, folder)
        self._told(*(entry.attributes.file for entry in entries))
        return entries

    def usage(self) -> Usage:
        return self.share.tree.usage()

    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Entry, Opened]:
        entry, opened = self.share.create(self, parent, name, mode, uid, gid, exclusive)
        return self._made(parent, entry), opened

    def open(self, file: FileId, writes: bool) -> Opened:
        self._told(file)
        return self.share.open(self, file, writes)

    def close(self, file: FileId) -> None:
        self.share.close_file(self, file)

    def sync(self, file: FileId) -> None:
        self.share.sync(file)

    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self.share.locks.get(self.node, file, owner, start, end, kind)

    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self.share.locks.set(self.node, file, owner, start, end, kind, pid, wait)

    def forget_locks(self, file: FileId, owner: int) -> None:
        self.share.locks.forget(self.node, file, owner)

    def _made(self, parent: FileId, entry: Entry) -> Entry:
        self._told(parent, entry.attributes.file)
        self.share.notify(self, parent, entry.name)
        return entry


def _nothing(_: object) -> None:
    pass


def answer_of_home(message: Message) -> Message:
    """Home keeps nothing of what it asks for itself."""
    about = (message.file, message.first, message.count)
    if isinstance(message, Carrier):
        return Updated(*about, (False,) * message.count)
    return Invalidated(*about, (False,) * message.count)
