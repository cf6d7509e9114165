# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is done for a preloaded program that asks, on a node."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable

from satchel.errors import IntegrityError
from shares.node import Attributes, Changes, LockKind, Node
from shares.node.opened.handles import number
from shares.preload import messages
from shares.preload.messages import Op, Request
from shares.preload.places import Places
from shares.preload.stand_ins import StandIns
from shares.protocol import FileId

FOLLOWS = 1
"""A bit of `flags`, of requests by a path that change what it leads to."""

OMIT = -2
APPENDED = -1
RENAME_FLAGS = 3
LAST = (1 << 63) - 1

_LOCK = struct.Struct("@hhqqi4x")
_KINDS = {fcntl.F_RDLCK: LockKind.READ, fcntl.F_WRLCK: LockKind.WRITE}
_TYPES = {LockKind.READ: fcntl.F_RDLCK, LockKind.WRITE: fcntl.F_WRLCK}


class Answers:
    """Of one node. Thread-safe.

    owners: numbers of processes that may have locks, with the files
    """

    def __init__(
        self, node: Node, root: bytes, stand_ins: StandIns, *, through: bool = False
    ) -> None:
        """through: home has what a program writes before it is answered."""
        self._node, self._through = node, through
        self._places = Places(node, root)
        self._stand_ins = stand_ins
        self.owners: set[tuple[int, FileId]] = set()
        self._acts: dict[Op, Callable[[Request], bytes]] = {
            Op.OPEN: self._open,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.STAT: lambda r: messages.reply(data=messages.status(self._at(r))),
            Op.STAT_FILE: lambda r: messages.reply(data=messages.status(self._at(r))),
            Op.FLUSH: self._flush,
            Op.SYNC: self._sync,
            Op.MODE: lambda r: self._change(r, Changes(mode=r.first & 0o7777)),
            Op.OWNER: lambda r: self._change(r, Changes(uid=_same(r.first), gid=_same(r.second))),
            Op.SIZE: lambda r: self._change(r, Changes(size=_size(r.first))),
            Op.TIMES: self._times,
            Op.LIST: self._list,
            Op.MAKE_FOLDER: self._make_folder,
            Op.REMOVE_FOLDER: self._remove_folder,
            Op.UNLINK: self._unlink,
            Op.RENAME: self._rename,
            Op.LINK: self._link,
            Op.SYMLINK: self._symlink,
            Op.READ_LINK: self._read_link,
            Op.MARK: self._mark,
            Op.LOCK: self._locked,
            Op.ALLOCATE: self._allocate,
        }

    def answer(self, request: Request) -> bytes:
        """The reply's frame. Raises IntegrityError for what cannot be meant."""
        try:
            return self._acts[request.op](request)
        except OSError as error:
            return messages.reply(error=error.errno or errno.EIO)
        except (OverflowError, ValueError):
            return messages.reply(error=errno.EINVAL)

    # Files.

    def _open(self, request: Request) -> bytes:
        flags = request.flags
        follow = not flags & (os.O_NOFOLLOW | os.O_EXCL)
        place = self._places.find(request.path, follow=follow)
        if place.found is None and flags & os.O_CREAT:
            mode = request.first & 0o7777
            entry, _ = self._node.create(place.parent, place.name, mode, flags, *_owner())
            return self._opened(entry.attributes.file)
        found = place.require()
        if flags & os.O_EXCL and flags & os.O_CREAT:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if stat.S_ISDIR(found.mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        require_access(found, flags)
        self._node.open(found.file, flags)
        return self._opened(found.file)

    def _opened(self, file: FileId) -> bytes:
        """One handle of the node's stays, however many programs have the file open."""
        if self._stand_ins.open(file):
            self._node.release(number(file, os.O_RDWR), 0)
        return messages.reply(file)

    def _read(self, request: Request) -> bytes:
        handle = number(_file(request), os.O_RDONLY)
        size = min(_size(request.second), messages.MOST)
        return messages.reply(data=self._node.read(handle, _size(request.first), size))

    def _write(self, request: Request) -> bytes:
        file = _file(request)
        if request.first == APPENDED:
            self._node.write(number(file, os.O_RDWR | os.O_APPEND), 0, request.data)
            value = self._node.attributes(file, None).size
        else:
            value = self._node.write(number(file, os.O_RDWR), _size(request.first), request.data)
        if self._through:
            self._node.give_up(file)
        return messages.reply(value)

    def _flush(self, request: Request) -> bytes:
        file = _file(request)
        self._node.flush(number(file, request.flags), request.first)
        return messages.reply()

    def _sync(self, request: Request) -> bytes:
        self._node.sync(number(_file(request), request.flags), False)
        return messages.reply()

    def _allocate(self, request: Request) -> bytes:
        """flags: the mode of fallocate(2)."""
        handle = number(_file(request), os.O_RDWR)
        self._node.allocate(handle, request.flags, request.first, request.second)
        return messages.reply()

    def _locked(self, request: Request) -> bytes:
        """A record lock of the process `second`; lock: struct flock of the C library."""
        file, owner = _file(request), request.second
        try:
            kind, whence, start, length, _ = _LOCK.unpack(request.data)
        except struct.error as error:
            raise IntegrityError("a program's lock is none", why=str(error)) from error
        if whence != os.SEEK_SET:
            raise OSError(errno.EINVAL, "locks count from the beginning of a file")
        end = start + length - 1 if length else LAST
        wanted = _KINDS.get(kind, LockKind.UNLOCK)
        handle = number(file, os.O_RDWR)
        if request.first == fcntl.F_GETLK:
            found = self._node.get_lock(handle, owner, start, end, wanted)
            packed = _LOCK.pack(fcntl.F_UNLCK, whence, start, length, 0)
            if found is not None:
                size = 0 if found[1] == LAST else found[1] - found[0] + 1
                packed = _LOCK.pack(_TYPES[found[2]], 0, found[0], size, found[3])
            return messages.reply(data=packed)
        self.owners.add((owner, file))
        wait = request.first == fcntl.F_SETLKW
        self._node.set_lock(handle, owner, start, end, wanted, owner, wait)
        return messages.reply(data=request.data)

    def forget(self, owner: int) -> None:
        """That process is no more."""
        for each in [each for each in self.owners if each[0] == owner]:
            self.owners.discard(each)
            self._node.hub.forget_locks(each[1], owner)

    # Attributes.

    def _at(self, request: Request) -> Attributes:
        if request.file:
            return self._node.attributes(FileId(request.file), None)
        return self._places.find(request.path, follow=bool(request.flags & FOLLOWS)).require()

    def _change(self, request: Request, changes: Changes) -> bytes:
        self._node.change(self._at(request).file, changes, None)
        return messages.reply()

    def _times(self, request: Request) -> bytes:
        accessed, modified = (None if t == OMIT else t for t in (request.first, request.second))
        return self._change(request, Changes(accessed=accessed, modified=modified))

    def _mark(self, request: Request) -> bytes:
        """flags: 1 takes the mark away."""
        name, _, value = request.data.partition(b"\0")
        found = self._places.find(request.path, follow=True).require()
        self._node.set_mark(found.file, name, None if request.flags else value)
        return messages.reply()

    # Names.

    def _list(self, request: Request) -> bytes:
        found = self._places.find(request.path, follow=True).require()
        if not stat.S_ISDIR(found.mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return messages.reply(data=messages.listing(self._node.entries(found.file)))

    def _make_folder(self, request: Request) -> bytes:
        parent, name = self._new(request.path)
        self._node.make_folder(parent, name, request.first & 0o7777, *_owner())
        return messages.reply()

    def _remove_folder(self, request: Request) -> bytes:
        place = self._places.find(request.path, follow=False)
        place.require()
        self._node.remove_folder(place.parent, place.name)
        return messages.reply()

    def _unlink(self, request: Request) -> bytes:
        place = self._places.find(request.path, follow=False)
        if stat.S_ISDIR(place.require().mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._node.unlink(place.parent, place.name)
        return messages.reply()

    def _rename(self, request: Request) -> bytes:
        old = self._places.find(request.path, follow=False)
        old.require()
        new = self._places.find(request.data, follow=False)
        flags = request.flags & RENAME_FLAGS
        self._node.rename(old.parent, old.name, new.parent, new.name, flags)
        return messages.reply()

    def _link(self, request: Request) -> bytes:
        found = self._places.find(request.path, follow=bool(request.flags & FOLLOWS)).require()
        parent, name = self._new(request.data)
        self._node.link(found.file, parent, name)
        return messages.reply()

    def _symlink(self, request: Request) -> bytes:
        parent, name = self._new(request.path)
        self._node.make_link(parent, name, request.data, *_owner())
        return messages.reply()

    def _read_link(self, request: Request) -> bytes:
        found = self._places.find(request.path, follow=False).require()
        if not stat.S_ISLNK(found.mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return messages.reply(data=self._node.read_link(found.file))

    def _new(self, path: bytes) -> tuple[FileId, bytes]:
        place = self._places.find(path, follow=False)
        if place.found is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        return place.parent, place.name


def require_access(found: Attributes, flags: int) -> None:
    """That this process's user may open it so. Raises PermissionError."""
    if os.geteuid() == 0:
        return
    shift = 6 if found.uid == os.geteuid() else 3 if found.gid in os.getgroups() else 0
    access = flags & os.O_ACCMODE
    wanted = {os.O_RDONLY: 4, os.O_WRONLY: 2}.get(access, 6)
    if found.mode >> shift & wanted != wanted:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _file(request: Request) -> FileId:
    if not request.file:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return FileId(request.file)


def _size(value: int) -> int:
    if value < 0:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return value


def _same(number_: int) -> int | None:
    return None if number_ < 0 else number_


def _owner() -> tuple[int, int]:
    return os.geteuid(), os.getegid()
