# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's answer to an open makes of a file at a node."""

from __future__ import annotations

import logging
import threading
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from shares.coherence import ATTRIBUTES, POLICIES, DelayedUpdate, FileId, Node, Policy
from shares.nodes.access import OpenFile
from shares.nodes.copies import Copies
from shares.nodes.extent import Extent
from shares.nodes.hub import Hub, Opened
from shares.nodes.operations import Window
from shares.nodes.windows import Windows

log = logging.getLogger(__name__)


class Opening(ABC):
    """The part of Content that is about files being opened. Thread-safe."""

    _changed: threading.Condition
    _hub: Hub
    _machine: Node
    _windows: Windows
    _copies: Copies
    _files: dict[FileId, OpenFile]
    _opened_with: dict[FileId, str]
    _policies: dict[str, Policy]

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Within this home is asked to open files, and `opened` is called."""
        with self._changed:
            self._machine.opening()
        try:
            yield
        finally:
            with self._changed:
                self._machine.opening_over()

    def opened(self, file: FileId, opened: Opened, hub: Hub) -> OpenFile:
        """Home has opened the file for this node; again, where it is open already. Calls are
        answered on another thread than messages, which may have overtaken this answer. hub: who
        gave it; one of an earlier membership says nothing any more of whose the file is."""
        with self._changed:
            if hub is not self._hub:
                opened = replace(opened, native=False, grant=0)
            known = self._files.get(file)
            if known is not None:
                self._copies.take_back_all(known)
            overtaken = self._machine.overtaken(file, opened.native, opened.grant)
            native = opened.native and not overtaken
            policy = self._policy(opened.policy)
            self._opened_with[file] = policy.name
            about = (opened.native, opened.relaxation, opened.grant)
            comes, extent = self._machine.open(file, policy, *about), Extent.of(opened.attributes)
            if known is None:
                known = OpenFile(file, opened.attributes, extent, opened.log)
                self._files[file] = known
            elif comes:
                known.extent = extent
            known.extent_came = native or known.extent_came
            known.attributes, known.log, known.kept = opened.attributes, opened.log, False
            return known

    def _policy(self, name: str) -> Policy:
        if name not in POLICIES:
            log.warning("home's policy %s is not known here", name)
        return self._policies.setdefault(name, POLICIES.get(name, DelayedUpdate)())

    def native(self, file: FileId) -> bool:
        with self._changed:
            return self._machine.native(file)

    def window(self, file: OpenFile) -> Window | None:
        """Where sessions answer by themselves what a program asks that has opened it."""
        with self._changed:
            return self._windows.of(file)
