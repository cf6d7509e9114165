# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One node of a share at home: the conversation with it."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from satchel.errors import IntegrityError, SatchelError
from satchel.inflight import InflightRequests
from shares.home.nodes.channel import ANSWER_LIMIT, Open, Reply
from shares.home.nodes.grace import Grace
from shares.node import Notices, codec
from shares.protocol import FileId, Message, NodeId

log = logging.getLogger(__name__)

THREADS = 16
"""Calls of one node that run at once; those that wait for a lock have threads of their own."""

LOCK_WAITS = 1024
"""Of those."""

UNDER_WAY = 16384
"""Requests of one node that may have no answer yet."""

UNDER_WAY_BYTES = 256 << 20
"""Of these."""

CONFLICTS = 100
"""Conflict copies that a node hears of in one heartbeat."""

KINDS = 100
"""Words that traffic is counted by, in each direction; a node may call what there is not."""

IN_ORDER = frozenset({"close", "written"})
"""Calls that wait for nobody, and are done before what the node says after them is read: it has
posted them behind the content that they are about. So it is with `make`, which comes ahead of
it."""


class NodeSession:
    """One node, from its joining until its lease is over. Thread-safe.

    token: what the node joins again with; conversation: the word for this conversation
    opened: files that it has open, under the share's lock
    conflicts: paths of conflict copies of its content that it has not heard of
    """

    def __init__(
        self,
        node: NodeId,
        name: str,
        token: str,
        conversation: str,
        *,
        open_channel: Open,
        perform: Callable[[NodeSession, bytes, Callable[[bytes], None]], None],
        grace: Grace,
        stranger: bool = False,
    ) -> None:
        """perform: does what the node asks and hands over the answer (HomeCalls.perform); it is
        called for messages about blocks in the order of their arrival. stranger: the node is not a
        program of the owner's."""
        self.node = node
        self.stranger = stranger
        self.name = name
        self.token = token
        self.conversation = conversation
        self.opened: set[FileId] = set()
        self.conflicts: deque[bytes] = deque(maxlen=CONFLICTS)
        self.traffic: Counter[tuple[str, str]] = Counter()  # of (direction, kind)
        self.traffic_bytes: Counter[tuple[str, str]] = Counter()
        self.joined = self.heard = time.monotonic()
        self._answer = perform
        self._grace = grace
        self._leaving = False
        self._heeded = False  # what it said is being taken up, and nothing later of it is read yet
        self._backlog = InflightRequests(UNDER_WAY, UNDER_WAY_BYTES)
        self._lock_waits = threading.Semaphore(LOCK_WAITS)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"share-{name}")
        self.channel = open_channel(f"node {node} ({name})", self._arrived)

    @property
    def left(self) -> bool:
        """Whether the node has given back what it had, and said so."""
        return self._leaving

    def leave(self) -> None:
        """What it had has been given to home in another way."""
        self._leaving = True

    @property
    def connected(self) -> bool:
        return self.channel.connected

    def over(self, silence: float) -> str | None:
        """Why the node is not waited for any more. silence: seconds of it that are borne. How long
        home takes over what the node said counts for nothing, nor how long that takes to come. With
        the share's lock."""
        if self._leaving:
            return "it has left"
        if self.channel.ended is not None:
            return self.channel.ended
        heard = max(self.heard, self.channel.heard)
        if not self._heeded and time.monotonic() - heard > silence:
            return f"nothing was heard of it for {silence:.0f} s"
        return None

    def end(self, why: str) -> None:
        """No call of the node is taken any more. Those under way end by themselves."""
        self.channel.end(why)
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
            self.count("in", type(reply).__name__, len(payload))
            with self._heeding():
                arrived(reply)

        def unanswered(error: SatchelError) -> None:
            if self.channel.ended is None:  # else the session is over, and all know that
                failed(str(error))

        payload = codec.encode(message)
        self.count("out", type(message).__name__, len(payload))
        self.channel.post(payload, take, unanswered)

    def count(self, direction: str, kind: str, size: int) -> None:
        """A message that went `in` or `out`, of `size` bytes."""
        if (direction, kind) not in self.traffic and len(self.traffic) >= 2 * KINDS:
            kind = "other"
        self.traffic[direction, kind] += 1
        self.traffic_bytes[direction, kind] += size

    def tell_stale(self, file: FileId, name: bytes | None, done: Callable[[], None]) -> None:
        """Never waits; done: the node answers nothing from what it knew, or is no more."""
        self._tell(Notices.stale.name, Notices.stale.encode(file, name), done)

    def tell_disown(self, folder: FileId, done: Callable[[], None]) -> None:
        """Never waits; done: the node has said all that it made in the folder, or is no more."""
        self._tell(Notices.disown.name, Notices.disown.encode(folder), done)

    def _tell(self, name: str, payload: bytes, done: Callable[[], None]) -> None:
        def over(_: bytes | SatchelError) -> None:
            done()

        self.count("out", name, len(payload))
        self.channel.post(payload, over, over)

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """On the one thread that reads what the node says."""
        self._heeded = True
        try:
            yield
        finally:
            self.heard = time.monotonic()
            self._heeded = False

    def _arrived(self, payload: bytes, reply: Reply | None) -> None:
        with self._heeding():
            self._take_up(payload, reply)

    def _take_up(self, payload: bytes, reply: Reply | None) -> None:
        if reply and not self._backlog.asked(len(payload)):
            self.channel.end("it asks too much at once")
            return

        def answer(answered: bytes) -> None:
            if len(answered) > ANSWER_LIMIT:
                too_long = OSError(errno.EOVERFLOW, f"the answer has {len(answered)} bytes")
                answered = codec.encode_refusal(too_long)
            if reply:
                self._backlog.answered(len(payload))
                self.count("out", "reply", len(answered))
                reply(answered)

        if not codec.is_call(payload):
            self._perform(payload, answer)
            return
        name, values = codec.decode_call(payload)
        self.count("in", name[:40], len(payload))
        self._take_up_call(name, values, payload, answer)

    def _take_up_call(
        self, name: str, values: list[Any], payload: bytes, answer: Callable[[bytes], None]
    ) -> None:
        if name == "make_again" and self._grace.awaits(self.node):
            self._perform(payload, answer)  # the content of that is still to be brought
            return
        self._grace.returned(self.node)
        if name == "set_lock" and values[-1:] == [True]:
            self._wait_for_lock(payload, answer)
        elif name in {"beat", "make"} or (name in IN_ORDER and self._grace.over):
            self._perform(payload, answer)
        elif name in IN_ORDER:
            # An open waits until the grace is over, so this node has nothing open yet; were this
            # kept until then, it could come behind an open that was said after it.
            answer(codec.encode_result(None))
        elif name == "leave":
            self._perform(payload, answer)
            self._leaving = True
        else:
            self._threads.submit(self._call, payload, answer)

    def _wait_for_lock(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        if not self._lock_waits.acquire(blocking=False):
            answer(codec.encode_refusal(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
            return

        def wait() -> None:
            try:
                self._call(payload, answer)
            finally:
                self._lock_waits.release()

        threading.Thread(target=wait, name="lock", daemon=True).start()

    def _call(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        self._grace.wait()
        self._perform(payload, answer)

    def _perform(self, payload: bytes, answer: Callable[[bytes], None]) -> None:
        try:
            self._answer(self, payload, answer)
        except (OverflowError, ValueError, TypeError) as error:  # numbers that no call takes
            log.warning("%s: %r", self.channel.name, error)
            answer(codec.encode_refusal(OSError(errno.EINVAL, str(error))))
        except Exception as error:
            log.exception("%s", self.channel.name)
            answer(codec.encode_refusal(OSError(errno.EIO, repr(error))))
