# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How what a mount has left in its journal gets home.

The node joins under the token that home knew it by. It says which files it had made, and releases
what it had written, each block under its grant, as a node does that joins again (`Membership`).
What home refuses then has been written by others since, or home has forgotten under which grant it
was: that is settled by `conflicts`.
"""

from __future__ import annotations

import errno
import logging
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from satchel.errors import UnavailableError
from satchel.polling import POLL_SECONDS
from shares.node import clock
from shares.node.content.buffer import Buffer
from shares.node.extent import Extent
from shares.node.hub.hub import Hub
from shares.node.hub.membership import Caller, ConversationOwner, Membership
from shares.node.hub.waits import HomeWait
from shares.node.journal.conflicts import Conflicts, RefusedContent, of_aside
from shares.node.journal.leftovers import JournalLeftovers, LeftFile
from shares.node.journal.records import MountNote
from shares.node.node import Node
from shares.protocol import (
    ATTRIBUTES,
    FileId,
    Message,
    NodeMachine,
    RefusalReply,
    Release,
    filled,
    runs,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_SECONDS = 20.0
UNDER_WAY = 16 << 20
"""Bytes that are on their way to home at once."""

SYNCING = 8
"""Files of which home is asked at once whether they are durable."""

COPIES = "copies"


class RecoveryStopped(UnavailableError):
    """Home became unreachable while a journal was sent. The rest stays in the journal."""


@dataclass
class RecoveryResult:
    """What has become of a journal. files, size: what home has now; conflicts: paths of conflict
    copies; failed: files that cannot be read, and why: the journal is put aside with them"""

    note: MountNote
    files: int = 0
    size: int = 0
    conflicts: list[bytes] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def status(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "share": self.note.share,
            "mountpoint": self.note.mountpoint,
            "files": self.files,
            "bytes": self.size,
            "conflicts": [path.decode(errors="replace") for path in self.conflicts],
            "failed": self.failed,
        }


class Recovery:
    """Of one journal, which nobody serves. One thread."""

    def __init__(
        self,
        left: JournalLeftovers,
        call: Callable[[ConversationOwner], Caller],
        wait: float | None,
    ) -> None:
        """call: as for Membership; wait: seconds without an answer until it is given up."""
        self._left, self._call, self._wait = left, call, wait

    def run(self) -> RecoveryResult:
        """Send it home. What is at home on return is durable there, and the journal is removed, or
        put aside where something of it cannot be read. Raises RecoveryStopped, and what
        Membership.join does; the journal is as it was then."""
        left, recovered = self._left, RecoveryResult(self._left.note)
        note = left.note
        membership = Membership(
            self._call, note.share, note.name, token=note.token, patience=self._wait
        )
        try:
            hub = membership.join(JOIN_SECONDS)
            try:
                refused = self._bring(hub)
                self._settle(hub, refused, recovered)
            except OSError as error:
                raise RecoveryStopped(
                    f"what waits for the share {note.share} is not sent", why=str(error)
                ) from error
            hub.leave()
        finally:
            membership.close()
        recovered.files, recovered.size = left.count, left.size
        for path, why in left.unreadable.items():
            recovered.failed[str(path)] = why
        if recovered.failed:
            put_aside(left.folder, "; ".join(recovered.failed.values()))  # it is sent once
        else:
            shutil.rmtree(left.folder, ignore_errors=True)
        return recovered

    def _bring(self, hub: Hub) -> list[RefusedContent]:
        """What home does not take of it. Raises OSError."""
        machine = NodeMachine()
        hub.listen(
            lambda message, reply: reply(machine.answer(message, clock.now())),
            lambda file, name: None,
            lambda folder, done: done(),
        )
        made = self._make(hub)
        bringing = _ReleaseSender(hub, self._wait)
        for each in self._left.files:
            grant = made.get(each.file, 0)
            if not isinstance(grant, OSError):
                bringing.release(each, grant)
        refusals = bringing.wait()
        files = {each.file: each for each in self._left.files}
        found = [_refused(files[file], numbers) for file, numbers in refusals.items()]
        for file, error in made.items():
            if isinstance(error, OSError):
                found.append(self._unmade(file, files.get(file)))
        brought = [each.file for each in self._left.files if each.file not in refusals]
        self._sync(hub, brought)
        return found

    def _make(self, hub: Hub) -> dict[FileId, int | OSError]:
        """Files that home has perhaps not made: the grant of each, or why home does not."""
        asked: list[tuple[FileId, queue.SimpleQueue[int | OSError | None]]] = []
        for making in self._left.making:
            asked.append((making.file, queue.SimpleQueue()))
            hub.make_again(asked[-1][1].put, making)
        found: dict[FileId, int | OSError] = {}
        for file, answer in asked:
            said = self._answer(hub, answer)
            if said is None:
                raise OSError(errno.EIO, "home is not reached")
            found[file] = said
        return found

    def _answer(self, hub: Hub, answer: queue.SimpleQueue[T]) -> T:
        """Wait for it. Raises OSError."""
        wait = HomeWait(lambda: hub, "the journal of a mount")
        while True:
            with suppress(queue.Empty):
                return answer.get(timeout=POLL_SECONDS)
            wait.require(self._wait, busy=True)

    def _unmade(self, file: FileId, left: LeftFile | None) -> RefusedContent:
        """Home has not made the file under its id: it gets another one."""
        (making,) = (each for each in self._left.making if each.file == file)
        if left is not None:
            numbers, name = left.waiting.blocks, left.name
            return RefusedContent(file, numbers, left.read, left.waiting.extent, name, new=True)
        empty = Extent(0, making.moment, making.moment, making.moment)
        name = making.folder, making.name
        return RefusedContent(file, [], lambda _: b"", empty, name, new=True)

    @staticmethod
    def _sync(hub: Hub, files: list[FileId]) -> None:
        def sync(file: FileId) -> None:
            try:
                hub.sync(file)
            except OSError as error:
                if error.errno != errno.ESTALE:  # it was removed by a program
                    raise

        with ThreadPoolExecutor(SYNCING) as threads:
            list(threads.map(sync, files))

    def _settle(self, hub: Hub, refused: list[RefusedContent], recovered: RecoveryResult) -> None:
        left = self._left
        refused = [
            *refused,
            *(of_aside(aside) for aside in left.asides),
            *(_refused(each, sorted(each.waiting.grants), sure=False) for each in left.doubtful),
        ]
        if not refused:
            return
        node = Node(hub, Buffer(left.folder / COPIES), self._wait)
        try:
            conflicts = Conflicts(node, left.note.name)
            for each in refused:
                path = conflicts.settle(each)
                if path is not None:
                    recovered.conflicts.append(path)
        finally:
            with suppress(OSError):
                node.close()


class _ReleaseSender:
    """Releases on their way to home."""

    def __init__(self, hub: Hub, limit: float | None) -> None:
        """limit: seconds without an answer until it is given up."""
        self._hub, self._limit = hub, limit
        self._changed = threading.Condition()
        self._going = self._waits = 0
        self._error: OSError | None = None
        self._refused: dict[FileId, list[int]] = {}

    def release(self, left: LeftFile, made: int) -> None:
        """made: the grant of what has none. Raises OSError."""
        grants = {number: grant or made for number, grant in left.waiting.grants.items()}
        for release in _releases(left.file, grants):
            message = filled(release, lambda _, number: left.read(number))
            with self._changed:
                self._wait_until(lambda: self._going < UNDER_WAY)
                self._going += len(message.data)
                self._waits += 1
            self._hub.post(message, self._taker(message), self._taker(message))

    def _taker(self, message: Release) -> Callable[[Message | OSError], None]:
        def take(reply: Message | OSError) -> None:
            with self._changed:
                self._going -= len(message.data)
                self._waits -= 1
                if isinstance(reply, OSError):
                    self._error = reply
                elif isinstance(reply, RefusalReply):
                    self._refused.setdefault(message.file, []).extend(reply.refused)
                self._changed.notify_all()

        return take

    def wait(self) -> dict[FileId, list[int]]:
        """Until home has answered all: what it refuses of each file. Raises OSError."""
        with self._changed:
            self._wait_until(lambda: not self._waits)
            return {file: sorted(numbers) for file, numbers in self._refused.items()}

    def _wait_until(self, over: Callable[[], bool]) -> None:
        """With the lock. Raises OSError."""
        wait = HomeWait(lambda: self._hub, "the journal of a mount")
        while not self._changed.wait_for(lambda: over() or self._error, POLL_SECONDS):
            wait.require(self._limit, busy=True)
        if self._error is not None:
            raise self._error


def _releases(file: FileId, grants: dict[int, int]) -> Iterator[Release]:
    """Size and times first: home cuts what reaches beyond the size that it knows."""
    extent = {number: grant for number, grant in grants.items() if number == ATTRIBUTES}
    content = {number: grant for number, grant in grants.items() if number != ATTRIBUTES}
    for part in (extent, content):
        for grant in sorted(set(part.values())):
            for first, count in runs(sorted(n for n, g in part.items() if g == grant)):
                fresh = tuple(range(first, first + count))
                yield Release(file, first, count, fresh, grant=grant)


def _refused(left: LeftFile, numbers: list[int], *, sure: bool = True) -> RefusedContent:
    """sure: what is not known to be the content as it was written is never put over another. Where
    home goes on with its own size it cuts off what it took behind that: so that is refused too."""
    extent = left.waiting.extent if ATTRIBUTES in numbers else None
    numbers = sorted(left.waiting.grants) if ATTRIBUTES in numbers else numbers
    base = left.waiting.base if sure and set(numbers) == set(left.waiting.grants) else None
    content = [number for number in numbers if number != ATTRIBUTES]
    return RefusedContent(left.file, content, left.read, extent, left.name, base, left.gone)


def put_aside(folder: Path, why: str) -> Path:
    """A journal that cannot be read is not looked at again, and stays for people to look at. Its
    new name. Raises OSError."""
    aside = folder.with_name(f"{folder.name}.damaged")
    number = 0
    while aside.exists():
        number += 1
        aside = folder.with_name(f"{folder.name}.damaged-{number}")
    folder.rename(aside)
    log.error("the journal %s cannot be read and is kept as %s: %s", folder, aside, why)
    return aside
