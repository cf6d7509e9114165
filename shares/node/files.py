# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files of a share for programs without FUSE: `open_file` is to a node what `open` is to a folder.

    with open_file(node, "notes/today.txt", "a") as file:
        file.write("seen by every node when this has returned from flush\\n")

A raw file (buffering=0) reads and writes at once, as read(2) and write(2) on a mount do. What is
buffered is Python's own: others see it after flush.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import IO, TYPE_CHECKING, Any

from satchel.files import new_mode
from shares.node.node import Node
from shares.node.opened.filemarks import LONGEST, PRIVATE_NAME
from shares.node.opened.handles import reads_from, writes_to
from shares.node.operations import ROOT, Changes, Operations
from shares.protocol import FileId

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_CREAT | os.O_TRUNC,
    "a": os.O_CREAT | os.O_APPEND,
    "x": os.O_CREAT | os.O_EXCL,
}


def find(node: Operations, path: str | bytes) -> FileId:
    """The file of that path below the share's root. Links are not followed. Raises OSError."""
    file = ROOT
    for name in _names(path):
        file = node.lookup(file, name).attributes.file
    return file


def open_file(
    node: Operations,
    path: str | bytes,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    relaxation: float | None = None,
    private: bool = False,
) -> IO[Any]:
    """As the built-in `open`, below the share's root, with line buffering for nobody.

    relaxation: seconds for which what this file object reads may be behind what other nodes write;
    0: it reads the latest, whatever the share says; None: as the share says. It counts for this
    file object alone. Python's own buffer may be as old as the last read that filled it.

    private: no other node may open the file from now on; EBUSY where one has it open.

    Raises OSError, and ValueError for a mode or a relaxation that is none."""
    letters = set(mode)
    kind = letters & set(_FLAGS)
    if len(kind) != 1 or letters - set("rwaxb+t") or len(mode) != len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    binary = "b" in letters
    if (binary and encoding is not None) or (not binary and buffering == 0):
        raise ValueError("binary files have no encoding, text files need a buffer")
    if relaxation is not None and not 0 <= relaxation <= LONGEST:
        raise ValueError(f"a relaxation is seconds, from 0 to {LONGEST:.0f}: {relaxation}")
    raw = RawFile(node, path, _flags(kind.pop(), updates="+" in letters), relaxation)
    if private:
        raw.make_private()
    if buffering == 0:
        return raw  # type: ignore[return-value]
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    buffered: Any
    if raw.readable() and raw.writable():
        buffered = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if binary:
        return buffered  # type: ignore[no-any-return]
    return io.TextIOWrapper(buffered, encoding, errors, newline)


def _flags(kind: str, *, updates: bool) -> int:
    access = os.O_RDWR if updates else os.O_RDONLY if kind == "r" else os.O_WRONLY
    return access | _FLAGS[kind]


class RawFile(io.RawIOBase):
    """An open file of a share. Its position is its own; one thread at a time.

    name: its path below the share's root
    """

    def __init__(
        self,
        node: Operations,
        path: str | bytes,
        flags: int,
        relaxation: float | None = None,
    ) -> None:
        """flags: as of open(2); relaxation: as for open_file, of a node that has it. Raises
        OSError, UnsupportedOperation where there is no such node."""
        self._relaxed = _relaxed(node, relaxation)
        self.name = path
        self._node = node
        self._flags = flags
        self._position = 0
        self._file, self._handle = open_handle(node, path, flags)
        if self._relaxed is not None:
            self._relaxed.watch(self._file, True)
        if flags & os.O_APPEND:
            self._position = self._size()

    def readable(self) -> bool:
        return reads_from(self._flags)

    def writable(self) -> bool:
        return writes_to(self._flags)

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._require(self.readable())
        view = memoryview(buffer).cast("B")
        if self._relaxed is None:
            data = self._node.read(self._handle, self._position, len(view))
        else:
            data = self._relaxed.read(self._handle, self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: ReadableBuffer) -> int:
        self._require(self.writable())
        written = self._node.write(self._handle, self._position, bytes(data))
        self._position += written
        if self._flags & os.O_APPEND:
            self._position = self._size()
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if base is None:
            base = self._size()
        if base + offset < 0:
            raise OSError(errno.EINVAL, "a negative position")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self._require(self.writable())
        wanted = self._position if size is None else size
        self._node.change(self._file, Changes(size=wanted), self._handle)
        return wanted

    def sync(self) -> None:
        """As fsync(2)."""
        self._require(not self.closed)
        self._node.sync(self._handle, data_only=False)

    def make_private(self) -> None:
        """No other node may open it, until `make_shared`. Raises OSError: EBUSY where one has it
        open."""
        _node(self._node).set_mark(self._file, PRIVATE_NAME, b"1")

    def make_shared(self) -> None:
        """Every node may open it again, and sees what was written to it."""
        _node(self._node).set_mark(self._file, PRIVATE_NAME, None)

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                if self._relaxed is not None:
                    self._relaxed.watch(self._file, False)
                self._node.release(self._handle, 0)

    def _size(self) -> int:
        return self._node.attributes(self._file, self._handle).size

    def _require(self, allowed: bool) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not allowed:
            raise io.UnsupportedOperation("not opened for that")


class _RelaxedReads:
    """Reads of one handle that may be old."""

    def __init__(self, node: Node, seconds: float) -> None:
        self._node, self._seconds = node, seconds

    def watch(self, file: FileId, watched: bool) -> None:
        self._node.content.copies.watch(file, watched)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        return self._node.read_relaxed(handle, offset, size, self._seconds)


def _relaxed(node: Operations, relaxation: float | None) -> _RelaxedReads | None:
    return None if relaxation is None else _RelaxedReads(_node(node), relaxation)


def _node(tree: Operations) -> Node:
    if not isinstance(tree, Node):
        raise io.UnsupportedOperation("only a node of a share has that")
    return tree


def open_handle(node: Operations, path: str | bytes, flags: int) -> tuple[FileId, int]:
    """As open(2), below the share's root: the file, and a handle that the caller releases. Links
    are not followed. Raises OSError."""
    *folders, name = _names(path) or [b""]
    parent = find(node, b"/".join(folders))
    try:
        found = node.lookup(parent, name).attributes if name else node.attributes(parent, None)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        owner = os.getuid(), os.getgid()
        entry, handle = node.create(parent, name, new_mode(), flags, *owner)
        return entry.attributes.file, handle.number
    if flags & os.O_EXCL:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not stat.S_ISREG(found.mode):
        number = errno.EISDIR if stat.S_ISDIR(found.mode) else errno.ELOOP
        raise OSError(number, os.strerror(number), path)
    return found.file, node.open(found.file, flags).number


def _names(path: str | bytes) -> list[bytes]:
    return [name for name in os.fsencode(path).split(b"/") if name not in {b"", b"."}]
