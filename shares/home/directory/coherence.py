# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The directory of a share acts: on home's blocks, the write log and the nodes.

A lock is held around each call of the directory and the actions that come of it, so that what goes
to a node goes in the order in which the directory said it. Content is at most 4 MiB in one
message, read from and written to the page cache; nothing durable is waited for with the lock held.
"""

from __future__ import annotations

import errno
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from math import inf
from time import monotonic, time_ns
from typing import Any, TypeVar

from shares.home.directory.marks import MarkedFiles
from shares.home.nodes.grace import Grace
from shares.home.nodes.session import NodeSession
from shares.home.storage.block_store import LOST, BlockStore
from shares.home.storage.grants import ALL, Grants
from shares.home.storage.group_commit import GroupCommit
from shares.home.terms import Described
from shares.node import Attributes, Changes
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    UNCUT,
    Ack,
    Acquire,
    Action,
    Carrier,
    Fetch,
    FileId,
    FinishOpen,
    Flush,
    HomeMachine,
    LogWrite,
    Message,
    NodeId,
    Ownership,
    Push,
    Release,
    Token,
    UpdateReply,
    answer_of_home,
    content,
    filled,
    perform,
    runs,
)

LAST_BLOCK = 1 << 50
"""No file reaches further than the one before."""

Failed = Callable[[OSError], None]

T = TypeVar("T")


class Coherence:
    """The directory of one share, and the effects of what it wants (`shares.protocol.Effects`).
    Thread-safe, but for what says "with the lock". What fails raises OSError for a node.

    lock: around `directory`, and `since`: when a block was given to the owner that it has
    """

    def __init__(
        self,
        described: Described,
        lock: threading.RLock,
        blocks: BlockStore,
        commit: GroupCommit,
        grants: Grants,
        grace: Grace,
        sessions: Mapping[NodeId, NodeSession],
        lost: Callable[[NodeSession, str], None],
        marks: MarkedFiles,
    ) -> None:
        """sessions: the nodes that are there, changed with the lock. lost: is told of a node that
        cannot be gone on with, and why."""
        self.lock = lock
        self.directory = HomeMachine(base=grants.reserve(time_ns() // 1000))
        self.since: dict[tuple[FileId, int], float] = {}
        self._described, self._blocks, self._commit = described, blocks, commit
        self._grants, self._grace = grants, grace
        self._sessions, self._lost, self._marks = sessions, lost, marks
        self._tokens = itertools.count(1)
        self._waiting: dict[Token, tuple[NodeSession | None, Callable[[Any], None]]] = {}

    # What nodes ask.

    def has(self, session: NodeSession) -> bool:
        """Whether home still goes on with that node."""
        return self._sessions.get(session.node) is session

    def request(
        self,
        session: NodeSession,
        message: Message,
        arrived: Callable[[Message], None],
        failed: Failed,
    ) -> None:
        """A node's request about blocks; `arrived` is called in the order of the directory, with
        the lock held. Never waits."""
        with self.lock:
            if not self.has(session):
                failed(OSError(errno.EIO, "the lease of this node is over"))
                return
            if message.first + message.count > LAST_BLOCK:
                failed(OSError(errno.EFBIG, os.strerror(errno.EFBIG)))
                return
            if isinstance(message, Release) and self._grace.awaits(session.node):
                self._bring(session, message, arrived, failed)
                return
            self._grace.returned(session.node)
            if self._grace.hold(lambda: self.request(session, message, arrived, failed)):
                return
            token = self._expect(self._answering(message, arrived, failed), session)
            try:
                self._require(session, message)
                perform(self.directory.request(session.node, message, token, monotonic()), self)
            except ValueError as error:
                self._settle(token, OSError(errno.EINVAL, str(error)))
            except OSError as error:  # nothing is to be known of what is no more
                self._settle(token, error)

    def open(
        self, session: NodeSession, file: FileId, relaxation: float, *, cut: bool, writes: bool
    ) -> Callable[[], FinishOpen]:
        """With the lock. The node opens the file; what waits for the directory's answer, without
        the lock, and raises OSError where the node is lost before. cut, writes: as for
        HomeMachine."""
        done: queue.SimpleQueue[FinishOpen | OSError] = queue.SimpleQueue()
        token = self._expect(done.put, session)
        about = (session.node, file, token, monotonic(), relaxation)
        perform(self.directory.open(*about, cut=cut, writes=writes), self)

        def wait() -> FinishOpen:
            found = done.get()
            if isinstance(found, OSError):
                raise found
            return found

        return wait

    def written(self, session: NodeSession, file: FileId) -> None:
        """With the lock. The node's programs write it no more."""
        self.directory.written(session.node, file)

    def close(self, session: NodeSession, file: FileId) -> None:
        """With the lock. The node has the file open no more; harmless where it had not."""
        perform(self.directory.close(session.node, file, monotonic()), self)

    def change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        """Set size or times of a file, which home takes from every node before. Waits."""
        self.absorb(file)
        size = changes.size
        blocks = (UNCUT, UNCUT) if size is None else (size // BLOCK, -(-size // BLOCK))
        act = partial(self._blocks.change, file, changes)
        return self._take(session.node, file, act, *blocks)

    def zero(self, session: NodeSession, file: FileId, mode: int, offset: int, length: int) -> None:
        """Make these bytes of a file zeros, whose blocks home takes before. mode: of fallocate(2).
        Waits."""
        self.absorb(file)
        end = offset + length
        blocks = (offset // BLOCK, -(-offset // BLOCK), -(-end // BLOCK), end // BLOCK)
        act = partial(self._blocks.zero, file, mode, offset, length)
        self._take(session.node, file, act, *blocks)

    def _take(
        self,
        node: NodeId,
        file: FileId,
        act: Callable[[], T],
        first: int,
        discard: int,
        end: float = inf,
        kept: float = inf,
    ) -> T:
        """Take the blocks, as HomeMachine.take has them, for what `act` does to them."""
        done: queue.SimpleQueue[FileId] = queue.SimpleQueue()
        with self.lock:
            token = self._expect(done.put)
            about = (file, token, monotonic(), first, discard, node, end, kept)
            perform(self.directory.take(*about), self)
        done.get()
        with self.lock:
            try:
                changed = act()
            finally:
                perform(self.directory.gave(file, token, monotonic()), self)
                grant = self.directory.granted(file, ATTRIBUTES, HOME)
                self._grants.note(file, ATTRIBUTES, 1, grant)
                if first < UNCUT:
                    count = ALL if end == inf else int(end) - first
                    self._grants.note(file, first, count, grant)
        return changed

    def absorb(self, file: FileId) -> None:
        """Take the file from every node, because another program of home has changed it. Waits.
        Raises OSError."""
        with self.lock:
            if not self._blocks.part(file):
                return
        self._grace.wait()  # nodes still bring content, which goes into a copy
        self._take(HOME, file, lambda: self._blocks.accept(file), 0, UNCUT)

    def gather(self, file: FileId) -> None:
        """Take all content of the file from the nodes. Waits."""
        self._take(HOME, file, lambda: None, 0, UNCUT)

    # What home asks itself.

    def fetch_attributes(self, file: FileId) -> None:
        """Home has the latest block -1 on return. Waits."""
        done: queue.SimpleQueue[object] = queue.SimpleQueue()
        with self.lock:
            token = self._expect(done.put)
            fetch = Fetch(file, ATTRIBUTES, 1, (0,))
            perform(self.directory.request(HOME, fetch, token, monotonic()), self)
        done.get()

    def owner(self, file: FileId) -> NodeId:
        """With the lock. Who has the latest size and times, of a file that is not native."""
        record = self.directory.record(file, ATTRIBUTES)
        return record.owner if record else HOME

    def content_elsewhere(self, session: NodeSession, file: FileId) -> set[int]:
        """With the lock. The blocks whose content home's file may lack, but for this node's."""
        owned = self.directory.owners(file)
        return self._blocks.unsaved(file) | {
            number for number, node in owned.items() if number >= 0 and node != session.node
        }

    def complete(self, file: FileId) -> bool:
        """With the lock. Return whether home has all content of the file."""
        return self.native(file) is None and not self.owned(file)

    def owned(self, file: FileId) -> bool:
        """With the lock. Return whether nodes own blocks of the file, but for its size."""
        return any(number >= 0 for number in self.directory.owners(file))

    def native(self, file: FileId) -> NodeSession | None:
        """With the lock. The node whose native file it is."""
        return self._sessions.get(self.directory.native(file) or HOME)

    def forget(self, file: FileId) -> None:
        """With the lock. The file is no more."""
        perform(self.directory.forget(file, monotonic()), self)
        self._blocks.forget(file)

    def forget_node(self, session: NodeSession, why: str) -> None:
        """With the lock. The node is no more: what it had is home's, with what the log says."""
        perform(self.directory.lost(session.node, monotonic(), left=session.left), self)
        over = [token for token, (who, _) in self._waiting.items() if who is session]
        for token in over:
            self._settle(token, OSError(errno.EIO, why))

    def _answering(
        self, message: Message, arrived: Callable[[Message], None], failed: Failed
    ) -> Callable[[Message | OSError], None]:
        """Takes the directory's answer to that request. What home keeps in memory because its disk
        is full it has, but who gave it had better give no more."""
        synced = isinstance(message, LogWrite) and self._described().log == "sync"

        def reply(answer: Message | OSError) -> None:
            if isinstance(answer, OSError):
                failed(answer)
            elif synced and isinstance(answer, Ack):
                self._commit.when_durable(lambda: arrived(answer), failed)
            elif isinstance(message, Push | Flush) and self._blocks.holds(message.file):
                failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            else:
                arrived(answer)

        return reply

    def _require(self, session: NodeSession, message: Message) -> None:
        """That the file is there of which something is wanted for the first time, and that the node
        may have it."""
        if isinstance(message, Fetch | Acquire):
            if not self.directory.knows(message.file):
                self._blocks.require(message.file)
            self._marks.admit(session.name, message.file, isinstance(message, Acquire))

    def _bring(
        self,
        session: NodeSession,
        message: Release,
        arrived: Callable[[Message], None],
        failed: Failed,
    ) -> None:
        try:
            for number, block in content(message):
                if self._grace.takes(message.file, number, message.grant):
                    self._blocks.store(message.file, number, block, session.name)
                    self._grants.note(message.file, number, 1, message.grant)
            arrived(Ack(message.file, message.first, message.count))
        except ValueError as error:
            failed(OSError(errno.EINVAL, str(error)))

    def _answered(self, session: NodeSession, number: int, message: Message) -> None:
        try:
            with self.lock:
                if self.has(session):
                    now = monotonic()
                    perform(self.directory.answer(session.node, number, message, now), self)
        except ValueError as error:
            self._lost(session, f"it says what cannot be meant: {error}")

    def _expect(self, reply: Callable[[Any], None], session: NodeSession | None = None) -> int:
        """A token for a request; of a session's, `reply` gets an OSError when that is lost."""
        token = next(self._tokens)
        self._waiting[token] = session, reply
        return token

    def _settle(self, token: Token, answer: object) -> None:
        if token in self._waiting:
            self._waiting.pop(token)[1](answer)

    # What the directory wants, with the lock.

    def store(self, node: NodeId, message: Carrier) -> None:
        session = self._sessions.get(node)
        who = session.name if session else LOST
        for number, block in content(message):
            self._blocks.store(message.file, number, block, who)
            self.since.pop((message.file, number), None)
        self._note_grants(node, message.file, message.fresh)

    def append(self, node: NodeId, message: LogWrite, token: Token) -> None:
        """Who waits until it is logged is told where it cannot be."""
        mode = self._described().log
        if mode == "off":
            return
        try:
            self._blocks.append(message)
        except OSError as error:
            if mode == "sync":
                self._settle(token, error)
            return
        self._note_grants(node, message.file, message.numbers)

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        self._blocks.replay(file, numbers)

    def reply(self, node: NodeId, token: Token, message: Message) -> None:
        answer: Message | OSError = message
        self._note_owned(message)
        try:
            if isinstance(message, Carrier):
                answer = filled(message, self._blocks.block)
        except OSError as error:
            answer = error
        self._settle(token, answer)

    def ask(self, node: NodeId, number: int, message: Message) -> Iterable[Action]:
        self._note_owned(message)
        if node == HOME:
            return self.directory.answer(HOME, number, answer_of_home(message), monotonic())
        session = self._sessions.get(node)
        if session is None:
            return []
        try:
            if isinstance(message, Carrier):
                message = filled(message, self._blocks.block)
        except OSError:  # the file is no more: nobody has any use for an update of it
            about = (message.file, message.first, message.count)
            none = UpdateReply(*about, (False,) * message.count)
            return self.directory.answer(node, number, none, monotonic())
        session.ask(
            message,
            lambda reply: self._answered(session, number, reply),
            lambda why: self._lost(session, f"it cannot be asked: {why}"),
        )
        return []

    def opened(self, opened: FinishOpen) -> Iterable[Action]:
        self._settle(opened.token, opened)
        return []

    def taken(self, token: Token, file: FileId) -> Iterable[Action]:
        self._settle(token, file)
        return []

    def _note_grants(self, node: NodeId, file: FileId, numbers: Iterable[int]) -> None:
        """Home has what the node wrote to these blocks."""
        granted = [(self.directory.granted(file, number, node), number) for number in numbers]
        for grant, found in groupby(granted, lambda each: each[0]):
            for first, count in runs([number for _, number in found]):
                self._grants.note(file, first, count, grant)

    def _note_owned(self, message: Message) -> None:
        for number in message.numbers if isinstance(message, Ownership) else ():
            self.since.setdefault((message.file, number), monotonic())
