# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a node has home open files."""

from __future__ import annotations

from shares.node.content.access import OpenFile
from shares.node.content.content import Content
from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import Hub, OpenReply
from shares.node.names.names import NameCache
from shares.node.opened.filemarks import FileMarks
from shares.node.opened.heartbeat import Heartbeat
from shares.node.opened.statics import Statics
from shares.node.opened.uses import FileUse
from shares.protocol import FileId


class Opener:
    """Of one node. With the lock of the file's use held."""

    def __init__(
        self,
        home: CurrentHub,
        names: NameCache,
        content: Content,
        statics: Statics,
        marks: FileMarks,
        heartbeat: Heartbeat,
    ) -> None:
        self._home, self._names, self._content = home, names, content
        self._statics, self._marks, self._heartbeat = statics, marks, heartbeat

    def open(self, file: FileId, use: FileUse, *, writes: bool, cut: bool = False) -> OpenFile:
        """cut: home makes it empty before; that is asked once, or what others write after it might
        be cut off as well."""
        table = self._content.table
        remembered = None if writes or use.file else self._names.attributes(file)
        mark = self._names.opening(file)

        def uncut(hub: Hub) -> tuple[Hub, OpenReply]:
            if remembered is not None:
                table.ask_ahead(file, remembered, hub)
            return hub, hub.open(file, writes, False)

        with table.opening(file):
            try:
                if cut:
                    hub = self._home.get()
                    table.expect_cut(file)
                    opened = hub.open(file, writes, cut)
                else:
                    hub, opened = self._home.ask(uncut)
            except OSError:
                if table.unasked(file):
                    self._home.latest.close(lambda _: None, file)
                if use.file is None:
                    self._names.closed(file)
                self._names.gone(file)  # the kernel looks the name up once more after ESTALE
                raise
            return self.admit(file, use, opened, hub, mark, writes=writes)

    def admit(
        self, file: FileId, use: FileUse, opened: OpenReply, hub: Hub, mark: int, *, writes: bool
    ) -> OpenFile:
        """Home has opened the file for this node."""
        use.file = self._content.table.opened(file, opened, hub)
        self._statics.set(use.file, mark, opened.attributes)
        self._heartbeat.relaxed(opened.relaxation)
        self._marks.opened(file, opened.relaxation, opened.mark)
        use.writes = writes
        return use.file
