# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The media of one session: those that the person named, and all others of this person.

A medium that the person did not name counts if it is sealed and a key here opens it. Of two copies
the first one counts. All are sources of chunks. Those with a checkpoint of the service get newer
ones. The medium that knows the latest operation has the session's log; the others get the log with
each newer checkpoint.

A medium may be pulled out at any time. Its readers continue with the others and with home.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chunkstore import MediaGone
from client.platform.settings import ClientSettings
from client.session.checkpoints import candidates
from client.session.journal import Journal, JournalParted
from images import Manifest
from media import Media, mount_table, sealed_media
from replay import Log, Operation
from satchel.errors import NotFoundError, SatchelError
from satchel.ids import CHUNK_REF_SIZE, OperationNumber

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0

EXTENDED_AT_ONCE = 1024
"""Operations."""

NamedMedia = Path | Sequence[Path] | None
"""The folders of the media that the person named."""


class Stick:
    """One medium. newest: its newest whole checkpoint of the service that the owner signed, or
    None; failure: why it gets no newer one."""

    def __init__(self, media: Media) -> None:
        self.media = media
        self.root = media.root
        self.uuid = media.uuid
        self.newest: Manifest | None = None
        self.failure: str | None = None
        self.there = True

    def log_of(self, service: str) -> list[Operation]:
        """Return the operations of its log; empty if there is none or it cannot be read."""
        path, secret = self.media.log_path(service), self.media.log_secret(service)
        try:
            if not Log.exists(path):
                return []
            with Log.open(path, read_only=True, secret=secret) as log:
                return list(log.read(OperationNumber(log.first - 1)))
        except SatchelError as error:
            logger.warning("the log on the medium at %s: %s", self.root, error)
            return []

    def require_log_folder(self, service: str) -> None:
        """Raise MediaGone unless it is there: a log must not begin where a medium was mounted."""
        if not self.media.log_path(service).parent.is_dir():
            raise MediaGone(f"the medium at {self.root} was pulled out")

    def status(self) -> dict[str, Any]:
        """Return its row in `satchel status`."""
        generation = free = None
        with suppress(SatchelError):
            generation, free = self.media.newest, self.media.free_bytes()
        return {
            "path": str(self.root),
            "generation": generation,
            "free_bytes": free,
            "checkpoint": self.newest.id if self.newest else None,
            "damaged": self.media.damaged,
            "failure": self.failure if self.there else "pulled out",
        }


