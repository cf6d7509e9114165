# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node asks of home. Home's own node has one too, without a wire between.

Errors: OSError with an errno where home refuses (ENOENT, EEXIST, EACCES, ENOSPC ...), and
OSError(EIO) with the cause where home is not reached. Thread-safe; calls block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shares.coherence import FileId, Message, NodeId
from shares.nodes.operations import Attributes, Changes, Entry, LockKind, NameCalls, Usage


@dataclass(frozen=True)
class Opened:
    """native: this node alone uses the file, so no write needs a message until Engage comes.
    Then it names what it has written, and owns that.

    relaxation: seconds; policy: the name of the share's, or the file's, coherence policy
    log: what becomes of writes at the owner: `sync`, at home before the write returns; `async`,
    soon; `off`
    grant: the number under which a native file is written
    """

    attributes: Attributes
    native: bool
    relaxation: float
    policy: str
    log: str = "async"
    grant: int = 0


class Hub(NameCalls, Protocol):
    """A node's connection to home.

    node: as home numbered it when it joined
    """

    node: NodeId

    def post(
        self,
        message: Message,
        arrived: Callable[[Message], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        """Send a request about blocks or, without `arrived`, what has no reply (Log, with a lag).
        Never waits and never calls back before it returns: a node posts with its lock held, so
        that what a message says fits its place in the stream.

        arrived: is called with the reply before anything is handed on that home sent after it,
        and so on the thread that `listen`'s callbacks are called on. What a reply grants is taken
        up here: were it taken up by the thread that asked, an Invalidate could overtake it.
        failed: is called instead where there will be no reply.
        """
        ...

    @property
    def connected(self) -> bool:
        """Whether home is reached now. While it is not, requests wait."""
        ...

    def beat(self, heard: Callable[[], None]) -> float:
        """Tell home that this node is there: for how many seconds from when this was called its
        strong copies are good. A node calls it every third of that, or of the relaxation. heard:
        is called when home's answer comes, after all that home said before it, before the rest."""
        ...

    def leave(self) -> None:
        """This node has given back what it had. Without this home waits until its lease is over."""
        ...

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
    ) -> None:
        """Who answers what home asks. Called on one thread, in the order of arrival, and so must
        not ask home anything itself.

        answer: Invalidate, Recall, Update, Engage, Native; it is handed a function for the reply,
        to be called once, now or later, on any thread: a block in the middle of a write is given
        when that is over, and what comes meanwhile is not held up. stale: a folder's name (or,
        None, a file's attributes) is changed by another node; file EVERYTHING: home does not
        remember what this node knows. It is told until it has returned from that.
        """
        ...

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        """Here and below, `valid` greater than 0 is a promise of home's: of an entry, that this
        node is told `stale` before the name is another's; of attributes, before they are others.
        It holds as long as the lease. That a name is not there is always promised."""
        ...

    def attributes(self, file: FileId) -> Attributes: ...
    def change(self, file: FileId, changes: Changes) -> Attributes:
        """Whatever is to be changed of what the node has not open. Of a file that it has open:
        mode, uid, gid, and a size that is smaller than the file's; times and a greater size are
        what the node writes into block -1.

        size, times: home has taken block -1 from every node, the asking one and an owner included,
        before it answers; for a size also the block of the cut, with Recall, and those behind it,
        with Invalidate. What nodes held behind the cut is gone.
        """
        ...

    def entries(self, folder: FileId, most: int) -> list[Entry]:
        """All names. Raises EOVERFLOW where there are more than `most`; 0: as many as there are."""
        ...

    def usage(self) -> Usage: ...
    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Entry, Opened]:
        """Make a file and open it in one."""
        ...

    def open(self, file: FileId, writes: bool) -> Opened:
        """A node opens a file once, however many handles its programs have; again when it is the
        first time that one of them may write."""
        ...

    def written(self, file: FileId) -> None:
        """No program here writes it any more, until it is opened to write again. Home has what
        they wrote."""
        ...

    def close(self, file: FileId) -> Attributes | None:
        """What the node owned of it has been released before. Its attributes, where home promises
        them."""
        ...

    def sync(self, file: FileId) -> None:
        """Returns when what home has of the file is durable."""
        ...

    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None: ...
    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        """`owner` is the node's; flock(2) locks are those of the whole file with FLOCK added to the
        owner."""
        ...

    def forget_locks(self, file: FileId, owner: int) -> None: ...
