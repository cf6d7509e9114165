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

from shares.context import Succession
from shares.node.hub.losses import TakenOver
from shares.node.operations import Attributes, Changes, Entry, LockKind, Usage
from shares.protocol import FileId, Message, NodeId

PRIVATE = "private"
"""The mark of a file that nodes of one name may open and no others."""

IMMUTABLE = "immutable"
"""The mark of a file that nobody may open to write."""

OPENED_AHEAD = 64
"""Files of one `open_all`."""

SUCCESSIONS = 4096
"""Of one answer to `succeeded`."""


@dataclass(frozen=True)
class Opened:
    """native: this node alone uses the file, so no write needs a message until Engage comes.
    Then it names what it has written, and owns that.

    relaxation: seconds; policy: the name of the share's, or the file's, coherence policy
    log: what becomes of writes at the owner: `sync`, at home before the write returns; `async`,
    soon; `off`
    grant: the number under which a native file is written; else the last such number of the file.
    Engage and Native have one too: those of the same or a greater one, handled before this, are
    later than this
    mark: PRIVATE, IMMUTABLE or ""
    """

    attributes: Attributes
    native: bool
    relaxation: float
    policy: str
    log: str = "async"
    grant: int = 0
    mark: str = ""


@dataclass(frozen=True)
class OwnFolder:
    """A folder of which no other node knows anything. Until home says `disown`, or the lease is
    over, the node may make files in it by itself.

    uid, gid: whose they are; None: who makes them
    """

    folder: FileId
    uid: int | None
    gid: int | None


@dataclass(frozen=True)
class Making:
    """A file that a node has made in its own folder, under an id that home had given it for that.

    moment: when the folder was changed by it, in nanoseconds since 1970
    """

    file: FileId
    folder: FileId
    name: bytes
    mode: int
    uid: int
    gid: int
    moment: int


@dataclass(frozen=True)
class Made:
    """A name that the node has made or moved.

    folder: attributes of the folder that has it, after that, promised where their `valid` says so;
    None where home cannot tell. empty: the entry is a folder that has no names, which is promised.
    own: folders that are the node's own from now on; only of a node that has asked for `ids`
    """

    entry: Entry
    folder: Attributes | None
    empty: bool = False
    own: tuple[OwnFolder, ...] = ()


@dataclass(frozen=True)
class Unmade:
    """A name that the node has taken away.

    folder: attributes of the folder that had it, as those of Made; file: those of what it named,
    where that has another name and home promises them
    """

    folder: Attributes | None
    file: Attributes | None = None


@dataclass(frozen=True)
class Lease:
    """Home's answer to a heartbeat. seconds: for how many from when that was said the node's strong
    copies are good; taken_over: as `beat` says"""

    seconds: float
    taken_over: list[TakenOver]


