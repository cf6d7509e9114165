# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes of files that are open at a node, as far as block -1 has not got them, and what
becomes of such a file when home calls them back; and locks, which are home's."""

from __future__ import annotations

import stat
import threading
from dataclasses import replace

from shares.node.access import OpenFile
from shares.node.content import Content
from shares.node.handles import file_of
from shares.node.naming import Naming
from shares.node.operations import EVERYTHING, FLOCK, Attributes, Changes, LockKind
from shares.node.uses import Uses
from shares.protocol import FileId

WHOLE_FILE = (0, (1 << 63) - 1)


class Statics(Naming):
    """The part of Node that is about them. Thread-safe. _look: set where a file is to be closed."""

    _uses: Uses
    _look: threading.Event
    content: Content

    def _unopened(self, file: FileId) -> Attributes:
        """All of them are home's."""
        known = self._names.attributes(file)
        if known is None:
            mark = self._names.mark()
            known = self.ask(lambda hub: hub.attributes(file))
            self._names.learn_attributes(mark, known)
        return replace(known, valid=0.0)

    def is_open(self, file: FileId) -> bool:
        use = self._uses.known(file)
        return use is not None and use.file is not None

    def _static(self, file: FileId, opened: OpenFile) -> Attributes:
        """What block -1 has not."""
        known = opened.attributes
        if known is None:
            mark = self._names.mark()
            known = self.ask(lambda hub: hub.attributes(file))
            self._set_static(opened, mark, known)
        return known

    def _stale(self, file: FileId, name: bytes | None) -> None:
        """Home says that another node changes a name or a file's attributes."""
        if name is not None:
            named = self._names.named(file, name)
            self._names.changed(file, name)
            self.forget_static(named)
        elif file == EVERYTHING:
            self._names.forget()
            for known, _ in self._uses.all():
                self.forget_static(known)
        else:
            self._names.attributes_changed(file)
            self._forget_static(file, stays=self.content.relaxed(file))

    def forget_static(self, file: FileId | None) -> None:
        self._forget_static(file, stays=False)

    def _forget_static(self, file: FileId | None, *, stays: bool) -> None:
        """stays: as long as others rest, for whom it opens to read it as it was."""
        use = self._uses.known(file) if file is not None else None
        opened = use.file if use is not None else None
        if use is not None and opened is not None:
            opened.attributes = None
            if use.handles == 0 and not stays:  # it may have lost its last name
                use.leaves = True
                self._look.set()

    def learn_static(self, mark: int, now: Attributes) -> None:
        use = self._uses.known(now.file)
        opened = use.file if use is not None else None
        if opened is not None:
            self._set_static(opened, mark, now)

    def _set_static(self, opened: OpenFile, mark: int, now: Attributes) -> None:
        """Whoever calls them back meanwhile forgets them after this, or is seen here."""
        opened.attributes = now if self._names.steady(mark, opened.file) else None
        if not self._names.steady(mark, opened.file):
            opened.attributes = None

    # Locks.

    def get_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self.hub.get_lock(file_of(handle), owner, start, end, kind)

    def set_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self._uses.of(file_of(handle)).locked = True
        self.hub.set_lock(file_of(handle), owner, start, end, kind, pid, wait)

    def set_file_lock(self, handle: int, owner: int, kind: LockKind, wait: bool) -> None:
        self._uses.of(file_of(handle)).locked = True
        self.hub.set_lock(file_of(handle), owner + FLOCK, *WHOLE_FILE, kind, 0, wait)


def changes_nothing(known: Attributes | None, changes: Changes) -> bool:
    """Whether mode and owner are these already, so that the time of the status change alone is
    another: as tar(1) and cp(1) do with each file. A change of the owner takes some bits away."""
    if known is None or known.mode & (stat.S_ISUID | stat.S_ISGID):
        return False
    return (
        changes.mode in (None, stat.S_IMODE(known.mode), known.mode)
        and changes.uid in (None, known.uid)
        and changes.gid in (None, known.gid)
    )