class Sticks:
    """The media of one session. Thread-safe; `close` ends its thread and closes all media."""

    def __init__(self, settings: ClientSettings, service: str, named: NamedMedia) -> None:
        """named: sealed or not"""
        self._settings, self._service, self._named = settings, service, named
        self._looking = threading.Lock()
        self._mounts = ""
        self._unusable: set[Path] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._all: tuple[Stick, ...] = ()
        self.main: Stick | None = None

    def open(self) -> None:
        """Open the named media, and all others that are here. Raises the errors of `Media.open` for
        the named ones; `close` is due all the same."""
        named = self._named
        for root in [named] if isinstance(named, Path) else named or ():
            self._add(Media.open(root, self._settings.media_keys))
        self.look()
        self.main = self._furthest()

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def media(self) -> list[Media]:
        """All of them, the one with the session's log first."""
        return [stick.media for stick in self._sorted()]

    def of_service(self) -> list[Stick]:
        """Return those with a checkpoint of the service, the one with the session's log first."""
        return [stick for stick in self._sorted() if stick.newest is not None]

    def records(self, refs: bytes) -> bytes:
        """Return the pack records of the chunks that any medium has. A medium that is pulled out
        has none."""
        media = [stick.media for stick in self._sorted() if stick.there]
        if len(media) == 1:
            return media[0].records(refs)
        found, left = [], bytes(refs)
        for one in media:
            try:
                there = one.has(left)
                mine, others = _split(left, there)
                records, damaged = one.read(mine)
                found.append(records)
                left = others + damaged
            except SatchelError as error:
                logger.info("the medium at %s: %s", one.root, error)
        return b"".join(found)

    def require_standing(self) -> None:
        """Drop media that home refuses. Raise MediaRevoked for the one with the log."""
        for stick in self._all:
            try:
                self._settings.media_keys.require_standing(stick.root, stick.uuid)
            except SatchelError:
                if stick is self.main:
                    raise
                self._all = tuple(one for one in self._all if one is not stick)
                stick.media.close()

    def require_one_history(self, journal: Journal, *, home: bool) -> None:
        """Raise JournalParted if another medium's log has other operations than the journal. With
        home, which decides, that medium only gets nothing any more."""
        for stick in self.of_service():
            if stick is not self.main and (parted := _parted(journal, stick, self._service)):
                if not home:
                    raise parted
                logger.warning("%s", parted)
                stick.failure = str(parted)

    def start(self, plugged: Callable[[Stick], None]) -> None:
        """Look for more from now on. plugged: gets each that came, or came back; returns soon."""

        def run() -> None:
            while not self._closing.wait(LOOK_SECONDS):
                for stick in self.look():
                    plugged(stick)

        self._thread = threading.Thread(target=run, name="sticks", daemon=True)
        self._thread.start()

    def look(self) -> list[Stick]:
        """Return those that came, or came back, since the last look. Never fails."""
        with self._looking:
            came = [stick for stick in self._all if self._came_back(stick)]
            if (mounts := mount_table()) == self._mounts:
                return came
            self._mounts = mounts
            for root in sealed_media(self._settings.media_keys):
                if root in self._unusable or any(_same(stick, root) for stick in self._all):
                    continue
                try:
                    media = Media.open(root, self._settings.media_keys)
                    came += [stick] if (stick := self._add(media)) else []
                except SatchelError as error:
                    logger.info("the medium at %s is not used: %s", root, error)
            return came

    def status(self) -> list[dict[str, Any]]:
        """Return a row for each, the one with the session's log first."""
        return [stick.status() for stick in self._sorted()]

    def close(self) -> None:
        """Look no more, and close them. Never fails."""
        self._closing.set()
        if self._thread:
            self._thread.join()
        for stick in self._all:
            stick.media.close()

    def _sorted(self) -> list[Stick]:
        return sorted(self._all, key=lambda stick: stick is not self.main)

    def _add(self, media: Media) -> Stick | None:
        """None for a copy of another one that is there."""
        try:
            stick = Stick(media)
        except SatchelError:
            media.close()
            raise
        others = [one for one in self._all if one.uuid == stick.uuid]
        if any(one.there for one in others):
            logger.warning("the medium at %s is a copy of another one: not used", stick.root)
            self._unusable.add(stick.root)
            media.close()
            return None
        self._read(stick)
        self._all = (*(one for one in self._all if one not in others or one is self.main), stick)
        return stick

    def _read(self, stick: Stick) -> None:
        """Look for the service on it."""
        stick.failure = None
        try:
            signers = self._settings.allowed_signers
            stick.newest = candidates(self._service, [stick.media], None, signers)[0].manifest
        except NotFoundError:
            stick.newest = None
        except SatchelError as error:
            stick.newest, stick.failure = None, str(error)

    def _came_back(self, stick: Stick) -> bool:
        before, stick.there = stick.there, (stick.root / "satchel" / "media.json").is_file()
        if stick.there and not before:
            self._read(stick)
        return stick.there and not before

    def _furthest(self) -> Stick | None:
        """The one whose log or checkpoint knows the latest operation; else the first."""

        def known(stick: Stick) -> tuple[int, int]:
            log = stick.log_of(self._service)
            newest = stick.newest.operation if stick.newest else -1
            return max(log[-1].number if log else 0, newest), newest

        there = [stick for stick in self._all if stick.newest] or list(self._all)
        if len(there) < 2:
            return next(iter(there), None)
        return max(there, key=known)


def extend_log(journal: Journal, onto: Journal, stick: Stick) -> None:
    """Have `onto`, the log of a medium, continue until now if it ends after the journal begins.
    Raises JournalParted, and the errors of a journal."""
    number = min(journal.last, onto.last)
    if number > max(journal.base, onto.base):
        _require_same(number, journal.get(number), onto.get(number), stick)
    while journal.base <= onto.last < journal.last:
        onto.extend(journal.wait(onto.last, EXTENDED_AT_ONCE, 0.0))


def settle_log(
    journal: Journal, onto: Journal, stick: Stick, checkpoint: Manifest, oldest: OperationNumber
) -> None:
    """Have that log begin with the medium's oldest checkpoint, at operation `oldest`, or with the
    new one if it does not lead on to that. Raises as a journal."""
    if not onto.base <= checkpoint.operation <= onto.last:
        onto.restart(checkpoint.operation)
        extend_log(journal, onto, stick)
    onto.cut(oldest)


def _parted(journal: Journal, stick: Stick, service: str) -> JournalParted | None:
    for operation in reversed(stick.log_of(service)):
        if (mine := journal.get(operation.number)) is not None:
            try:
                _require_same(operation.number, mine, operation, stick)
            except JournalParted as parted:
                return parted
            return None
    return None


def _require_same(
    number: OperationNumber, mine: Operation | None, its: Operation | None, stick: Stick
) -> None:
    if mine and its and mine.digest != its.digest:
        raise JournalParted(
            number,
            f"on the medium at {stick.root}",
            fix="plug in one of the media only, or start where home can be reached",
        )


def _split(refs: bytes, there: Sequence[bool]) -> tuple[bytes, bytes]:
    """Return the references that are there, and the others."""
    size = CHUNK_REF_SIZE
    pieces = [refs[start : start + size] for start in range(0, len(refs), size)]
    paired = list(zip(pieces, there, strict=True))
    mine = b"".join(piece for piece, here in paired if here)
    return mine, b"".join(piece for piece, here in paired if not here)


def _same(stick: Stick, root: Path) -> bool:
    with suppress(OSError):
        return (stick.root / "satchel").samefile(root / "satchel")
    return False
