# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Other programs of home change the shared folder itself. Home treats this as writes of one more
node: it calls the nodes back, and takes the file from them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from shares.home.directory.coherence import Coherence
from shares.home.directory.file_attributes import FileAttributes
from shares.home.directory.promises import Key, Promises
from shares.home.nodes.session import NodeSession
from shares.home.storage.file_versions import Difference
from shares.home.storage.folder_events import FolderEvent
from shares.home.storage.tree import Tree
from shares.node import EVERYTHING
from shares.protocol import FileId, NodeId

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at the files that nodes have open."""

THREADS = 4
"""Files that are taken back from nodes at once."""


class OutsideChanges:
    """The changes in one share. Uses threads until `close`."""

    def __init__(
        self,
        name: str,
        tree: Tree,
        promises: Promises,
        coherence: Coherence,
        attributes: FileAttributes,
        sessions: Mapping[NodeId, NodeSession],
    ) -> None:
        """name: of the share. sessions: its present nodes, changed with the share's lock"""
        self._name, self._tree, self._promises = name, tree, promises
        self._coherence, self._attributes, self._sessions = coherence, attributes, sessions
        self._lock = threading.Lock()
        self._noticed: set[FileId] = set()
        self._taking: set[FileId] = set()
        self._closed = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"changed {name}")
        self._watcher = threading.Thread(target=self._run, name=f"changes {name}")
        tree.noticed = self._notice

    def begin(self) -> None:
        """Look for changes from now on."""
        self._watcher.start()

    def stop(self) -> None:
        """Look for no more changes. Does not wait."""
        self._closed = True
        self._tree.events.wake()

    def close(self) -> None:
        """Wait until the threads have ended. No node is there any more."""
        self.stop()
        self._watcher.join()
        self._threads.shutdown()

    def settle(self, file: FileId) -> None:
        """Take the file back from the nodes if others have changed it. Waits."""
        if self._tree.difference(file) != Difference.NONE:
            self._take_back(file)

    def _notice(self, file: FileId) -> None:
        with self._lock:
            self._noticed.add(file)
        self._tree.events.wake()

    def _run(self) -> None:
        looked = monotonic()
        while not self._closed:
            try:
                events = self._tree.events.wait(LOOK_SECONDS)
                if events is None:
                    self._forget_all()
                for event in events or ():
                    self._take_up(event)
                if monotonic() - looked >= LOOK_SECONDS:
                    looked = monotonic()
                    self._look()
                with self._lock:
                    noticed, self._noticed = self._noticed, set()
                for file in noticed:
                    self._begin(file)
            except Exception:  # of one look: without the next ones no change would be noticed
                log.exception("share %s", self._name)

    def _look(self) -> None:
        with self._coherence.lock:
            opened = set().union(*(each.opened for each in self._sessions.values()))
        for file in opened:
            if self._tree.difference(file) != Difference.NONE:
                self._notice(file)

    def _take_up(self, event: FolderEvent) -> None:
        before, found = self._tree.look(event.folder, event.name)
        now = found.file if found else None
        if not event.named and before == now:
            return  # `look` has compared the file
        keys: list[Key] = [(event.folder, event.name), (event.folder, None)]
        keys += [(file, None) for file in {before, now} if file is not None]
        self._promises.outside(keys)
        if before is not None and before != now:
            self._attributes.named_otherwise(before)

    def _forget_all(self) -> None:
        log.warning("share %s: home missed changes by other programs; nodes forget all", self._name)
        with self._coherence.lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.tell_stale(EVERYTHING, None, lambda: None)

    def _begin(self, file: FileId) -> None:
        with self._lock:
            if file in self._taking:
                return
            self._taking.add(file)
        self._threads.submit(self._take_noticed, file)

    def _take_noticed(self, file: FileId) -> None:
        with self._lock:
            self._taking.discard(file)
        self._take_back(file)

    def _take_back(self, file: FileId) -> None:
        try:
            self._promises.outside([(file, None)])
            self._coherence.absorb(file)
            self._promises.outside([(file, None)])
        except OSError as error:
            log.info("share %s: file %d: %s", self._name, file, error)
