# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The names, attributes and content of a share, on a folder of home's file system.

Names come from other hosts. Nothing here goes by a path: a folder is opened from the folder above
it, links are never followed, and what is mounted below the share is not part of it. So no name and
no link leads out of the share.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shares.home.storage.file_versions import Difference, FileVersions
from shares.home.storage.folder_events import FolderEvents, Kind
from shares.home.storage.index import Index
from shares.home.storage.system_calls import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    FileStatus,
    as_owner,
    fd_path,
    open_content,
    read_only,
    rename,
    status,
)
from shares.node import ROOT, Attributes, Changes, DirEntry, Extent, FileSystemUsage, PendingCreate
from shares.protocol import FileId

FOLDERS_KEPT = 256
"""Folders that are kept open."""

FILES_KEPT = 128
"""Files that are kept open beyond those that nodes have open."""

PIECE = 64
"""Bytes that are written together, or left as they are."""

DEEPEST = 1024
"""Folders one in the other: a deeper one is an index that goes in circles."""

NAME_LIMIT = 255

FORMER_KEPT = 4096
"""Names that other programs have taken from files, by file."""

SET_IDS = stat.S_ISUID | stat.S_ISGID

_PERMISSIONS, _NOW = 0o7777, -1
T = TypeVar("T")


@dataclass
class _File:
    """descriptor: to read, and where home may to write; opened: by how many nodes"""

    descriptor: int
    opened: int = 0


class ChangedOutside(OSError):
    """Another program of home has changed the file since home's last change."""


