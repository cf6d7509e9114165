# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that a node opens before its programs do, by the context of the share's files.

When a program opens a file, the forecast names the files that come next. One request opens them,
and the beginning of their content is asked for at the same time. They rest then, as files do that a
program has closed: the program's own open asks nothing, and a file that is not used is closed after
its 30 s. Only files are opened ahead whose attributes the node remembers. So no other node has them
open to write, and nobody is asked to give anything up for a guess.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from shares.context import Forecast, Succession
from shares.node.content.content import Content
from shares.node.hub.hub import OPENED_AHEAD, Hub, OpenReply
from shares.node.names.names import NameCache
from shares.node.opened.uses import FileUse, FileUses
from shares.node.operations import Attributes
from shares.protocol import FileId

TOLD_SECONDS = 10.0
"""Between two times at which home is told what was opened after what."""

Wanted = tuple[FileId, FileUse, Attributes, int]
"""A file to be opened ahead, with its use locked, what is known of it, and the mark of names."""


class ContentPrefetcher:
    """Of one node. Thread-safe; `opened` and `dropped` never wait for home."""

    def __init__(
        self,
        uses: FileUses,
        content: Content,
        names: NameCache,
        hub: Callable[[], Hub],
        admit: Callable[[FileId, FileUse, OpenReply, Hub, int], object],
    ) -> None:
        """hub: home, or raises OSError; admit: home has opened a file for this node."""
        self._uses, self._content, self._names = uses, content, names
        self._hub, self._admit = hub, admit
        self._lock = threading.Lock()
        self._forecast = Forecast()
        self._told = 0.0
        self._wanted: queue.SimpleQueue[list[FileId] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="foresight", daemon=True)
        self._thread.start()

    def opened(self, file: FileId, *, writes: bool) -> None:
        """A program opens the file."""
        with self._lock:
            listing = partial(self._names.siblings, file)
            found = self._forecast.opened(file, listing, writes=writes)
            for each in found:
                self._forecast.fetched(each)
        if found:
            self._wanted.put(found[:OPENED_AHEAD])

    def dropped(self, file: FileId) -> None:
        """The node has closed it."""
        with self._lock:
            self._forecast.dropped(file)

    def tell(self, hub: Hub, *, now: bool = False) -> None:
        """Tell home from time to time what was opened after what, and take what home knows."""
        with self._lock:
            if not now and self._told and time.monotonic() - self._told < TOLD_SECONDS:
                return
            self._told = time.monotonic()
            seen = self._forecast.learnt()
        with suppress(OSError):
            hub.succeeded(self._take, seen)

    def _take(self, known: list[Succession] | OSError | None) -> None:
        if not isinstance(known, list):
            return
        with self._lock:
            fresh = self._forecast.successors
            for edge in reversed(known):
                if fresh.hot(edge.before) is None:
                    fresh.add(edge)

    def close(self, hub: Hub) -> None:
        """End the thread, and tell home the rest."""
        self._wanted.put(None)
        self._thread.join()
        self.tell(hub, now=True)

    def status(self) -> dict[str, Any]:
        """For status pages: files opened ahead that were used, and that were not."""
        with self._lock:
            forecast = self._forecast
            return {"used": forecast.used, "vain": forecast.vain, "ahead": len(forecast.ahead)}

    def _work(self) -> None:
        while (files := self._wanted.get()) is not None:
            opened: set[FileId] = set()
            with suppress(OSError):
                opened = self._open(files)
            with self._lock:
                for file in files:
                    if file not in opened:
                        self._forecast.ahead.pop(file, None)

    def _open(self, files: list[FileId]) -> set[FileId]:
        """Those of the files that are open now. Whoever opens one of them meanwhile waits for its
        use's lock, and finds it open."""
        with ExitStack() as held:
            wanted = [one for one in (self._claim(file, held) for file in files) if one is not None]
            if not wanted:
                return set()
            try:
                hub = self._hub()
                for file, _, attributes, _ in wanted:
                    self._content.table.ask_ahead(file, attributes, hub)
                answers = hub.open_all([file for file, *_ in wanted])
                if len(answers) != len(wanted):
                    answers = [None] * len(wanted)
            except OSError:
                for file, *_ in wanted:
                    self._give_up(file, self._hub())
                raise
            found = set()
            for (file, use, _, mark), opened in zip(wanted, answers, strict=True):
                if opened is None:
                    self._give_up(file, hub)
                    continue
                self._admit(file, use, opened, hub, mark)
                self._uses.rests(file, use)
                found.add(file)
            return found

    def _claim(self, file: FileId, held: ExitStack) -> Wanted | None:
        """None for what is open, is being opened, or is not known well enough."""
        use = held.enter_context(self._uses.locked_now(file))
        attributes = self._names.attributes(file)
        if use is None or use.file is not None or attributes is None:
            return None
        held.enter_context(self._content.table.opening(file))
        return file, use, attributes, self._names.opening(file)

    def _give_up(self, file: FileId, hub: Hub) -> None:
        """Home has not opened it."""
        if self._content.table.unasked(file):
            hub.close(lambda _: None, file)
        self._names.closed(file)
