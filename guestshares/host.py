# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is below /satchel in a replica's guest: who answers for it, and how long.

The guest's part of a mount is in the machine, and so in its checkpoint. The host's part is made
anew wherever the machine runs: a line to the guest's port, and behind it a session of a share host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, cast

from guestshares.calls import CallHost, Calls
from guestshares.line import SharesLine
from replay import AgentChannel
from satchel.errors import UnavailableError, UnsupportedError
from satchel.ids import OperationNumber
from shares.fuse import RelayedSession
from shares.node import Attributes, Changes, DirEntry, Handle, Member, Operations
from shares.protocol import FileId

PERMISSIONS, SET_IDS = 0o777, 0o6000
"""The bits of a mode that a guest may set, and those of programs with another user's rights."""

SETTLE_SECONDS = 20.0
"""How long a checkpoint waits for what the guest has asked of its shares."""


class SharesUnserved(UnsupportedError):
    """The machine has shares, and the caller provides none for it."""


class SharesBusy(UnavailableError):
    """The guest has waited too long for its shares and cannot be frozen: its pending calls would
    run twice."""


class ServedSession(Protocol):
    """A session that is answered."""

    def close(self) -> None:
        """Return when nothing more is answered. Idempotent."""


class ShareHost(Protocol):
    """Answers for the shares of guests. Thread-safe."""

    def check(self) -> None:
        """Raise what `serve` would, as far as it is known before the machine runs."""

    def serve(self, session: socket.socket) -> ServedSession:
        """Answer a kernel's FUSE messages, FUSE_INIT first, on that socket, which stays the
        caller's and is closed after what is returned. Raises UnavailableError."""


class MemberHost:
    """A share host that is a node of a share, one for each guest, and only while it serves. See
    ShareHost."""

    def __init__(self, join: Callable[[Path], Member], folder: Path) -> None:
        """join: a new node, with its copies in that new folder. folder: for such folders."""
        self._join, self._folder = join, folder

    def check(self) -> None:
        """Only joining tells."""

    def serve(self, session: socket.socket) -> ServedSession:
        folder = Path(tempfile.mkdtemp(prefix="node-", dir=_made(self._folder)))
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            member = self._join(folder)
            undo.callback(member.close)
            undo.callback(_SessionThread(member.node, session).close)
            return _MemberSession(undo.pop_all())


class _MemberSession:
    """A node that is a member for a session."""

    def __init__(self, leave: contextlib.ExitStack) -> None:
        self._leave = leave

    def close(self) -> None:
        self._leave.close()


class _SessionThread:
    """A session on a thread of its own."""

    def __init__(self, tree: Operations, session: socket.socket) -> None:
        guest = cast(Operations, GuestOperations(tree))
        self._session = RelayedSession(guest, session.fileno())
        self._thread = threading.Thread(target=self._session.run, name="guest's shares")
        self._thread.start()

    def close(self) -> None:
        self._session.stop()
        self._thread.join()


class GuestShares:
    """The shares of one machine, served. One owner; not thread-safe."""

    def __init__(self, line: SharesLine, served: ServedSession) -> None:
        self._line = line
        self._served = served

    @classmethod
    def attach(
        cls, path: Path, agent: AgentChannel, host: ShareHost, counts: Path | None = None
    ) -> GuestShares:
        """From now on `host` answers for the machine whose shares' port is at `path`.

        counts: see CallHost.serve. Raises SharesGone, what the agent's channel raises, and what
        `host` does.
        """
        line = SharesLine.attach(path, agent, operations=isinstance(host, CallHost))
        try:
            if isinstance(host, CallHost):
                served: ServedSession = host.serve(line.session, counts)
            else:
                served = host.serve(line.session)
        except BaseException:
            line.close()
            line.session.close()
            raise
        return cls(line, served)

    @property
    def failure(self) -> str | None:
        """Why the guest gets no answers any more; None while it does."""
        return self._line.failure

    def reading(self) -> AbstractContextManager[None]:
        """What the guest asks meanwhile is part of no operation."""
        return self._served.reading() if isinstance(self._served, Calls) else nullcontext()

    def finished(self, operation: OperationNumber) -> None:
        """The guest has executed that operation."""
        if isinstance(self._served, Calls):
            self._served.finished(operation)

    def settle(self, agent: AgentChannel) -> None:
        """All that the guest has asked is answered, and it asks nothing more until `go_on`. Raises
        SharesBusy; then it goes on. Those who wait for a lock may wait on."""
        if not agent.settle_shares(SETTLE_SECONDS):
            self.go_on(agent)
            raise SharesBusy(
                "the guest cannot be frozen",
                why=f"its shares have not answered for {SETTLE_SECONDS:g} s",
                fix="look whether home is reached",
            )

    def go_on(self, agent: AgentChannel) -> None:
        """The end of `settle`."""
        agent.resume_shares()

    def close(self) -> None:
        """Answer nothing more. What the guest waits for it asks again of the next host."""
        self._line.close()
        self._served.close()
        self._line.session.close()


class GuestOperations:
    """A tree as a guest sees it: its kernel keeps neither names, attributes nor content, so what it
    asks follows from what its programs do, and nobody has to tell it what others change.

    Files that it makes belong to whoever owns the folder, and it gives no file away: its users are
    not home's. Modes have the bits of 0777. Whatever is not here is as in the tree itself.
    """

    def __init__(self, tree: Operations) -> None:
        self._tree = tree

    def __getattr__(self, name: str) -> object:
        return getattr(self._tree, name)

    def set_mark(self, file: FileId, name: bytes, value: bytes | None) -> None:
        """What a program says of a file would count for its service's node, here and there."""
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        return _unkept(self._tree.lookup(parent, name))

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        return dataclasses.replace(self._tree.attributes(file, handle), valid=0.0)

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        if changes.uid is not None or changes.gid is not None:
            now = self._tree.attributes(file, handle)
            if changes.uid not in (None, now.uid) or changes.gid not in (None, now.gid):
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            changes = dataclasses.replace(changes, uid=None, gid=None)
        if changes.mode is not None:
            changes = dataclasses.replace(changes, mode=changes.mode & PERMISSIONS)
        return dataclasses.replace(self._tree.change(file, changes, handle), valid=0.0)

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> DirEntry:
        plain = mode & PERMISSIONS
        return _unkept(self._tree.make_folder(parent, name, plain, *self._owner(parent)))

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> DirEntry:
        return _unkept(self._tree.make_link(parent, name, target, *self._owner(parent)))

    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry:
        if self._tree.attributes(file, None).mode & SET_IDS:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        return _unkept(self._tree.link(file, parent, name))

    def open(self, file: FileId, flags: int) -> Handle:
        return _direct(self._tree.open(file, flags))

    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]:
        plain = mode & PERMISSIONS
        entry, handle = self._tree.create(parent, name, plain, flags, *self._owner(parent))
        return _unkept(entry), _direct(handle)

    def entries(self, folder: FileId) -> list[DirEntry]:
        return [_unkept(entry) for entry in self._tree.entries(folder)]

    def _owner(self, folder: FileId) -> tuple[int, int]:
        attributes = self._tree.attributes(folder, None)
        return attributes.uid, attributes.gid


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _unkept(entry: DirEntry) -> DirEntry:
    attributes = dataclasses.replace(entry.attributes, valid=0.0)
    return dataclasses.replace(entry, attributes=attributes, valid=0.0)


def _direct(handle: Handle) -> Handle:
    return Handle(handle.number, direct=True)
