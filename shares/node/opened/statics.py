# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes that block -1 of a file that is open here has not: mode, owner, links. And what
becomes of such a file when home calls them back."""

from __future__ import annotations

from collections.abc import Callable

from shares.node.content.access import OpenFile
from shares.node.hub.current_hub import CurrentHub
from shares.node.names.names import NameCache
from shares.node.opened.uses import FileUses
from shares.node.operations import EVERYTHING, Attributes
from shares.protocol import FileId


class Statics:
    """Of one node. Thread-safe."""

    def __init__(
        self, home: CurrentHub, names: NameCache, uses: FileUses, relaxed: Callable[[FileId], bool]
    ) -> None:
        """relaxed: whether programs may read a file as it was some time ago"""
        self._home, self._names, self._uses, self._relaxed = home, names, uses, relaxed

    def of(self, opened: OpenFile) -> Attributes:
        known = opened.attributes
        if known is None:
            mark = self._names.mark()
            known = self._home.ask(lambda hub: hub.attributes(opened.file))
            self.set(opened, mark, known)
        return known

    def set(self, opened: OpenFile, mark: int, now: Attributes) -> None:
        """They were these, as home said, at that mark of names. Whoever calls them back meanwhile
        forgets them after this, or is seen here."""
        opened.attributes = now if self._names.steady(mark, opened.file) else None
        if not self._names.steady(mark, opened.file):
            opened.attributes = None

    def learn(self, mark: int, now: Attributes) -> None:
        """As `set`, of a file that may be open here."""
        use = self._uses.known(now.file)
        opened = use.file if use is not None else None
        if opened is not None:
            self.set(opened, mark, now)

    def forget(self, file: FileId | None, *, stays: bool = False) -> None:
        """They are others. A file that nobody uses is given up, since it may have lost its last
        name. stays: as long as others rest, for whom it opens to read it as it was."""
        use = self._uses.known(file) if file is not None else None
        opened = use.file if use is not None else None
        if use is not None and opened is not None:
            opened.attributes = None
            if use.handles == 0 and not stays:
                self._uses.leave(use)

    def stale(self, file: FileId, name: bytes | None) -> None:
        """Home says that another node changes a name or a file's attributes."""
        if name is not None:
            named = self._names.named(file, name)
            self._names.changed(file, name)
            self.forget(named)
        elif file == EVERYTHING:
            self._names.forget()
            for known, _ in self._uses.all():
                self.forget(known)
        else:
            self._names.attributes_changed(file)
            self.forget(file, stays=self._relaxed(file))