class Hub(Protocol):
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

    def beat(self, since: float, heard: Callable[[Lease | None], None]) -> None:
        """Tell home that this node is there. A node does so every third of the lease, or of the
        relaxation, when the last one is answered. since: home names the nodes that it went on
        without later than that (`at`), those that it still tells of. heard: is called once with
        home's answer, after all that home said before it, before the rest; with None where there
        will be none. What was posted before is at home then. Never waits."""
        ...

    def ping(self, heard: Callable[[], None]) -> None:
        """Find out whether home still hears this node: `heard` is called when it does, as
        `listen`'s callbacks are but ahead of what home says else, and the strong copies are good
        for a lease from when this was called. What waits for its turn, in either direction, holds
        neither up. Not called where the connection ends before. Never waits."""
        ...

    def leave(self) -> None:
        """This node has given back what it had. Without this home waits until its lease is over."""
        ...

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
        disown: Callable[[FileId, Callable[[], None]], None],
    ) -> None:
        """Who answers what home asks. Called on one thread, in the order of arrival, and so must
        not ask home anything itself.

        answer: Invalidate, Recall, Update, Engage, Native; it is handed a function for the reply,
        to be called once, now or later, on any thread: a block in the middle of a write is given
        when that is over, and what comes meanwhile is not held up. stale: a folder's name (or,
        None, a file's attributes) is changed by another node; file EVERYTHING: home does not
        remember what this node knows. It is told until it has returned from that. disown: another
        node is about to be told of the folder; it is handed a function, to be called when nothing
        is made in it ahead any more, and home has answered all that was.
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
        what the node writes into block -1. So is a smaller size of a native file of whose end it
        has written zeros before (`Copies.cut`).

        size, times: home has taken block -1 from every node, the asking one and an owner included,
        before it answers; for a size also the block of the cut, with Recall, and those behind it,
        with Invalidate. What nodes held behind the cut is gone.
        """
        ...

    def allocate(self, file: FileId, mode: int, offset: int, length: int) -> None:
        """As fallocate(2), of a file that the node has open to write. KEEP_SIZE: home's disk has
        room for these bytes, as long as they are in the file. With PUNCH_HOLE or ZERO_RANGE
        besides: they are zeros; home has taken their blocks, and block -1, from every node before
        it answers, the asking one and an owner included, with Invalidate where all of a block is
        zeros and with Recall where not. Times are what the node writes into block -1."""
        ...

    def read_link(self, file: FileId) -> bytes: ...
    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Made: ...
    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Made: ...
    def link(self, file: FileId, parent: FileId, name: bytes) -> Made: ...
    def unlink(self, parent: FileId, name: bytes) -> Unmade: ...
    def remove_folder(self, parent: FileId, name: bytes) -> Unmade: ...
    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> tuple[Attributes | None, Made]:
        """The folder's that had the name, and the new name."""
        ...

    def entries(self, folder: FileId, most: int) -> list[Entry]:
        """All names. Raises EOVERFLOW where there are more than `most`; 0: as many as there are."""
        ...

    def usage(self) -> Usage: ...
    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Made, Opened]:
        """Make a file and open it in one. The node has block -1 and all others, natively, where
        nobody else has the file open: the first write asks nothing."""
        ...

    def ids(self, told: Callable[[FileId, int], None]) -> None:
        """Ask for ids of files that this node is going to make ahead, and so for folders of its
        own. Never waits. told: is called, on any thread, with the first and how many; not where
        home gives none."""
        ...

    def make(
        self,
        making: Making,
        answered: Callable[[tuple[Made, Opened] | OSError | None], None],
    ) -> None:
        """Home is told what was made in the node's own folder, and opened as by `create`. Never
        waits. Home does it before it takes up what the node says after this. answered: is called
        before anything that home sends later is handed on, an OSError where home refuses it; or
        with None, on any thread, where the membership ends before."""
        ...

    def make_again(self, making: Making, answered: Callable[[int | OSError | None], None]) -> None:
        """In the next membership, before content is brought: what the last one has not answered.
        It is made if it is not yet, and not opened. answered: as for `make`, with the grant under
        which home believes the content to have been written."""
        ...

    def open(self, file: FileId, writes: bool, cut: bool) -> Opened:
        """A node opens a file once, however many handles its programs have; again when it is the
        first time that one of them may write. cut: it is made empty before, as by `change`."""
        ...

    def mark(self, file: FileId, mark: str) -> None:
        """Mark a file, or with "" take its mark away. Raises EBUSY for PRIVATE where another node
        has it open, and for IMMUTABLE where any has it open to write; EACCES where it is private to
        another."""
        ...

    def open_all(self, files: list[FileId]) -> list[Opened | None]:
        """Open files to read ahead of programs, at most OPENED_AHEAD with one request. None for a
        file that another node has open, and for one that cannot be opened: it is not open then."""
        ...

    def succeeded(self, seen: list[Succession], told: Callable[[list[Succession]], None]) -> None:
        """Tell home which files were opened after which. told: is called, on any thread, with what
        home knows of files that were opened after others, the latest first; at most SUCCESSIONS.
        Not called where the membership ends before. Never waits."""
        ...

    def written(self, file: FileId, told: Callable[[Attributes | None], None]) -> None:
        """No program here writes it any more, until it is opened to write again. What they wrote
        has been posted before. Never waits: what is asked after this is answered after it. told: is
        called, before anything that home sends later is handed on, with the attributes that home
        promises from now on, which are the file's where it is native; else with None."""
        ...

    def close(self, file: FileId, closed: Callable[[Attributes | None], None]) -> None:
        """What the node owned of it has been released before. Never waits: what is asked after
        this, an open of the same file as well, is answered after it. closed: is called, on any
        thread, with the file's attributes where home promises them, else with None."""
        ...

    def sync(self, file: FileId) -> None:
        """Returns when what home has of the file is durable; of a folder, its names."""
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