class Tree:
    """The tree of one share. Thread-safe. Every failure is an OSError with an errno for a node:
    ESTALE if no file has that id any more, EXDEV if the name leads to another file system.

    events: changes by other programs in the folders that nodes have asked about
    noticed: receives each file that others have changed, with the tree's lock held"""

    def __init__(self, root: Path, index: Path) -> None:
        """Open the folder, and the index file, which is made if it is missing. Raises OSError and
        ShareIndexDamaged."""
        self.path = root
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            first = status(self._root)
            self._index = Index(index, first)
        except BaseException:
            os.close(self._root)
            raise
        self._device = first.device
        self._lock = threading.RLock()
        self._folders: OrderedDict[FileId, int] = OrderedDict()
        self._files: OrderedDict[FileId, _File] = OrderedDict()
        self._versions = FileVersions(self._index.take_left())
        self._unnamed: set[FileId] = set()  # nodes took the last names of these open files away
        self._former: OrderedDict[FileId, tuple[FileId, bytes]] = OrderedDict()
        self.events = FolderEvents()
        self.noticed: Callable[[FileId], None] = lambda file: None

    def close(self) -> None:
        """Nothing of it is called after that."""
        with self._lock:
            files = [file.descriptor for file in self._files.values()]
            for descriptor in [*self._folders.values(), *files]:
                os.close(descriptor)
            self._folders.clear()
            self._files.clear()
            self._index.leave(self._versions.known())
            self._index.close()
            self.events.close()
            os.close(self._root)

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        with self._lock:
            folder = self._folder(parent)
            self.events.watch(parent, folder)
            return self._entry(parent, folder, name)

    def attributes(self, file: FileId) -> Attributes:
        with self._lock, self._at(file) as descriptor:
            return _attributes(file, status(descriptor))

    def change(self, file: FileId, changes: Changes) -> Attributes:
        """Several changes are made one after the other; the first that fails ends it."""
        with self._lock, self._at(file) as descriptor:
            before = status(descriptor)
            self._notice(file, before)
            path = fd_path(descriptor)
            if changes.size is not None:
                self._resize(file, before, changes.size)
            if changes.uid is not None or changes.gid is not None:
                os.chown(path, *(-1 if n is None else n for n in (changes.uid, changes.gid)))
            if changes.mode is not None:
                if stat.S_ISLNK(before.mode):
                    raise _error(errno.EOPNOTSUPP)
                Path(path).chmod(changes.mode & _PERMISSIONS)
            if changes.accessed is not None or changes.modified is not None:
                now = status(descriptor)
                accessed = _moment(changes.accessed, now.accessed)
                os.utime(path, ns=(accessed, _moment(changes.modified, now.modified)))
            return _attributes(file, self._own_change(file, descriptor))

    def at(self, file: FileId, act: Callable[[str], T]) -> T:
        """What `act` returns, of a path that leads to the file while it runs."""
        with self._lock, self._at(file) as descriptor:
            self._notice(file, status(descriptor))
            try:
                return as_owner(fd_path(descriptor), act)
            finally:
                self._own_change(file, descriptor)

    def take_privileges(self, file: FileId) -> None:
        """Clear the set-ID bits of a file, because a node is changing its content."""
        with self._lock, self._at(file) as descriptor:
            self._disarm(file, descriptor, status(descriptor))

    def read_link(self, file: FileId) -> bytes:
        with self._lock, self._at(file) as descriptor:
            if not stat.S_ISLNK(status(descriptor).mode):
                raise _error(errno.EINVAL)
            return os.readlink(b"", dir_fd=descriptor)

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> DirEntry:
        with self._lock:
            folder = self._folder(parent)
            with self.events.announced((parent, name, Kind.CREATED)):
                os.mkdir(_checked(name), mode & 0o777, dir_fd=folder)
            with self._opened(folder, name) as descriptor:
                self._own(folder, descriptor, mode, uid, gid)
            return self._entry(parent, folder, name)

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> DirEntry:
        with self._lock:
            folder = self._folder(parent)
            with self.events.announced((parent, name, Kind.CREATED)):
                os.symlink(target, _checked(name), dir_fd=folder)
            with self._opened(folder, name) as descriptor:
                self._own(folder, descriptor, None, uid, gid)
            return self._entry(parent, folder, name)

    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry:
        with self._lock, self._at(file) as descriptor:
            if stat.S_ISDIR(status(descriptor).mode):
                raise _error(errno.EPERM)
            folder = self._folder(parent)
            # by the name in /proc: linkat(2) of an open file itself needs a privilege
            with self.events.announced((parent, name, Kind.CREATED)):
                source = fd_path(descriptor)
                os.link(source, _checked(name), dst_dir_fd=folder, follow_symlinks=True)
            self._own_change(file, descriptor)
            return self._entry(parent, folder, name)

    def unlink(self, parent: FileId, name: bytes) -> FileId:
        """The file whose name that was. Its content is there as long as somebody has it open."""
        with self._lock:
            folder = self._folder(parent)
            file = self._known(parent, folder, name)
            self._keep_open(file)
            with self.events.announced((parent, name, Kind.DELETED)):
                os.unlink(name, dir_fd=folder)
            self._gone(parent, name, file)
            return file

    def remove_folder(self, parent: FileId, name: bytes) -> FileId:
        with self._lock:
            folder = self._folder(parent)
            file = self._known(parent, folder, name)
            with self.events.announced((parent, name, Kind.DELETED)):
                os.rmdir(name, dir_fd=folder)
            self._index.lost(parent, name)
            self._drop_folder(file)
            return file

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> FileId | None:
        """flags: as renameat2(2)s, RENAME_NOREPLACE and RENAME_EXCHANGE. The file, if any, that
        was there."""
        if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE):
            raise _error(errno.EINVAL)
        with self._lock:
            folder, new_folder = self._folder(parent), self._folder(new_parent)
            moved = self._known(parent, folder, name)
            try:
                replaced = self._known(new_parent, new_folder, new_name)
            except FileNotFoundError:
                replaced = None
            if replaced is not None and not flags:
                self._keep_open(replaced)
            if moved == replaced:  # two names of one file: both are still there
                rename(folder, name, new_folder, new_name, flags)
                return None
            with self.events.announced(*_moves(parent, name, new_parent, new_name, flags)):
                rename(folder, name, new_folder, new_name, flags)
            self._index.lost(parent, name)
            if replaced is not None:
                if flags & RENAME_EXCHANGE:
                    self._index.found(parent, name, replaced)
                    self._versions.set(replaced, status(folder, name))
                else:
                    self._gone(new_parent, new_name, replaced)
            self._index.found(new_parent, new_name, moved)
            self._versions.set(moved, status(new_folder, new_name))
            return replaced

    def entries(self, folder: FileId, most: int = 0) -> list[DirEntry]:
        """Every name but "." and "..", in no order that means anything. most: as for Hub."""
        with self._lock, self._reading(self._folder(folder)) as descriptor:
            found = []
            self.events.watch(folder, descriptor)
            self._index.begin()
            try:
                with os.scandir(descriptor) as listed:
                    names = [os.fsencode(entry.name) for entry in listed]
                if 0 < most < len(names):
                    raise _error(errno.EOVERFLOW)
                for name in names:
                    with suppress(FileNotFoundError):
                        now = status(descriptor, name)
                        if now.device == self._device:
                            found.append(self._noted(folder, name, now))
            finally:
                self._index.commit()
            return found

    def usage(self) -> FileSystemUsage:
        found = os.fstatvfs(self._root)
        return FileSystemUsage(
            block=found.f_frsize,
            blocks=found.f_blocks,
            free=found.f_bfree,
            available=found.f_bavail,
            files=found.f_files,
            files_free=found.f_ffree,
        )

    def create(
        self,
        parent: FileId,
        name: bytes,
        mode: int,
        uid: int,
        gid: int,
        exclusive: bool,
        file: FileId | None = None,
    ) -> tuple[DirEntry, bool]:
        """Make a file and open it, as `open` does; whether it is new. file: its id, if it has."""
        with self._lock:
            folder = self._folder(parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with self.events.announced((parent, name, Kind.CREATED)):
                    descriptor = os.open(_checked(name), flags, mode & 0o777, dir_fd=folder)
            except FileExistsError:
                if exclusive:
                    raise
                try:
                    entry = self._entry(parent, folder, name)
                except FileNotFoundError:  # another program has just removed it
                    return self.create(parent, name, mode, uid, gid, exclusive, file)
                self.open(entry.attributes.file, writes=True)
                return entry, False
            try:
                self._own(folder, descriptor, mode, uid, gid)
                if file is not None:
                    self._index.give(file, status(descriptor))
                entry = self._entry(parent, folder, name)
            except BaseException:
                os.close(descriptor)
                raise
            self._files[entry.attributes.file] = _File(descriptor, 1)
            return entry, True

    def make(self, making: PendingCreate) -> DirEntry:
        """What a node has made ahead, as `create` does it. The folder was changed when the node
        says, where home may set that."""
        with self._lock:
            about = (making.folder, making.name, making.mode, making.uid, making.gid)
            entry, _ = self.create(*about, exclusive=True, file=making.file)
            folder = self._folder(making.folder)
            with suppress(OSError):
                os.utime(fd_path(folder), ns=(status(folder).accessed, making.moment))
            return entry

    def whose(self, folder: FileId, *, stranger: bool) -> tuple[int | None, int | None]:
        """Return user and group of files that are made in the folder; None: who makes them. A
        stranger's are the folder's. Raises OSError where home may make none."""
        with self._lock:
            descriptor = self._folder(folder)
            if not os.access(fd_path(descriptor), os.W_OK | os.X_OK):
                raise _error(errno.EACCES)
            now, root = status(descriptor), os.geteuid() == 0
            if root and stranger:
                return now.uid, now.gid
            group = now.gid if now.mode & stat.S_ISGID else None if root else os.getegid()
            return None if root else os.geteuid(), group

    def take_ids(self, count: int) -> FileId:
        """The first of so many ids, for files that are going to be made."""
        with self._lock:
            return self._index.take(count)

    def has(self, file: FileId) -> bool:
        """Whether there was a file of that id when somebody last looked."""
        with self._lock:
            return self._index.has(file)

    def open(self, file: FileId, writes: bool) -> Attributes:
        """A node has it open until `close`: as long as that, it is there without a name as well."""
        with self._lock:
            found = self._file(file)
            if writes:
                _require_writable(found.descriptor)
            found.opened += 1
            return _attributes(file, status(found.descriptor))

    def close_file(self, file: FileId) -> bool:
        """One node less; whether the file is no more by that. Harmless for a file that is not
        open."""
        with self._lock:
            found = self._files.get(file)
            if not found or not found.opened:
                return False
            found.opened -= 1
            gone = not found.opened and status(found.descriptor).links == 0
            if gone:
                self._forget_open(file)
            self._trim()
            return gone

    def require(self, file: FileId) -> None:
        """Raise OSError where there is no such file, or it has no content."""
        with self._lock:
            self._file(file)

    def read(self, file: FileId, offset: int, size: int) -> bytes:
        """Fewer bytes than `size` at the end of the file only."""
        with self._lock:
            descriptor = self._file(file).descriptor
            parts = []
            while size and (part := os.pread(descriptor, size, offset)):
                parts.append(part)
                offset, size = offset + len(part), size - len(part)
            return b"".join(parts)

    def write(self, file: FileId, offset: int, data: bytes, *, blind: bool = False) -> None:
        """Raise ChangedOutside and write nothing if others have changed the file, unless `blind`.
        Bytes after the end go after what another program appends at this moment. Bytes that another
        program overwrites at this moment stay, if the data has nothing new for their PIECE."""
        with self._lock:
            descriptor = self._writing(file)
            before = os.pread(descriptor, len(data), offset)
            now = self._compared(file, descriptor, blind=blind)
            self._disarm(file, descriptor, now)
            within = max(0, now.size - offset) if offset <= now.size else len(data)
            try:
                for start, piece in _pieces(before, data[:within]):
                    _write(descriptor, piece, offset + start, 0)
                _write(descriptor, data[within:], offset + within, os.RWF_APPEND)
            finally:
                self._wrote(file, descriptor, max(now.size, offset + len(data)))
            if os.pread(descriptor, len(data[:within]), offset) != data[:within]:
                self._suspect(file)

    def extend(
        self,
        file: FileId,
        extent: Extent,
        *,
        grow: bool = True,
        touch: bool = True,
        blind: bool = False,
    ) -> bool:
        """Give a file this size and these times. Return whether it has the size: without `grow` a
        shorter file stays short. Without `touch` only a file of another size gets the times: they
        hide a write of another program at this moment. Raise ChangedOutside as `write` does."""
        with self._lock:
            descriptor = self._file(file).descriptor
            now = self._compared(file, descriptor, blind=blind)
            size = now.size
            try:
                if now.size > extent.size or (grow and now.size < extent.size):
                    descriptor = self._writing(file)
                    self._disarm(file, descriptor, now)
                    os.ftruncate(descriptor, extent.size)
                    size = extent.size
                if touch or size != now.size:
                    os.utime(descriptor, ns=(extent.accessed, extent.modified))
            finally:
                self._wrote(file, descriptor, size)
            return size == extent.size

    def extent(self, file: FileId) -> Extent:
        with self._lock:
            return Extent.of(_attributes(file, status(self._file(file).descriptor)))

    def sync(self, file: FileId) -> None:
        """Make content, attributes and, of a folder, names durable."""
        with self._lock:
            if file in self._files:
                descriptor = os.dup(self._files[file].descriptor)
            else:
                with self._at(file) as found:
                    if stat.S_IFMT(status(found).mode) not in (stat.S_IFREG, stat.S_IFDIR):
                        return
                    descriptor = os.open(fd_path(found), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def place(self, file: FileId) -> bytes | None:
        """A path of the file below the share, for people to read; None where none is known."""
        return next(iter(self.paths(file)), None)

    def paths(self, file: FileId) -> list[bytes]:
        """Return the paths below the share where the file was last seen."""
        with self._lock:
            places = self._index.places(file) if file != ROOT else []
            found = [(self._above(parent), name) for parent, name in places]
            return [b"/".join((*above, name)) for above, name in found if above is not None]

    def _above(self, folder: FileId) -> tuple[bytes, ...] | None:
        parts: list[bytes] = []
        while folder != ROOT:
            places = self._index.places(folder)
            if not places or len(parts) > DEEPEST:
                return None
            folder, name = places[0]
            parts.append(name)
        return tuple(reversed(parts))

    def _entry(self, parent: FileId, folder: int, name: bytes) -> DirEntry:
        now = status(folder, _checked(name))
        if now.device != self._device:
            raise _error(errno.EXDEV, name)
        return self._noted(parent, name, now)

    def _noted(self, parent: FileId, name: bytes, now: FileStatus) -> DirEntry:
        file = self._index.of(now)
        before = self._index.named(parent, name)
        if before is not None and before != file:
            self._lost_name(parent, name, before)
        self._index.found(parent, name, file)
        self._notice(file, now)
        return DirEntry(name, _attributes(file, now))

    # Changes by other programs of home.

    def look(self, parent: FileId, name: bytes) -> tuple[FileId | None, Attributes | None]:
        """Another program may have given the name to another file. Return the file that had it when
        home last looked, and the attributes of the one that has it now."""
        with self._lock:
            before = self._index.named(parent, name)
            if before is None:  # no node has asked for the name
                return None, None
            try:
                return before, self._entry(parent, self._folder(parent), name).attributes
            except OSError:
                self._lost_name(parent, name, before)
                self._index.lost(parent, name)
                return before, None

    def noted(self, parent: FileId, name: bytes) -> bool:
        """Return whether a node has made the name or asked for it."""
        with self._lock:
            return self._index.named(parent, name) is not None

    def difference(self, file: FileId) -> Difference:
        """Compare a file with home's last change of it."""
        with self._lock:
            try:
                with self._at(file) as descriptor:
                    return self._versions.difference(file, status(descriptor))
            except OSError:
                return Difference.NONE

    def accept(self, file: FileId) -> Attributes:
        """No node has anything of the file: it is as others have made it. Return its attributes,
        with which later changes are compared. Raises OSError."""
        with self._lock, self._at(file) as descriptor:
            now = status(descriptor)
            self._versions.accept(file, now)
            return _attributes(file, now)

    def last(self, file: FileId) -> Attributes | None:
        """Return the attributes of the file after home's last change."""
        with self._lock:
            known = self._versions.last(file)
            return _attributes(file, known) if known else None

    def orphaned(self, file: FileId) -> bool:
        """Return whether others have taken the last name of a file that is kept open."""
        with self._lock:
            found = self._files.get(file)
            return (
                found is not None
                and file not in self._unnamed
                and status(found.descriptor).links == 0
            )

    def former_place(self, file: FileId) -> tuple[FileId, bytes] | None:
        """Return folder and name that the file has, or had before others took them."""
        with self._lock:
            return next(iter(self._index.places(file)), self._former.get(file))

    def move_into(self, file: FileId, copy: FileId) -> None:
        """Let the inode of `copy`, which is open once and has a name, be that of `file`, which has
        none any more. The id `copy` ends. Raises OSError."""
        with self._lock:
            made = self._files.pop(copy)
            ((parent, name),) = self._index.places(copy)
            os.close(self._files[file].descriptor)
            self._files[file].descriptor = made.descriptor
            self._index.forget(copy)
            self._index.move(file, status(made.descriptor))
            self._index.found(parent, name, file)
            self._own_change(file, made.descriptor)

    def _lost_name(self, parent: FileId, name: bytes, file: FileId) -> None:
        """Others gave the name to another file, or to none."""
        self._former[file] = parent, name
        if len(self._former) > FORMER_KEPT:
            self._former.popitem(last=False)
        found = self._files.get(file)
        if found and not found.opened and status(found.descriptor).links == 0:
            self._forget_open(file)

    def _notice(self, file: FileId, now: FileStatus) -> None:
        if self._versions.difference(file, now) != Difference.NONE:
            self.noticed(file)

    def _compared(self, file: FileId, descriptor: int, *, blind: bool) -> FileStatus:
        """Return the status of a file that others have not changed. Raises ChangedOutside."""
        now = status(descriptor)
        if not blind and self._versions.difference(file, now) is Difference.CONTENT:
            self.noticed(file)
            raise ChangedOutside(errno.EBUSY, "a program at home has changed the file")
        return now

    def _wrote(self, file: FileId, descriptor: int, size: int) -> None:
        """Home has changed the file, which is longer than `size` if others did meanwhile."""
        if self._own_change(file, descriptor).size > size:
            self._suspect(file)

    def _suspect(self, file: FileId) -> None:
        """Others have changed the file while home did."""
        self._versions.suspect(file)
        self.noticed(file)

    def _own_change(self, file: FileId, descriptor: int) -> FileStatus:
        """Home has changed the file."""
        now = status(descriptor)
        self._versions.set(file, now)
        return now

    def _known(self, parent: FileId, folder: int, name: bytes) -> FileId:
        return self._entry(parent, folder, name).attributes.file

    def _gone(self, parent: FileId, name: bytes, file: FileId) -> None:
        """A name of the file was taken away."""
        self._index.lost(parent, name)
        found = self._files.get(file)
        if found is None:
            self._drop_folder(file)
        elif self._own_change(file, found.descriptor).links == 0:
            self._unnamed.add(file)
            if not found.opened:
                self._forget_open(file)

    def _forget_open(self, file: FileId) -> None:
        """Close and forget a file that has no name."""
        os.close(self._files.pop(file).descriptor)
        self._index.forget(file)
        self._versions.forget(file)
        self._unnamed.discard(file)

    def _keep_open(self, file: FileId) -> None:
        """So that it is known afterwards whether that was its last name."""
        with suppress(OSError):
            self._file(file)

    def _drop_folder(self, file: FileId) -> None:
        """A folder, link or special file lost a name: its last, unless it has others."""
        if file in self._folders:
            os.close(self._folders.pop(file))
        if not self._index.places(file):
            self._index.forget(file)

    def _folder(self, file: FileId) -> int:
        """A descriptor (O_PATH) of that folder; the tree keeps it. Raises ESTALE, ENOTDIR."""
        if file == ROOT:
            return self._root
        if file in self._folders:
            self._folders.move_to_end(file)
            return self._folders[file]
        with self._at(file) as found:
            if not stat.S_ISDIR(status(found).mode):
                raise _error(errno.ENOTDIR)
            descriptor = os.dup(found)
        self._folders[file] = descriptor
        if len(self._folders) > FOLDERS_KEPT:
            os.close(self._folders.popitem(last=False)[1])
        return descriptor

    @contextmanager
    def _at(self, file: FileId) -> Iterator[int]:
        """A descriptor (O_PATH, or of an open file) of that file, for the time of a block."""
        if file == ROOT:
            yield self._root
        elif file in self._folders:
            yield self._folders[file]
        elif file in self._files:
            yield self._files[file].descriptor
        else:
            descriptor = self._find(file)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _find(self, file: FileId) -> int:
        """Open (O_PATH) a file by its id alone. Raises ESTALE."""
        for descriptor in self._climb(file):
            return descriptor
        raise _error(errno.ESTALE)

    def _climb(self, file: FileId) -> Iterator[int]:
        """The file at each place where it was last seen and still is."""
        for parent, name in self._index.places(file):
            with suppress(OSError):
                path = self._chain(parent)
                if path is None:
                    continue
                descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=path)
                now = status(descriptor)
                if now.device == self._device and self._index.matches(file, now):
                    yield descriptor
                    return
                os.close(descriptor)

    def _chain(self, folder: FileId) -> int | None:
        """A descriptor of a folder, opened from the nearest one above it that is open."""
        below: list[FileId] = []
        while folder != ROOT and folder not in self._folders:
            places = self._index.places(folder)
            if not places or len(below) > DEEPEST:
                return None
            below.append(folder)
            folder = places[0][0]
        descriptor = self._root if folder == ROOT else self._folders[folder]
        for folder in reversed(below):
            name = self._index.places(folder)[0][1]
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=descriptor)
            now = status(descriptor)
            if now.device != self._device or not self._index.matches(folder, now):
                os.close(descriptor)
                return None
            self._folders[folder] = descriptor
        while len(self._folders) > FOLDERS_KEPT + DEEPEST:
            os.close(self._folders.popitem(last=False)[1])
        return descriptor

    def _file(self, file: FileId) -> _File:
        """The file, open for reading and, if that is allowed, for writing. Raises ESTALE, and
        EISDIR or EINVAL for what has no content."""
        if file in self._files:
            self._files.move_to_end(file)
            return self._files[file]
        with self._at(file) as found:
            mode = status(found).mode
            if not stat.S_ISREG(mode):
                raise _error(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL)
            descriptor = as_owner(fd_path(found), open_content)
        self._files[file] = _File(descriptor)
        self._trim()
        return self._files[file]

    def _writing(self, file: FileId) -> int:
        """A descriptor of the file to write. Whether a node may write was asked before."""
        found = self._file(file)
        if read_only(found.descriptor):
            old, path = found.descriptor, fd_path(found.descriptor)
            found.descriptor = as_owner(path, lambda path: os.open(path, os.O_RDWR | os.O_CLOEXEC))
            os.close(old)
        return found.descriptor

    def _trim(self) -> None:
        idle = [file for file, found in self._files.items() if not found.opened]
        for file in idle[: max(0, len(idle) - FILES_KEPT)]:
            os.close(self._files.pop(file).descriptor)

    def _resize(self, file: FileId, now: FileStatus, size: int) -> None:
        if stat.S_ISDIR(now.mode):
            raise _error(errno.EISDIR)
        descriptor = self._file(file).descriptor
        _require_writable(descriptor)
        self._disarm(file, descriptor, now)
        os.ftruncate(descriptor, size)

    def _disarm(self, file: FileId, descriptor: int, now: FileStatus) -> None:
        """Clear set-ID bits before content changes, as the kernel does unless home is root's.
        Nodes are notified."""
        if privileged(now.mode):
            with suppress(PermissionError):  # another user's: then the kernel clears them
                Path(fd_path(descriptor)).chmod(stat.S_IMODE(now.mode) & ~SET_IDS)
            self.noticed(file)

    def _own(self, folder: int, descriptor: int, mode: int | None, uid: int, gid: int) -> None:
        """Give a new file to who made it, where home may; home's own umask counts for nothing."""
        inherits = status(folder).mode & stat.S_ISGID
        if os.geteuid() == 0:
            os.chown(fd_path(descriptor), uid, -1 if inherits else gid)
        if mode is not None:
            keeps = status(descriptor).mode & stat.S_ISGID
            Path(fd_path(descriptor)).chmod((mode & _PERMISSIONS) | keeps)

    @contextmanager
    def _opened(self, folder: int, name: bytes) -> Iterator[int]:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _reading(self, folder: int) -> Iterator[int]:
        descriptor = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def privileged(mode: int) -> bool:
    """Return whether that is a regular file with a set-user-ID or set-group-ID bit."""
    return stat.S_ISREG(mode) and bool(mode & SET_IDS)


