# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home has of the content of a share's files: blocks, sizes and times, and the write log.

Content is read from and written to the page cache; nothing durable is waited for with the share's
lock held.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic

from satchel.errors import NO_ROOM, IntegrityError
from shares.home.storage.conflict_copies import ConflictCopies
from shares.home.storage.file_versions import Difference
from shares.home.storage.system_calls import allocate
from shares.home.storage.tree import ChangedOutside, Tree
from shares.home.storage.write_log import LoggedWrite, WriteLog
from shares.node import Attributes, Changes, Extent, RestoreReport
from shares.protocol import ATTRIBUTES, BLOCK, FileId, LogWrite

logger = logging.getLogger(__name__)

WRITTEN_AT_ONCE = 1 << 20

LOST = "lost-node"
"""In the names of conflict copies: who wrote what the log says."""


class BlockStore:
    """Who calls holds the share's lock, but for `sync` and `save`, which take it themselves.

    restored: what became of the log's records that were replayed, in replay_seconds
    copies: content that came for files which other programs of home had changed
    complete: tells whether no node has content of the file
    """

    def __init__(self, name: str, tree: Tree, log: WriteLog, lock: threading.RLock) -> None:
        """name: of the share, for what is logged. Nothing is replayed yet."""
        self.restored = RestoreReport()
        self.copies = ConflictCopies(name, tree)
        self.replay_seconds = 0.0
        self._name, self._tree, self._log, self._lock = name, tree, log, lock
        self._extents: dict[FileId, Extent] = {}
        self._unsaved: dict[tuple[FileId, int], bytes] = {}
        self._stored: dict[FileId, set[int]] = {}
        self._short: set[FileId] = set()
        self.complete: Callable[[FileId], bool] = lambda file: True

    def require(self, file: FileId) -> None:
        """Raise OSError where there is no such file, or it has no content."""
        self._tree.require(file)

    def block(self, file: FileId, number: int) -> bytes:
        """As long as the file has it. Raises OSError."""
        if (file, number) in self._unsaved:
            return self._unsaved[file, number]
        if self.copies.has(file):
            return self.copies.block(file, number)
        if number == ATTRIBUTES:
            return self._extent(file).pack()
        return self._tree.read(file, number * BLOCK, BLOCK)

    def store(self, file: FileId, number: int, block: bytes, who: str = LOST) -> None:
        """What a node gave is the latest. Where the disk is full it is kept until there is room;
        what no file can take is logged and dropped. who: the name of the node"""
        try:
            if not self._take_in(file, number, block, who):
                return
        except (OSError, IntegrityError) as error:
            # There is no such file any more, or nobody can have such a one.
            logger.error("share %s: file %d, block %d: %s", self._name, file, number, error)
            return
        if self._log.has(file, number):
            # What the log says is older: were it replayed now, it would come on top.
            try:
                self._log.append(file, number, 0, self._unpadded(file, number, block))
            except OSError as error:
                logger.error("share %s: the write log: %s", self._name, error)
                self._log.over(file, number, 1)
            self._stored.setdefault(file, set()).add(number)

    def append(self, message: LogWrite) -> None:
        """A node wrote to a block that it owns: into the log, and into the file if it is lost.
        Raises OSError; then it is as if the node had not said it."""
        try:
            self._log.append(message.file, message.first, message.offset, message.data)
        except OSError as error:
            logger.error("share %s: the write log: %s", self._name, error)
            raise
        self._stored.get(message.file, set()).discard(message.first)

    def replay(self, file: FileId, numbers: tuple[int, ...] | None) -> None:
        """Home's content becomes what the log says, of these blocks or of all; it is over there
        when that is durable. The bytes that the lost node gave count, also those whose size it had
        not given yet."""
        began = monotonic()
        before = self.restored
        sized = numbers is None or ATTRIBUTES in numbers
        given = self._given(file) if sized else 0
        for number in self._log.blocks(file):
            if numbers is not None and number not in numbers:
                continue
            written = self._log.written(file, number)
            size, block = sum(len(part.data) for part in written), int(number != ATTRIBUTES)
            try:
                self._restore(file, number, written)
                self._stored.setdefault(file, set()).add(number)
                self.restored += RestoreReport(records=len(written), blocks=block, bytes=size)
            except (OSError, IntegrityError) as error:
                logger.warning("share %s: file %d is not restored: %s", self._name, file, error)
                self._log.over(file, number, 1)
                self.restored += RestoreReport(failed_blocks=block, failed_bytes=size)
        if given:
            with suppress(OSError):
                self._reach(file, given)
        if self.restored.records > before.records:
            self.restored += RestoreReport(files=1)
        self.replay_seconds += monotonic() - began

    def _given(self, file: FileId) -> int:
        """Return the end of the bytes after the size that nodes gave and home stored, up to the
        first block without bytes; 0 if home stored nothing. A policy may push a later block
        first."""
        if file not in self._extents or self.changed_outside(file) is not Difference.NONE:
            return 0
        end = begin = self._extents[file].size
        with suppress(OSError):
            while piece := self._tree.read(file, end, BLOCK - end % BLOCK).rstrip(b"\0"):
                end += len(piece)
                if end % BLOCK:
                    break
        return end if end > begin else 0

    def _restore(self, file: FileId, number: int, written: list[LoggedWrite]) -> None:
        block = bytearray(self.block(file, number).ljust(BLOCK, b"\0"))
        for part in written:
            block[part.offset : part.offset + len(part.data)] = part.data
        reached = max(part.offset + len(part.data) for part in written)
        size = 0 if number == ATTRIBUTES else number * BLOCK + reached
        self._take_in(file, number, bytes(block), LOST, size)

    def known(self, attributes: Attributes) -> Attributes:
        """With size and times as home last had them."""
        extent = self._extents.get(attributes.file)
        return extent.onto(attributes) if extent else attributes

    def changed(self, attributes: Attributes) -> None:
        """Somebody changed mode, owner or names. Only when that was is taken over from the native
        file."""
        if attributes.file in self._extents:
            found = self._extents[attributes.file]
            self._extents[attributes.file] = replace(found, changed=attributes.changed)

    def change(self, file: FileId, changes: Changes) -> Attributes:
        """Set size or times; home has block -1, and with a size the block that is cut and all
        behind it. Raises OSError."""
        try:
            if not self.copies.has(file):
                self._tree.extend(file, self._extent(file))
        except ChangedOutside:
            self._extents.pop(file, None)
        changed = self._tree.change(file, changes)
        self._extents[file] = Extent.of(changed)
        if changes.size is not None:
            self._log.cut(file, changes.size)
        return changed

    def zero(self, file: FileId, mode: int, offset: int, length: int) -> None:
        """Make these bytes zeros, as far as the file has them, by fallocate(2) with that mode where
        the file system can; home has block -1 and all that they are in. Raises OSError."""
        end = min(offset + length, self._extent(file).size)
        if end <= offset:
            return
        self._tree.take_privileges(file)
        try:
            self._tree.at(file, lambda path: allocate(path, mode, offset, end - offset))
        except OSError:
            for at in range(offset, end, WRITTEN_AT_ONCE):
                self._tree.write(file, at, bytes(min(WRITTEN_AT_ONCE, end - at)), blind=True)
        held = {number for key, number in self._unsaved if key == file}
        for number in held.union(self._log.blocks(file)):
            start, stop = max(0, offset - number * BLOCK), min(BLOCK, end - number * BLOCK)
            if number == ATTRIBUTES or start >= stop:
                continue
            if number in held:
                block = self._unsaved[file, number].ljust(BLOCK, b"\0")
                zeros = bytes(stop - start)
                self._unsaved[file, number] = block[:start] + zeros + block[stop:]
            if self._log.has(file, number):  # what it says is older
                self._log.append(file, number, start, bytes(stop - start))
                self._stored.setdefault(file, set()).add(number)

    def forget(self, file: FileId) -> None:
        """There is no such file any more."""
        self._extents.pop(file, None)
        self._log.over(file, 0, 0)
        for key in [key for key in self._unsaved if key[0] == file]:
            del self._unsaved[key]

    def holds(self, file: FileId) -> bool:
        """Whether the disk was too full for some of it, which is kept in memory."""
        self._retry()
        return any(key[0] == file for key in self._unsaved)

    def unsaved(self, file: FileId) -> set[int]:
        """The blocks for which the disk was too full."""
        return {number for key, number in self._unsaved if key == file and number != ATTRIBUTES}

    def files(self) -> list[FileId]:
        """Return the files with a size or times that differ from the native file's."""
        return list(self._extents)

    def finish(self, file: FileId) -> bool:
        """Nobody has it open. The native file becomes as long as it should be. Whether attributes
        are others by that: the time of the last status change is the native file's from now on."""
        extent = self._extents.pop(file, None)
        self._short.discard(file)
        if extent is None:
            return False
        if self.changed_outside(file) is Difference.CONTENT:
            self._tree.noticed(file)
            return True
        try:
            now = self._tree.extent(file)
            if replace(now, changed=extent.changed) != extent:
                self._tree.extend(file, extent)
            return now != extent
        except OSError as error:
            logger.info("share %s: file %d: %s", self._name, file, error)
            return True

    # Changes by other programs of home.

    def changed_outside(self, file: FileId) -> Difference:
        """Compare the file with home's last change."""
        return Difference.CONTENT if self.copies.has(file) else self._tree.difference(file)

    def part(self, file: FileId) -> bool:
        """Send nodes' writes of a file that others have changed into a copy. Return whether others
        have changed it."""
        found = self.changed_outside(file)
        if found is Difference.CONTENT:
            self._begin_copy(file)
        return found is not Difference.NONE

    def accept(self, file: FileId) -> None:
        """No node has anything of the file any more: it is as others have made it. Raises
        OSError."""
        try:
            self.copies.end(file)
        finally:
            accepted = self._tree.accept(file)
            if file in self._extents:
                self._extents[file] = Extent.of(accepted)
            self._log.over(file, 0, 0)

    def _take_in(self, file: FileId, number: int, block: bytes, who: str, size: int = 0) -> bool:
        """Put a node's content into the file, or into a copy if others have changed the file.
        Return whether it is in the file. size: the file is at least as long. Raises OSError where
        no file can take it, and IntegrityError."""
        if not self._goes_aside(file, number, who):
            known = self._extents.get(file)
            try:
                self._reach(file, size)
                self._put_or_hold(file, number, block)
            except ChangedOutside:
                if known is not None:
                    self._extents[file] = known
                self._begin_copy(file)
            else:
                return True
        self.copies.put(file, number, block, who)
        return False

    def _goes_aside(self, file: FileId, number: int, who: str) -> bool:
        """Whether content of a node's must not go into the file. Raises OSError."""
        if self.copies.has(file):
            return True
        if self._tree.orphaned(file) and number != ATTRIBUTES:
            self.copies.adopt(file, who)
        return False

    def _begin_copy(self, file: FileId) -> None:
        last = self._tree.last(file)
        known = self._extents.get(file) or (Extent.of(last) if last else self._extent(file))
        self.copies.begin(file, known)
        for key, block in list(self._unsaved.items()):
            if key[0] == file:
                del self._unsaved[key]
                self.store(*key, block)

    # Durability.

    def sync(self, file: FileId) -> None:
        """Returns when what home has of the file is durable. Raises OSError."""
        with self._lock:
            if self.holds(file):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with suppress(ChangedOutside):
                self.grow(file)
            self.copies.sync(file)
        self._tree.sync(file)
        self._log.sync()

    def save(self) -> None:
        """What the log says and the files have by now is over when they are durable."""
        with self._lock:
            self._retry()
            held = set(self._unsaved)
            stored, self._stored, now = self._stored, {}, monotonic()
        for file, numbers in stored.items():
            try:
                self._tree.sync(file)
            except OSError as error:
                if error.errno != errno.ESTALE:  # there is nothing to be lost of one that is gone
                    logger.warning("share %s: file %d: %s", self._name, file, error)
                    continue  # nor is it known by a later sync that this has become durable
            with self._lock:
                for number in numbers:
                    if (file, number) in held:
                        self._stored.setdefault(file, set()).add(number)
                    elif not any(part.at > now for part in self._log.written(file, number)):
                        self._log.over(file, number, 1)

    def _retry(self) -> None:
        for (file, number), block in list(self._unsaved.items()):
            try:
                if self._goes_aside(file, number, LOST):
                    return
                self._put(file, number, block)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    return
                self._unsaved.pop((file, number), None)

    def _unpadded(self, file: FileId, number: int, block: bytes) -> bytes:
        """So much of it that it covers what the log has of the block, the file and all that is no
        zero. A replay makes a file as long as what it writes, and a block that was given is padded
        to its end."""
        if number == ATTRIBUTES:
            return block
        reached = [part.offset + len(part.data) for part in self._log.written(file, number)]
        within = min(BLOCK, self._extent(file).size - number * BLOCK)
        return block[: max(*reached, within, len(block.rstrip(b"\0")))]

    def _extent(self, file: FileId) -> Extent:
        """What home says of size and times. The native file may be longer for a while: a block is
        stored whole, and may come before the size that it makes."""
        if file not in self._extents:
            self._extents[file] = self._tree.extent(file)
        return self._extents[file]

    def _put_or_hold(self, file: FileId, number: int, block: bytes) -> None:
        """Where the disk is full it is kept here until there is room. Raises OSError where no file
        can take it, and IntegrityError."""
        try:
            self._put(file, number, block)
        except OSError as error:
            if error.errno not in NO_ROOM or error.errno == errno.EFBIG:
                raise
            if not self._unsaved:
                logger.error("share %s: file %d waits for room: %s", self._name, file, error)
            self._unsaved[file, number] = block

    def _put(self, file: FileId, number: int, block: bytes) -> None:
        extent = self._extent(file)
        if number == ATTRIBUTES:
            extent = Extent.unpack(block)
            self._extents[file] = extent
            self._extend(file, extent)
        else:
            within = max(0, min(BLOCK, extent.size - number * BLOCK))
            self._tree.write(file, number * BLOCK, block[:within] + block[within:].rstrip(b"\0"))
        self._unsaved.pop((file, number), None)

    def _reach(self, file: FileId, size: int) -> None:
        """The file is at least as long as that."""
        extent = self._extent(file)
        if extent.size < size:
            self._extents[file] = replace(extent, size=size)
            self._extend(file, self._extents[file])

    def _extend(self, file: FileId, extent: Extent) -> None:
        """Content makes a file longer. Were it longer before that comes, a program of home that
        appends would write after zeros. The file gets the times at its end (`finish`)."""
        if not self._tree.extend(file, extent, grow=self.complete(file), touch=False):
            self._short.add(file)

    def short(self) -> list[FileId]:
        """Return the files that are shorter than nodes have said."""
        return list(self._short)

    def grow(self, file: FileId) -> None:
        """Make a file as long as nodes have said: home has all content. Raises OSError."""
        if file in self._short:
            self._short.discard(file)
            extent = self._extents.get(file)
            if extent and not self.copies.has(file) and self._tree.extent(file).size < extent.size:
                self._tree.extend(file, extent)
