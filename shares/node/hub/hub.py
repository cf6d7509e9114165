# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The calls between a node and home: the one table that both sides use.

Home answers in `shares/home/calls.py`. The bytes are in docs/formats/share-messages.md.
"""

# mypy: disable-error-code="empty-body"
# BlockingCall and OneWayCall take only the signatures.

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from satchel.errors import IntegrityError
from shares.context import Succession
from shares.node.hub import codec
from shares.node.hub.calls import BlockingCall, Call, HomeLink, OneWayCall, Wait, refusal
from shares.node.hub.losses import NodeLoss
from shares.node.operations import Attributes, Changes, DirEntry, FileSystemUsage, LockKind
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
class OpenReply:
    """native: this node alone uses the file, so no write needs a message until Engage comes.
    Then it names what it has written, and owns that.

    relaxation: seconds; policy: the name of the share's, or the file's, coherence policy
    log: what becomes of writes at the owner: `sync`, at home before the write returns; `async`,
    soon; `off`
    grant: the number under which a native file is written; else the last such number of the file.
    Engage and NativeGrant have one too: those of the same or a greater one, handled before this,
    are later than this
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
class PendingCreate:
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
class NewEntry:
    """A name that the node has made or moved.

    folder: attributes of the folder that has it, after that, promised where their `valid` says so;
    None where home cannot tell. empty: the entry is a folder that has no names, which is promised.
    own: folders that are the node's own from now on; only of a node that has asked for `ids`
    """

    entry: DirEntry
    folder: Attributes | None
    empty: bool = False
    own: tuple[OwnFolder, ...] = ()


@dataclass(frozen=True)
class RemovedEntry:
    """A name that the node has taken away.

    folder: attributes of the folder that had it, as those of NewEntry; file: those of what it
    named, where that has another name and home promises them
    """

    folder: Attributes | None
    file: Attributes | None = None


@dataclass(frozen=True)
class LeaseGrant:
    """Home's answer to a heartbeat. seconds: for how many from when that was said the node's strong
    copies are good; taken_over: as `beat` says. conflicts: paths of new conflict copies that have
    this node's content"""

    seconds: float
    taken_over: list[NodeLoss]
    conflicts: list[bytes]


class Notices:
    """The calls of home at a node, which Hub.listen describes."""

    @Call
    def stale(self, file: FileId, name: bytes | None) -> None: ...

    @Call
    def disown(self, folder: FileId) -> None: ...


