# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One share at home: the directory acts here on the tree, the write log and the nodes.

A lock is held around each call of the directory and the actions that come of it, so that what goes
to a node goes in the order in which the directory said it. Content is at most 4 MiB in one
message, read from and written to the page cache; nothing durable is waited for with the lock held.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

from shares.home.block_store import BlockStore
from shares.home.creations import Makings
from shares.home.grace import Grace
from shares.home.grants import ALL, Grants
from shares.home.group_commit import GroupCommit
from shares.home.locks import Locks
from shares.home.own_folders import GivenIds
from shares.home.promises import Promises, Recall
from shares.home.session import NodeSession
from shares.home.terms import ShareRecord
from shares.home.tree import Tree
from shares.home.write_log import WriteLog
from shares.node import LOSSES_KEPT, Attributes, Changes, Made, Opened, Restored, TakenOver
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    UNCUT,
    Action,
    Append,
    Ask,
    Carrier,
    Directory,
    Done,
    Fetch,
    FileId,
    Flush,
    Granted,
    Invalidated,
    Log,
    Message,
    NodeId,
    Own,
    Push,
    Release,
    Replay,
    Reply,
    Store,
    Taken,
    Token,
    Updated,
    filled,
    runs,
)
from shares.protocol import Opened as Admitted
from shares.protocol import content as blocks_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Between looks at leases, and at what can be made durable."""

MARGIN = 1.25
"""Home waits so much longer than a node until the node's lease is over."""

BROUGHT_LEASES = 16
"""For so many leases home knows under which right what it has was written. A node whose heartbeats
are answered knows in one that what it gave has come home; else it is lost by then."""

LAST_BLOCK = 1 << 50
"""No file reaches further than the one before."""


