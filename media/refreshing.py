# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The medium gets a newer checkpoint of home's while a session uses it.

Only what differs from the checkpoint that the medium has is asked of home, a piece at a time:
operations and streams go first. What came is kept in a store on this client's disk until the medium
has it, so that a link that breaks costs nothing. Then it is as when home writes: chunks, manifest,
commit, each durable before the next one. A medium that is pulled out has the old checkpoint or the
new one.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from chunkstore import ChunkMissing, Store, TableRoot, difference, pages_missing, split_refs
from images import Manifest
from media import (
    Media,
    MediaCheckpoint,
    PartPlan,
    SignedManifest,
    WriteReport,
    checkpoints_on,
    commit_checkpoints,
    part_of,
    read_manifest,
)
from replica import DeltaInvalid, Run, apply_delta, decode_delta, decode_profile
from satchel.errors import IntegrityError, SatchelError, StateError
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Chunks that are asked of home at once: what is urgent does not wait behind more."""

Fetch = Callable[[bytes], bytes]
"""From references to the pack records of those that home has, when it is its turn."""


class Refresher:
    """Of one service and one medium. One call at a time.

    Whoever makes it closes the medium, which must not be before the last call has returned.
    """

    def __init__(self, media: Media, service: str, folder: Path, fetch: Fetch) -> None:
        """folder: for what has come and is not on the medium yet; need not exist. fetch: raises
        what its link raises, or whatever ends the call."""
        self._media = media
        self._service = service
        self._folder = folder
        self._fetch = fetch

    def on_medium(self) -> Manifest | None:
        """The newest whole checkpoint there, whoever signed it. Raises MediaDamaged, MediaGone, and
        what a manifest raises."""
        found = self._found()
        return read_manifest(self._media, found) if found else None

    def _found(self) -> MediaCheckpoint | None:
        there = checkpoints_on(self._media)
        return next((one for one in there if one.service == self._service and one.whole), None)

    def bring(
        self, new: SignedManifest, deltas: Iterable[bytes] = (), in_use: Sequence[Manifest] = ()
    ) -> WriteReport:
        """Make a generation with this checkpoint; nothing is written where it is there already.

        deltas: since the checkpoint on the medium, one after the other, as far as they are here:
        what they lead to is not asked of home. in_use: checkpoints with which replicas began that
        run; they may still read of the medium what it has of them. Raises StateError where the
        medium has no checkpoint of the service, ChunkMissing for what home does not have, what
        `fetch` raises, MediaFull, MediaReadOnly, MediaGone. A medium that has a part of the one
        before gets what of that is in the new one, and all that differs.
        """
        found = self._found()
        if found is None:
            raise StateError(
                f"the medium at {self._media.root} has no checkpoint of {self._service}",
                fix=f"`satchel-home checkpoint {self._service} --media PATH` at home",
            )
        base, part = read_manifest(self._media, found), part_of(self._media, found)
        if base.id == new.manifest.id:
            return WriteReport(self._media.newest, 0, 0, 0)
        with self._store() as store:
            came = _ChunkCollector(store, self._media, self._fetch)
            _apply(came, base, deltas)
            volumes = _differing(came, base, new.manifest)
            came.require(volumes)
            _make_working_set(came, new.manifest)
            refs = list(dict.fromkeys([*_first(came, new.manifest), *volumes]))
            came.require(refs)
            needed = [root for manifest in in_use for root in manifest.roots()]
            written = self._media.add(store, b"".join(refs))
            parts = {self._service: PartPlan(part.of, part.budget, part.likely)} if part else {}
            generation, freed = commit_checkpoints(self._media, [new], needed, parts)
        self.forget()
        return WriteReport(generation, len(refs), written, freed)

    def forget(self) -> None:
        """Give up what has come and is not on the medium."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _store(self) -> Store:
        self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._folder.exists():
            try:
                return Store.open(self._folder)
            except SatchelError as error:
                logger.info("%s: it is begun anew", error)
                self.forget()
        return Store.create(self._folder)