class Hub:
    """Home, at the other end of a link. Thread-safe.

    Calls block, but for those that are OneWayCall. They raise OSError: with an errno of home's if
    it refuses (ENOENT, EEXIST, EACCES, ENOSPC ...), EIO with the cause if home is not reached or
    says something malformed.

    node: as home numbered it when it joined
    """

    def __init__(self, channel: HomeLink, node: NodeId) -> None:
        self.channel, self.node = channel, node

    def post(
        self,
        message: Message,
        arrived: Callable[[Message], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        """Send a request about blocks or, without `arrived`, a message that has no reply (Log, with
        a lag). Never wait, and never call back before the return: a node posts with its lock held,
        so that the order of messages is the order of its decisions.

        arrived: is called with the reply before anything that home sent later is handled, on the
        thread that calls `listen`'s callbacks. It must take up the grants of the reply itself: on
        the thread that asked, an Invalidate could overtake them. failed: is called instead if no
        reply will come.
        """

        def take(payload: bytes) -> None:
            try:
                codec.raise_refusal(payload)
                reply = codec.decode(payload)
            except (OSError, IntegrityError) as error:
                if failed is not None:
                    failed(refusal(error))
                return
            if arrived is not None:
                arrived(reply)

        self.channel.post(codec.encode(message), take if arrived is not None else None, failed)

    @property
    def connected(self) -> bool:
        """Whether home is reached now. While it is not, requests wait."""
        return self.channel.connected

    def wait(self) -> Wait:
        """Begin to count the time of a wait for home."""
        return self.channel.wait()

    def ping(self, heard: Callable[[], None]) -> None:
        """Call `heard` when home has heard this ping: the strong copies are then good for a lease
        from the time of this call. Ping and answer overtake everything that waits in either
        direction. If the connection ends before, `heard` is not called. Never wait."""
        self.channel.ping(heard)

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
        disown: Callable[[FileId, Callable[[], None]], None],
    ) -> None:
        """Set the callbacks for home's requests. They are called on one thread, in the order of
        arrival, and must not ask home anything.

        answer: gets Invalidate, Recall, Update, Engage or NativeGrant, and a function for the
        reply. It calls that once, now or later, on any thread: a block in the middle of a write is
        given up when the write is over, without a delay of later requests. stale: another node
        changes a name in a folder (None: a file's attributes); the file EVERYTHING means that home
        has forgotten all promises to this node. Home waits until it returns. disown: home is about
        to show the folder to another node; the function is to be called when this node makes
        nothing ahead in the folder any more, and home has answered all that it made.
        """

        def take(payload: bytes, reply: Callable[[bytes], None]) -> None:
            try:
                act(payload, reply)
            except IntegrityError as error:
                reply(codec.encode_refusal(OSError(errno.EINVAL, str(error))))

        def act(payload: bytes, reply: Callable[[bytes], None]) -> None:
            if not codec.is_call(payload):
                answer(codec.decode(payload), lambda message: reply(codec.encode(message)))
                return
            name, values = codec.decode_call(payload)
            if name == Notices.stale.name:
                stale(*Notices.stale.arguments(values))
                reply(codec.encode_result(None))
            elif name == Notices.disown.name:
                (folder,) = Notices.disown.arguments(values)
                disown(folder, lambda: reply(codec.encode_result(None)))
            else:
                raise IntegrityError("unknown call of home", why=name)

        self.channel.serve(take)

    @OneWayCall
    def beat(self, since: float) -> LeaseGrant:
        """Renew the lease. A node does so every third of the lease, or of the relaxation, once the
        last beat is answered. since: home lists the nodes that it has lost after that time (`at`)
        and still remembers. The answer comes in its order among home's messages; home then has all
        that was posted before the beat."""

    @BlockingCall
    def leave(self) -> None:
        """Tell home that this node has given everything back. Without this, home waits until the
        lease is over."""

    @BlockingCall
    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        """Return an entry. Here and below, a `valid` greater than 0 is a promise of home: it calls
        `stale` before the name means another file, or before the attributes change. The promise
        holds as long as the lease. ENOENT is always such a promise."""

    @BlockingCall
    def attributes(self, file: FileId) -> Attributes: ...

    @BlockingCall
    def change(self, file: FileId, changes: Changes) -> Attributes:
        """Change attributes. If the node has the file open, only mode, uid, gid and a smaller size:
        it writes times and a greater size into block -1. It does so also with a smaller size of a
        native file if it wrote zeros to the end before (`MachineCopies.cut`).

        For size or times, home takes block -1 from every node before it answers, also from the
        caller and from an owner. For a size it also takes the block of the cut, with Recall, and
        later blocks, with Invalidate: copies of those are lost.
        """

    @BlockingCall
    def allocate(self, file: FileId, mode: int, offset: int, length: int) -> None:
        """Allocate as fallocate(2) does. The node has the file open to write. KEEP_SIZE: reserve
        room on home's disk for these bytes, as long as they are in the file. With PUNCH_HOLE or
        ZERO_RANGE also make them zeros: home takes their blocks and block -1 from every node before
        it answers, also from the caller and from an owner. It uses Invalidate if all of a block is
        zeros, else Recall. The node writes the times into block -1."""

    @BlockingCall
    def seek(self, file: FileId, offset: int, whence: int) -> int:
        """Return where the next content (SEEK_DATA) or hole (SEEK_HOLE) is, at or after `offset`.
        Blocks that other nodes own count as content. The node has given home its writes before.
        Raises ENXIO after the last content. After the end of home's own file all is a hole."""

    @BlockingCall
    def read_link(self, file: FileId) -> bytes: ...

    @BlockingCall
    def make_folder(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int
    ) -> NewEntry: ...

    @BlockingCall
    def make_link(
        self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int
    ) -> NewEntry: ...

    @BlockingCall
    def link(self, file: FileId, parent: FileId, name: bytes) -> NewEntry: ...

    @BlockingCall
    def unlink(self, parent: FileId, name: bytes) -> RemovedEntry: ...

    @BlockingCall
    def remove_folder(self, parent: FileId, name: bytes) -> RemovedEntry: ...

    @BlockingCall
    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> tuple[Attributes | None, NewEntry]:
        """Return the attributes of the folder that had the name, and the new name."""

    @BlockingCall
    def entries(self, folder: FileId, most: int) -> list[DirEntry]:
        """Return all names. Raises EOVERFLOW if the folder has more than `most`; 0: no limit."""

    @BlockingCall
    def usage(self) -> FileSystemUsage: ...

    @BlockingCall
    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[NewEntry, OpenReply]:
        """Make a file and open it. If no other node has it open it is native: the node owns block
        -1 and all others, and its first write asks nothing."""

    @OneWayCall
    def ids(self) -> tuple[FileId, int]:
        """Get ids for files that this node will make ahead, and so folders of its own: the first,
        and how many. EOPNOTSUPP if home gives none."""

    @OneWayCall
    def make(self, making: PendingCreate) -> tuple[NewEntry, OpenReply]:
        """Report a file that this node made in its own folder, and opened as by `create`. Home
        makes it before it handles later messages of this node. The answer is handled before later
        messages of home; None comes on any thread."""

    @OneWayCall
    def make_again(self, making: PendingCreate) -> int:
        """Report in the next membership, before bringing content, a file that the last one has not
        answered. Home makes it if it does not exist, without opening it. The answer is the grant
        under which home believes the content to be written, and comes as that of `make`."""

    @BlockingCall
    def open(self, file: FileId, writes: bool, cut: bool) -> OpenReply:
        """Open a file. A node opens it once for all handles of its programs, and again for the
        first one that may write. cut: make it empty before, as `change` does."""

    @BlockingCall
    def mark(self, file: FileId, mark: str) -> None:
        """Mark a file; "" removes the mark. Raises EBUSY for PRIVATE if another node has it open,
        and for IMMUTABLE if any node has it open to write; EACCES if it is private to another."""

    @BlockingCall
    def open_all(self, files: list[FileId]) -> list[OpenReply | None]:
        """Open files to read ahead of programs, at most OPENED_AHEAD with one request. The result
        is None for a file that another node has open, or that cannot be opened."""

    @OneWayCall
    def succeeded(self, seen: list[Succession]) -> list[Succession]:
        """Report which files were opened after which. The answer is home's knowledge of that, the
        latest first, at most SUCCESSIONS. It comes on any thread."""

    @OneWayCall
    def written(self, file: FileId) -> Attributes | None:
        """Report that no program here writes the file any more, until it is opened to write again.
        The node has posted their writes before, and home answers its later requests after this one.
        The answer is the attributes that home promises from now on (for a native file: those that
        hold), or None; it is handled before later messages of home."""

    @OneWayCall
    def close(self, file: FileId) -> Attributes | None:
        """Close a file. The node has released its blocks before, and home answers its later
        requests, also an open of this file, after this one. The answer is the file's attributes if
        home promises them, or None; it comes on any thread."""

    @BlockingCall
    def sync(self, file: FileId) -> None:
        """Return when home's content of the file is durable; for a folder, its names."""

    @BlockingCall
    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None: ...

    @BlockingCall
    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        """Set a lock. The node numbers its owners. A flock(2) lock covers the whole file, with
        FLOCK added to the owner."""

    @BlockingCall
    def forget_locks(self, file: FileId, owner: int) -> None: ...