class Share(Makings):
    """Thread-safe. What fails raises OSError with an errno for a node.

    lock: around `directory`, and `since`: when a block was given to the owner that it has

    lease: seconds
    record: another with other terms may be put in its place, for later opens
    """

    def __init__(
        self,
        record: ShareRecord,
        folder: Path,
        *,
        lease: float,
        awaited: Iterable[NodeId] = (),
        gone: Callable[[NodeSession], None] = lambda session: None,
    ) -> None:
        """awaited: nodes that were there when home ended; gone: is told of each that is lost.

        folder: of the index and the log. What the log has is replayed: an earlier home ended
        before it had the blocks. Raises OSError, and as Tree and WriteLog do."""
        self.record, self.name, self.lease = record, record.name, lease
        folder.mkdir(parents=True, exist_ok=True)
        self.tree = Tree(Path(record.path), folder / "index")
        self.log = WriteLog(folder / "log")
        self.locks = Locks()
        self.promises = Promises()
        self.ids = GivenIds()
        self.sessions: dict[int, NodeSession] = {}
        # Greater than what any earlier directory of this share has counted to.
        self.directory = Directory(base=time_ns() // 1000)
        self.lock = threading.RLock()
        self.content = BlockStore(record.name, self.tree, self.log, self.lock)
        self._taken_over: deque[tuple[float, TakenOver]] = deque(maxlen=LOSSES_KEPT)
        self._tokens = itertools.count(1)
        self._waiting: dict[Token, tuple[NodeSession | None, Callable[[Any], None]]] = {}
        self.since: dict[tuple[FileId, int], float] = {}
        self._durable = GroupCommit(self.log, record.name)
        self.rights = Grants(folder / "rights", lease * BROUGHT_LEASES)
        self.grace = Grace(awaited, lease * MARGIN, self.rights.latest())
        self._gone = gone
        for file in self.log.files():
            self.content.replay(file, None)
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"share {record.name}")
        self._watcher.start()

    def close(self) -> None:
        """End every session. What is in the log is replayed, and all of it made durable."""
        self._closing.set()
        self._watcher.join()
        self._durable.close()
        self.grace.end()
        for session in list(self.sessions.values()):
            self.lost(session, "home is being stopped")
        self._save()
        with self.lock:
            self.log.close()
            self.rights.close()
            self.tree.close()

    # Sessions.

    def join(self, session: NodeSession) -> None:
        with self.lock:
            self.sessions[session.node] = session
            self.promises.joined(session)

    def lost(self, session: NodeSession, why: str) -> None:
        """The node is no more: what it had is home's, with what the log says. Harmless the second
        time."""
        with self.lock:
            if self.sessions.get(session.node) is not session:
                return
            del self.sessions[session.node]
            session.end(why)
            before = self.content.restored
            self._act(self.directory.lost(session.node, monotonic(), left=session.left))
            self._note(session, why, self.content.restored - before)
            for file in session.opened:
                self._closed(session, file)
            session.opened.clear()
            self.promises.lost(session)
            if session.left:
                self.ids.left(session.node)
            over = [token for token, (who, _) in self._waiting.items() if who is session]
            for token in over:
                self._settle(token, OSError(errno.EIO, why))
        self.locks.lost(session.node)
        if not self._closing.is_set():
            self._gone(session)

    def _note(self, session: NodeSession, why: str, restored: Restored) -> None:
        """What the owner of a node that was lost may have to know."""
        about = (self.name, session.node, session.name, why)
        if session.left or self._closing.is_set():
            log.info("share %s: node %d (%s): %s", *about)
            return
        log.warning("share %s: node %d (%s): %s; home goes on without it: %s", *about, restored)
        at = time_ns() / 1e9
        self._taken_over.append((monotonic(), TakenOver(*about[1:], at, 0.0, restored)))

    def lost_since(self, at: float) -> list[TakenOver]:
        """Nodes that home went on without later than that, seconds since 1970, and that it still
        tells of: the newest, at the end."""
        now = monotonic()
        found = [replace(one, seconds_ago=now - then) for then, one in self._taken_over.copy()]
        return [one for one in found if one.at > at]

    # Blocks.

    def request(
        self,
        session: NodeSession,
        message: Message,
        arrived: Callable[[Message], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """A node's request about blocks; `arrived` is called in the order of the directory, with
        the lock held. Never waits."""
        with self.lock:
            if self.sessions.get(session.node) is not session:
                failed(OSError(errno.EIO, "the lease of this node is over"))
                return
            if message.first + message.count > LAST_BLOCK:
                failed(OSError(errno.EFBIG, os.strerror(errno.EFBIG)))
                return
            if isinstance(message, Release) and self.grace.awaits(session.node):
                self._bring(message, arrived, failed)
                return
            self.grace.returned(session.node)
            if self.grace.hold(lambda: self.request(session, message, arrived, failed)):
                return
            token = self._expect(self._answering(message, arrived, failed), session)
            try:
                self._require(message)
                self._act(self.directory.request(session.node, message, token, monotonic()))
            except ValueError as error:
                self._settle(token, OSError(errno.EINVAL, str(error)))
            except OSError as error:  # nothing is to be known of what is no more
                self._settle(token, error)

    def _answering(
        self,
        message: Message,
        arrived: Callable[[Message], None],
        failed: Callable[[OSError], None],
    ) -> Callable[[Message | OSError], None]:
        """Takes the directory's answer to that request. What home keeps in memory because its disk
        is full it has, but who gave it had better give no more."""
        synced = isinstance(message, Log) and self.record.log == "sync"

        def reply(answer: Message | OSError) -> None:
            if isinstance(answer, OSError):
                failed(answer)
            elif synced and isinstance(answer, Done):
                self._durable.when_durable(lambda: arrived(answer), failed)
            elif isinstance(message, Push | Flush) and self.content.holds(message.file):
                failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            else:
                arrived(answer)

        return reply

    def _require(self, message: Message) -> None:
        """That the file is there of which something is wanted for the first time."""
        if isinstance(message, Fetch | Own) and not self.directory.knows(message.file):
            self.tree.require(message.file)

    def _bring(
        self,
        message: Release,
        arrived: Callable[[Message], None],
        failed: Callable[[OSError], None],
    ) -> None:
        try:
            for number, block in blocks_of(message):
                if self.grace.takes(message.file, number, message.grant):
                    self.content.store(message.file, number, block)
                    self.rights.note(message.file, number, 1, message.grant)
            arrived(Done(message.file, message.first, message.count))
        except ValueError as error:
            failed(OSError(errno.EINVAL, str(error)))

    def _answered(self, session: NodeSession, number: int, message: Message) -> None:
        try:
            with self.lock:
                if self.sessions.get(session.node) is session:
                    self._act(self.directory.answer(session.node, number, message, monotonic()))
        except ValueError as error:
            self.lost(session, f"it says what cannot be meant: {error}")

    def _expect(self, reply: Callable[[Any], None], session: NodeSession | None = None) -> int:
        """A token for a request; of a session's, `reply` gets an OSError when that is lost."""
        token = next(self._tokens)
        self._waiting[token] = session, reply
        return token

    def _settle(self, token: Token, answer: object) -> None:
        if token in self._waiting:
            self._waiting.pop(token)[1](answer)

    def _act(self, actions: list[Action]) -> None:
        """With the lock: do what the directory wants."""
        ahead = deque(actions)
        while ahead:
            action = ahead.popleft()
            if isinstance(action, Store):
                self._store(action.node, action.message)
            elif isinstance(action, Append):
                if self.record.log != "off":
                    self._append(action)
            elif isinstance(action, Replay):
                self.content.replay(action.file, action.numbers)
            elif isinstance(action, Ask):
                ahead.extend(self._ask(action))
            elif isinstance(action, Reply):
                self._reply(action.token, action.message)
            elif isinstance(action, Admitted):
                self._settle(action.token, action)
            elif isinstance(action, Taken):
                self._settle(action.token, action.file)

    def _store(self, node: NodeId, message: Carrier) -> None:
        for number, block in blocks_of(message):
            self.content.store(message.file, number, block)
            self.since.pop((message.file, number), None)
        self._note_rights(node, message.file, message.fresh)

    def _append(self, action: Append) -> None:
        """Who waits until it is logged is told where it cannot be."""
        try:
            self.content.append(action.message)
        except OSError as error:
            if self.record.log == "sync":
                self._settle(action.token, error)
            return
        self._note_rights(action.node, action.message.file, action.message.numbers)

    def _note_rights(self, node: NodeId, file: FileId, numbers: Iterable[int]) -> None:
        """Home has what the node wrote to these blocks."""
        granted = [(self.directory.granted(file, number, node), number) for number in numbers]
        for grant, found in groupby(granted, lambda each: each[0]):
            for first, count in runs([number for _, number in found]):
                self.rights.note(file, first, count, grant)

    def _reply(self, token: Token, message: Message) -> None:
        answer: Message | OSError = message
        self._note_owned(message)
        try:
            if isinstance(message, Carrier):
                answer = filled(message, self.content.block)
        except OSError as error:
            answer = error
        self._settle(token, answer)

    def _note_owned(self, message: Message) -> None:
        for number in message.numbers if isinstance(message, Granted) else ():
            self.since.setdefault((message.file, number), monotonic())

    def _ask(self, action: Ask) -> list[Action]:
        message = action.message
        self._note_owned(message)
        if action.node == HOME:
            return self.directory.answer(HOME, action.number, answer_of_home(message), monotonic())
        session = self.sessions.get(action.node)
        if session is None:
            return []
        try:
            if isinstance(message, Carrier):
                message = filled(message, self.content.block)
        except OSError:  # the file is no more: nobody has any use for an update of it
            about = (message.file, message.first, message.count)
            none = Updated(*about, (False,) * message.count)
            return self.directory.answer(action.node, action.number, none, monotonic())
        session.ask(
            message,
            lambda reply: self._answered(session, action.number, reply),
            lambda why: self.lost(session, f"it cannot be asked: {why}"),
        )
        return []

    # Attributes and open files.

    def change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        with self.promises.changing(session, (file, None)):
            changed = self._change(session, file, changes)
        return self.settled(session, file) or changed

    def _change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        times_or_size = (changes.size, changes.accessed, changes.modified) != (None, None, None)
        if not times_or_size or not stat.S_ISREG(self.tree.attributes(file).mode):
            changed = self.tree.change(file, changes)
            with self.lock:
                self.content.changed(changed)
            return self._current(session, changed)
        first = UNCUT if changes.size is None else changes.size // BLOCK
        discard = UNCUT if changes.size is None else -(-changes.size // BLOCK)
        done: queue.SimpleQueue[FileId] = queue.SimpleQueue()
        with self.lock:
            token = self._expect(done.put)
            by = session.node
            self._act(self.directory.take(file, token, monotonic(), first, discard, by))
        done.get()
        with self.lock:
            try:
                changed = self.content.change(file, changes)
            finally:
                self._act(self.directory.gave(file, token, monotonic()))
                grant = self.directory.granted(file, ATTRIBUTES, HOME)
                self.rights.note(file, ATTRIBUTES, 1, grant)
                if first < UNCUT:
                    self.rights.note(file, first, ALL, grant)
        return changed

    def _current(self, session: NodeSession, attributes: Attributes) -> Attributes:
        """With the latest size and times, wherever they are."""
        file = attributes.file
        done: queue.SimpleQueue[object] = queue.SimpleQueue()
        with self.lock:
            record = self.directory.record(file, ATTRIBUTES)
            owners = {self._writer(file), record.owner if record else HOME}
            if owners <= {HOME, session.node}:
                return self.content.known(attributes)
            fetch = Fetch(file, ATTRIBUTES, 1, (0,))
            token = self._expect(done.put)
            self._act(self.directory.request(HOME, fetch, token, monotonic()))
        done.get()
        with self.lock:
            return self.content.known(attributes)

    def _writer(self, file: FileId) -> NodeId:
        """Whose native file it is that may have written it; else home."""
        native = self.sessions.get(self.directory.native(file) or HOME)
        return native.node if native and self.promises.writes(native, file) else HOME

    # Open files.

    def open(self, session: NodeSession, file: FileId, writes: bool, cut: bool) -> Opened:
        self.tree.open(file, writes)
        if cut:
            try:
                self.change(session, file, Changes(size=0))
            except BaseException:
                self.tree.close_file(file)
                raise
        return self._opened(session, file, writes, cut=cut)

    def create(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        mode: int,
        uid: int,
        gid: int,
        exclusive: bool,
    ) -> tuple[Made, Opened]:
        with self.promises.changing(session, (parent, name)):
            entry, _ = self.tree.create(parent, name, mode, uid, gid, exclusive)
        opened = self._opened(session, entry.attributes.file, writes=True)
        made = self._made(session, parent, entry)
        entry = replace(made.entry, attributes=opened.attributes)
        return replace(made, entry=entry), opened

    def _opened(
        self, session: NodeSession, file: FileId, writes: bool, *, cut: bool = False
    ) -> Opened:
        """The node has it open in the tree; now in the directory."""
        done: queue.SimpleQueue[Admitted | OSError] = queue.SimpleQueue()
        with self.lock:
            if file in session.opened or self.sessions.get(session.node) is not session:
                self.tree.close_file(file)
            else:
                session.opened.add(file)
            recall = self.promises.writing(session, file) if writes else Recall([])
            mark = self.promises.asked(session)
            self.promises.told(session, mark, [file])
            policy, relaxation = self._terms(file)
            token = self._expect(done.put, session)
            about = (session.node, file, token, monotonic(), relaxation)
            self._act(self.directory.open(*about, cut=cut))
        admitted = done.get()
        recall.wait()
        if isinstance(admitted, OSError):
            raise admitted
        attributes = self._current(session, self.tree.attributes(file))
        terms = (relaxation, policy, self.record.log)
        return Opened(attributes, admitted.native, *terms, admitted.grant)

    def _terms(self, file: FileId) -> tuple[str, float]:
        """Policy and relaxation; of a file with several names, the least of their relaxations."""
        record = self.record
        paths = self.tree.paths(file) if record.rules else []
        found = [record.terms(os.fsdecode(path)) for path in paths]
        return min(found, key=lambda terms: terms[1], default=(record.policy, record.relaxation))

    def close_file(self, session: NodeSession, file: FileId) -> None:
        with self.lock:
            # Who could not open it has perhaps copies of it all the same.
            self._act(self.directory.close(session.node, file, monotonic()))
            if file in session.opened:
                session.opened.discard(file)
                self._closed(session, file)
                self.promises.written(session, file)

    def written(self, session: NodeSession, file: FileId) -> None:
        with self.lock:
            self.promises.written(session, file)
            if self.directory.native(file) == session.node:
                self._finish(file, session)  # all of it is here, and stays so until it is opened

    def _closed(self, session: NodeSession, file: FileId) -> None:
        """With the lock: the node has it open no more."""
        if not any(file in other.opened for other in self.sessions.values()):
            self._finish(file, session)
        if self.tree.close_file(file):
            self._no_more(file)

    def _no_more(self, file: FileId) -> None:
        self._act(self.directory.forget(file, monotonic()))
        self.content.forget(file)

    def _finish(self, file: FileId, closes: NodeSession | None = None) -> None:
        """With the lock; not waited for, because no program waits for the change. closes: who
        remembers nothing of it."""
        if self.content.finish(file):
            self.promises.recall(closes, file)

    # What lasts.

    def _save(self) -> None:
        self.content.save()
        with self.lock:
            now = monotonic()
            if any(now - each.joined < self.lease * MARGIN for each in self.sessions.values()):
                return  # it may be bringing what it had: blocks first, and then the size
            opened = {file for session in self.sessions.values() for file in session.opened}
            for file in self.content.files():
                record = self.directory.record(file, ATTRIBUTES)
                if file not in opened and (record is None or record.owner == HOME):
                    self._finish(file)

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self._look()
            except Exception:  # of one look: without the next ones no lease would ever be over
                log.exception("share %s", self.name)

    def _look(self) -> None:
        for session in list(self.sessions.values()):
            with self.lock:
                why = session.over(self.lease * MARGIN)
            if why:
                self.lost(session, why)
        self.grace.look()
        self._save()
        self.rights.look()


def answer_of_home(message: Message) -> Message:
    """Home keeps nothing of what it asks for itself."""
    about = (message.file, message.first, message.count)
    if isinstance(message, Carrier):
        return Updated(*about, (False,) * message.count)
    return Invalidated(*about, (False,) * message.count)