class _ChunkCollector:
    """Chunks from the store, else the medium, else home, which is asked for what both lack."""

    def __init__(self, store: Store, media: Media, fetch: Fetch) -> None:
        self.store = store
        self._media = media
        self._fetch = fetch

    def records(self, refs: bytes | bytearray | memoryview) -> bytes:
        """Of those chunks. Raises ChunkMissing, and what `fetch` raises."""
        wanted = split_refs(bytes(refs))
        self.require(wanted)
        there = zip(wanted, self.store.has(bytes(refs)), strict=True)
        others = b"".join(ref for ref, here in there if not here)
        return self.store.records(refs) + self._media.records(others)

    def require(self, refs: Sequence[ChunkRef]) -> None:
        """Have them in the store or on the medium. Raises as `records`."""
        data = b"".join(refs)
        there = zip(refs, self.store.has(data), self._media.has(data), strict=True)
        lacking = [ref for ref, stored, on_medium in there if not (stored or on_medium)]
        for start in range(0, len(lacking), AT_ONCE):
            piece = lacking[start : start + AT_ONCE]
            self.store.admit(self._fetch(b"".join(piece)))
            for ref, here in zip(piece, self.store.has(b"".join(piece)), strict=True):
                if not here:
                    raise ChunkMissing("home does not have all of its newest checkpoint", ref=ref)

    def read(self, root: TableRoot, offset: int, length: int) -> bytes:
        """These bytes of a volume or blob, whose chunks are in the store then."""
        while missing := self.store.missing_in(root, offset, length):
            self.store.admit(self.records(missing))
        return self.store.read(root, offset, length)

    def pages(self, root: TableRoot, numbers: Iterable[int]) -> None:
        """Have in the store the pages of a table above these blocks."""
        blocks = sorted(set(numbers))
        while missing := pages_missing(self.store, root, blocks):
            self.store.admit(self.records(b"".join(missing)))


def _apply(came: _ChunkCollector, base: Manifest, deltas: Iterable[bytes]) -> None:
    """Have in the store what deltas since a checkpoint lead to. Where they do not, home is asked
    for it."""
    tables, sizes = base.volumes, {name: root.blocks for name, root in base.volumes.items()}
    try:
        for data in deltas:
            delta = decode_delta(data, sizes)
            changed: dict[str, set[int]] = {}
            for name, number in delta.numbers():
                changed.setdefault(name, set()).add(number)
            for name, numbers in changed.items():
                came.pages(tables[name], numbers)
            tables = apply_delta(came.store, tables, delta)
            came.store.import_bytes(delta.device_state)
    except (ChunkMissing, DeltaInvalid) as error:
        logger.info("a delta is not for the checkpoint on the medium: %s", error)


def _differing(came: _ChunkCollector, base: Manifest, new: Manifest) -> list[ChunkRef]:
    """The references of what a checkpoint's volumes have otherwise than on the medium."""
    found: dict[ChunkRef, None] = {}
    for name in sorted(new.volumes):
        found |= dict.fromkeys(_references(came, base.volumes.get(name), new.volumes[name]))
    return list(found)


def _first(came: _ChunkCollector, new: Manifest) -> Iterator[ChunkRef]:
    """The references of what a resume reads first."""
    for root in new.first_roots():
        yield from _references(came, None, root)


def _make_working_set(came: _ChunkCollector, new: Manifest) -> None:
    """Have in the store the working set that home has made of the profile and of what is here now.
    Where other bytes come out (another liblzma), home is asked for its own."""
    if new.working_set is None or new.profile is None:
        return
    try:
        came.require(_references(came, None, new.profile))
        profile = decode_profile(came.read(new.profile, 0, new.profile.size), new.volumes)

        def read(run: Run) -> bytes:
            start, length = run.first * BLOCK_SIZE, run.count * BLOCK_SIZE
            return came.read(new.volumes[run.volume], start, length)

        if came.store.import_bytes(profile.working_set(read)) != new.working_set:
            logger.info("home's working set of %s is another one", new.service)
    except IntegrityError as error:
        logger.info("home's working set of %s is not made here: %s", new.service, error)


def _references(came: _ChunkCollector, old: TableRoot | None, new: TableRoot) -> list[ChunkRef]:
    if new.ref == ZERO_REF:
        return []
    if old is None or old.size != new.size:
        old = TableRoot(ZERO_REF, new.size)
    return difference(came, old, new).references()
