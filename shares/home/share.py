# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One share at home: its parts, the nodes that are in it, and what is done now and then."""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import monotonic, time_ns

from shares.context import KeptContext
from shares.home.directory.allocation import Allocation
from shares.home.directory.coherence import Coherence
from shares.home.directory.creations import Creations
from shares.home.directory.file_attributes import FileAttributes
from shares.home.directory.locks import Locks
from shares.home.directory.marks import MarkedFiles
from shares.home.directory.namespace import Namespace
from shares.home.directory.open_files import OpenFiles
from shares.home.directory.outside import OutsideChanges
from shares.home.directory.promises import Promises
from shares.home.directory.strangers import Strangers
from shares.home.nodes.detector import LEASES, MARGIN, FaultDetector
from shares.home.nodes.grace import Grace
from shares.home.nodes.session import NodeSession
from shares.home.storage.block_store import BlockStore
from shares.home.storage.grants import Grants
from shares.home.storage.group_commit import GroupCommit
from shares.home.storage.tree import Tree
from shares.home.storage.write_log import WriteLog
from shares.home.terms import ShareRecord
from shares.node import LOSSES_KEPT, NodeLoss, RestoreReport
from shares.protocol import NodeId

log = logging.getLogger(__name__)

LEASE_POLL_SECONDS = 0.25
"""Between looks at leases, and at what can be made durable."""

BROUGHT_LEASES = 16
"""For so many leases home knows under which right what it has was written. A node whose heartbeats
are answered knows in one that what it gave has come home; else it is lost by then."""