def _pieces(before: bytes, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of the data that differ from the bytes before, in whole pieces, by where
    they begin."""
    if not before:
        yield 0, data
        return
    begin = 0
    for end in range(0, len(data) + PIECE, PIECE):
        if end >= len(data) or before[end : end + PIECE] == data[end : end + PIECE]:
            if begin < end:
                yield begin, data[begin:end]
            begin = end + PIECE


def _write(descriptor: int, data: bytes, offset: int, flags: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwritev(descriptor, [view], offset, flags)
        offset, view = offset + written, view[written:]


def _attributes(file: FileId, now: FileStatus) -> Attributes:
    return Attributes(
        file=file,
        mode=now.mode,
        links=now.links,
        uid=now.uid,
        gid=now.gid,
        size=now.size,
        accessed=now.accessed,
        modified=now.modified,
        changed=now.changed,
        blocks=now.blocks,
    )


def _moves(
    parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
) -> list[tuple[FileId, bytes, Kind]]:
    """List the events that the kernel reports for such a rename."""
    moves = [(parent, name, Kind.MOVED_FROM), (new_parent, new_name, Kind.MOVED_TO)]
    if flags & RENAME_EXCHANGE:
        moves += [(new_parent, new_name, Kind.MOVED_FROM), (parent, name, Kind.MOVED_TO)]
    return moves


def _checked(name: bytes) -> bytes:
    """A name that is one. Raises OSError."""
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name:
        raise _error(errno.EINVAL, name)
    if len(name) > NAME_LIMIT:
        raise _error(errno.ENAMETOOLONG, name)
    return name


def _require_writable(descriptor: int) -> None:
    if read_only(descriptor):
        raise _error(errno.EACCES)


def _moment(wanted: int | None, now: int) -> int:
    return now if wanted is None else time.time_ns() if wanted == _NOW else wanted


def _error(number: int, name: bytes = b"") -> OSError:
    return OSError(number, os.strerror(number), *([name] if name else []))