class Share:
    """Thread-safe. What fails raises OSError with an errno for a node.

    record: another with other terms may be put in its place, for later opens; lease: seconds
    sessions: the nodes that are there, changed with the coherence's lock
    """

    def __init__(
        self,
        record: ShareRecord,
        folder: Path,
        *,
        lease: float,
        awaited: Iterable[NodeId] = (),
        gone: Callable[[NodeSession], None] = lambda session: None,
        detector: FaultDetector = LEASES,
    ) -> None:
        """awaited: nodes that were there when home ended; gone: is told of each that is lost;
        detector: says when one is.

        folder: of the index and the log. What the log has is replayed: an earlier home ended
        before it had the blocks. Raises OSError, and as Tree and WriteLog do."""
        self.record, self.name, self.lease = record, record.name, lease
        folder.mkdir(parents=True, exist_ok=True)
        self.sessions: dict[NodeId, NodeSession] = {}
        self._lock = threading.RLock()
        self._taken_over: deque[tuple[float, NodeLoss]] = deque(maxlen=LOSSES_KEPT)
        self._gone, self._detector = gone, detector
        self._closing = threading.Event()
        self._open_records(folder, awaited)
        self._assemble()
        for file in self.log.files():
            self.blocks.replay(file, None)
        self._watcher = threading.Thread(target=self._watch, name=f"share {record.name}")
        self._watcher.start()
        self._outside.begin()

    def _open_records(self, folder: Path, awaited: Iterable[NodeId]) -> None:
        """What is on disk, and what an earlier home knew."""
        self.tree = Tree(Path(self.record.path), folder / "index")
        self.log = WriteLog(folder / "log")
        self._grants = Grants(folder / "rights", self.lease * BROUGHT_LEASES)
        self.grace = Grace(awaited, self.lease * MARGIN, self._grants.latest())
        self._commit = GroupCommit(self.log, self.name)
        self.context = KeptContext(folder / "context")

    def _assemble(self) -> None:
        """The parts, each of those that it needs."""
        tree, described = self.tree, lambda: self.record
        self.locks = Locks()
        self.promises = Promises(self._names_may_be_old)
        marks = MarkedFiles(tree)
        self.blocks = BlockStore(self.name, tree, self.log, self._lock)
        self.blocks.copies.tell = self._tell_conflict
        self.coherence = Coherence(
            described,
            self._lock,
            self.blocks,
            self._commit,
            self._grants,
            self.grace,
            self.sessions,
            self.lost,
            marks,
        )
        self.blocks.complete = self.coherence.complete
        about = (tree, self.blocks, self.promises, self.coherence)
        self.attributes = FileAttributes(self.lease, *about, marks)
        about_outside = (self.name, tree, self.promises, self.coherence, self.attributes)
        self._outside = OutsideChanges(*about_outside, self.sessions)
        settle = self._outside.settle
        self.files = OpenFiles(described, *about, self.attributes, self.sessions, marks, settle)
        self.allocation = Allocation(tree, self.coherence, marks)
        self.names = Namespace(described, tree, self.promises, self.attributes, self.files)
        self.creations = Creations(
            described,
            tree,
            self.promises,
            self.grace,
            self.coherence,
            self.files,
            self.names,
            self.blocks.copies.note,
        )
        self.strangers = Strangers(tree, self.names, self.creations, self.attributes)

    def _names_may_be_old(self) -> bool:
        return self.record.relaxed >= self.lease

    def describe(self, record: ShareRecord) -> None:
        """Its owner wants it so, for later opens. Where names may be old no more, it waits until no
        node makes files by itself, a lease at most."""
        before = self._names_may_be_old()
        self.record = record
        if before and not self._names_may_be_old():
            self.promises.call_back_all()

    def close(self) -> None:
        """End every session. What is in the log is replayed, and all of it made durable."""
        self._closing.set()
        self._outside.stop()
        self._watcher.join()
        self._commit.close()
        self.grace.end()
        with self._lock:  # who joins meanwhile is among them, or refused
            sessions = list(self.sessions.values())
        for session in sessions:
            self.lost(session, "home is being stopped")
        self._outside.close()
        self._save()
        self.context.save(now=True)
        with self._lock:
            self.log.close()
            self._grants.close()
            self.tree.close()

    # Sessions.

    def join(self, session: NodeSession) -> None:
        """Raises OSError where the share is being closed."""
        with self._lock:
            if self._closing.is_set():
                raise OSError(errno.EAGAIN, "home is closing that share")
            self.sessions[session.node] = session
            self.promises.joined(session)

    def lost(self, session: NodeSession, why: str) -> None:
        """The node is no more: what it had is home's, with what the log says. Harmless the second
        time."""
        with self._lock:
            if self.sessions.get(session.node) is not session:
                return
            del self.sessions[session.node]
            session.end(why)
            before = self.blocks.restored
            self.coherence.forget_node(session, why)
            self._note(session, why, self.blocks.restored - before)
            self.files.close_all(session)
            self.promises.lost(session)
            if session.left:
                self.creations.node_left(session)
        self.locks.lost(session.node)
        if not self._closing.is_set():
            self._gone(session)

    def _note(self, session: NodeSession, why: str, restored: RestoreReport) -> None:
        """What the owner of a node that was lost may have to know."""
        about = (self.name, session.node, session.name, why)
        if session.left or self._closing.is_set():
            log.info("share %s: node %d (%s): %s", *about)
            return
        log.warning("share %s: node %d (%s): %s; home goes on without it: %s", *about, restored)
        at = time_ns() / 1e9
        self._taken_over.append((monotonic(), NodeLoss(*about[1:], at, 0.0, restored)))

    def _tell_conflict(self, who: str, path: bytes) -> None:
        for session in self.sessions.values():
            if session.name == who:
                session.conflicts.append(path)

    def lost_since(self, at: float) -> list[NodeLoss]:
        """Return the losses of nodes after the one with that `at`, the newest at the end; all that
        home still knows if it does not know that one."""
        now = monotonic()
        found = [replace(one, seconds_ago=now - then) for then, one in self._taken_over.copy()]
        known = next((place for place, one in enumerate(found, 1) if one.at == at), 0)
        return found[known:]

    def _save(self) -> None:
        self.blocks.save()
        with self._lock:
            now = monotonic()
            if any(now - each.joined < self.lease * MARGIN for each in self.sessions.values()):
                return  # it may be bringing what it had: blocks first, and then the size
            self.files.finish_closed()

    def _watch(self) -> None:
        while not self._closing.wait(LEASE_POLL_SECONDS):
            try:
                self._look()
            except Exception:  # of one look: without the next ones no lease would ever be over
                log.exception("share %s", self.name)

    def _look(self) -> None:
        for session in list(self.sessions.values()):
            with self._lock:
                why = self._detector.over(session, self.lease)
            if why:
                self.lost(session, why)
        self.grace.look()
        self._save()
        self.context.save()
        self._grants.look()
