# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The store, as the programs above use it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from chunkstore._native import _core
from chunkstore.block_map import BlockMap, BlockState
from chunkstore.errors import ChunkInvalid, ChunkMissing, FileExists, FileMissing
from chunkstore.reports import (
    BadRecord,
    EvictionReport,
    Level,
    PruneReport,
    SettleReport,
    StoreStats,
    VerifyReport,
)
from chunkstore.table import TableRoot
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef, chunk_id
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview


class Store:
    """Chunks in packs with an index, and the volumes made of them.

    Thread-safe: the GIL is released around all IO and hashing. One object in one process has a
    store open. Every method may raise StoreFailed, StoreDenied, StoreFull, and StoreState once
    the store is closed or after a failed sync. References are passed as n * 52 bytes.

    collisions: blocks stored since it was opened that have the SHA-1 of another chunk here. Both
        are kept, and told apart by their SHA-256. Somebody has made them, so it is logged.
    """

    def __init__(self, path: Path, native: _core.Store) -> None:
        self._path = path
        self.native = native
        self.collisions = 0

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """Make an empty store in a folder that is not there, or empty, and open it.

        A folder that is made is this user's only: a store holds what machines had in memory.
        Raises StoreExists; FileMissing if the parent folder is not there.
        """
        _require_folder(Path(path))
        with suppress(OSError):  # that it is there already, or cannot be made, is said below
            Path(path).mkdir(mode=0o700)
        _core.Store.create(path)
        return cls.open(path)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        level: int = 1,
        pack_limit: int = 0,
        max_pending: int = 0,
    ) -> Store:
        """Open a store, recovering what a crash left.

        level: of zstd, for what is stored from now on; 0 stores raw, which is fastest, as long as
            there is room for that
        pack_limit: bytes of a pack, 0 for the format's limit
        max_pending: chunks after which the index is written even without a sync, 0 for the default
        Raises StoreNotFound, StoreLocked, StoreVersion, StoreDamaged.
        """
        return cls(Path(path), _core.Store.open(path, level, pack_limit, max_pending))

    @classmethod
    def open_to_read(cls, path: str | os.PathLike[str]) -> Store:
        """Open a store without writing anything: on a disk that is full or read-only.

        Several processes may have it open so, and none to write meanwhile. Whatever would have to
        write raises StoreDenied. Raises as `open`, and StoreDamaged where the index has to be
        rebuilt.
        """
        return cls(Path(path), _core.Store.open_to_read(path))

    @classmethod
    def open_to_relieve(cls, path: str | os.PathLike[str]) -> Store:
        """As `open_to_read`, but nobody else may have it open: for `remove_dead`, on a disk that is
        too full to open the store otherwise. Raises StoreLocked, too."""
        return cls(Path(path), _core.Store.open_to_relieve(path))

    def remove_dead(self, keep: Iterable[TableRoot]) -> int:
        """Free bytes by removing alone, in a store that was opened to relieve its disk.

        What was never acknowledged goes, and what is not reachable from `keep`, which may leave
        holes in packs; `prune` does the rest as soon as there is room. Gives back how many bytes
        went. No machine may be running. Raises ChunkMissing.
        """
        return self.native.remove_dead(_pairs(keep))

    def close(self) -> None:
        """Sync and let go of the store. Nothing happens the second time."""
        self.native.close()

    def give_back(self) -> None:
        """Close the store without what was put since the last sync, whose room is free again.

        For an import that failed for lack of room, in a store that no machine uses: on a disk that
        is full to the last byte a store cannot even be opened, say to prune it.
        """
        self.native.give_back()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self._path

    @property
    def packs_path(self) -> Path:
        """The folder of its packs, which the nbdkit plugin reads."""
        return self._path / "packs"

    @property
    def pack_bytes(self) -> int:
        """Bytes of all packs, about, without a look into the index."""
        size = 0
        for path in self.packs_path.glob("*.pack"):
            with suppress(FileNotFoundError):  # it has just been removed
                size += path.stat().st_size
        return size

    def put(self, blocks: Buffer) -> bytes:
        """Store n * 4096 bytes, give back n references; ZERO_REF for a zero block."""
        refs = self.native.put(blocks)
        self._tell_collisions()
        return refs

    def get(self, ref: ChunkRef) -> bytes:
        """The 4096 bytes of a chunk, both hashes checked. Raises ChunkMissing, ChunkInvalid.

        A chunk that turned out invalid is missing from then on, until it is put or admitted again.
        """
        return self.native.get(ref)

    def has(self, refs: Buffer) -> list[bool]:
        """Whether each chunk is here. ZERO_REF always is."""
        return self.native.has(refs)

    def records(self, refs: Buffer) -> bytes:
        """The pack records of those chunks that are here and whole, in the order asked for.

        The answer may have refs * 4160 bytes: the caller caps the number of references.
        """
        return self.native.records(refs)

    def admit(self, records: Buffer) -> bytes:
        """Take pack records from anybody, give back the references that they carry.

        Checksum, decompression, SHA-1 and SHA-256 of each are checked. Raises ChunkInvalid at the
        first that is not right; those before it stay admitted.
        """
        try:
            return self.native.admit(records)
        finally:
            self._tell_collisions()

    def sync(self) -> None:
        """Make everything put and admitted so far durable."""
        self.native.sync()

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        base: TableRoot | None = None,
        progress: Progress = silent,
    ) -> TableRoot:
        """Store the content of a raw file or block device, holes as zeros. Durable on return.

        base: a volume of this store that is much like it; makes it faster, never different
        progress: bytes of data, holes not counted
        Raises FileMissing; StoreFailed if the file becomes shorter meanwhile.
        """
        return self.import_with_levels(path, base=base, progress=progress)[0]

    def import_with_levels(
        self,
        path: str | os.PathLike[str],
        *,
        base: TableRoot | None = None,
        progress: Progress = silent,
    ) -> tuple[TableRoot, tuple[Level, ...]]:
        """As `import_file`, and at which levels it stored what was new."""
        ref = base.ref if base is not None else None
        size = base.size if base is not None else 0
        root, levels = self.native.import_file(path, ref, size, progress)
        self._tell_collisions()
        return _root(root), tuple(Level(level, *added) for level, added in sorted(levels.items()))

    def import_bytes(self, data: Buffer) -> TableRoot:
        """Store a small volume that is in memory. Durable on return."""
        root = _root(self.native.import_bytes(data))
        self._tell_collisions()
        return root

    def export_file(
        self, root: TableRoot, path: str | os.PathLike[str], progress: Progress = silent
    ) -> None:
        """Write a volume to a sparse file, which appears under its name when it is complete.

        Both hashes of every chunk are checked. An existing regular file is replaced. Raises
        ChunkMissing, ChunkInvalid; FileExists if the path is something else than a file,
        FileMissing if its folder is not there.
        """
        if Path(path).exists() and not Path(path).is_file():
            raise FileExists(f"cannot export to {os.fspath(path)}", why="it is not a regular file")
        _require_folder(Path(path))
        self.native.export_file(root.ref, root.size, path, progress)

    def check(self, root: TableRoot, progress: Progress = silent) -> None:
        """Read every chunk of a volume, as an export does. Raises ChunkMissing, ChunkInvalid."""
        self.native.check(root.ref, root.size, progress)

    def read(self, root: TableRoot, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a volume, by default all of it; for small ones. Raises ChunkMissing."""
        count = root.size - offset if length is None else length
        return self.native.read(root.ref, root.size, offset, count)

    def resolve(self, root: TableRoot, map: BlockMap, first: int, count: int) -> bytes:
        """Fill absent entries of [first, first + count): zero blocks and chunks that are here.

        Gives back the references to fetch before another call gets further: table pages if a page
        on the way is missing, else chunks; none twice. b"" means that no block is absent. Entries
        that are not absent are never changed. Raises ChunkInvalid for a hostile table.
        """
        return self.native.resolve(root.ref, root.size, map.native, first, count)

    def missing_in(self, root: TableRoot, offset: int, length: int) -> bytes:
        """References to fetch before `read` of those bytes gets further: table pages if a page on
        the way is missing, else chunks; none twice."""
        first = offset // BLOCK_SIZE
        last = -(-min(offset + length, root.size) // BLOCK_SIZE)
        return self.native.missing_in(root.ref, root.size, first, max(0, last - first))

    def place(self, map: BlockMap, numbers: Sequence[int], blocks: Buffer) -> None:
        """Store blocks, 4096 bytes for each number, and fill those entries that are absent.

        The caller answers for it that these blocks are the volume's. Entries that are not absent
        are never changed. Raises StoreUsage, before anything is done, for a number that the map
        has not.
        """
        self.native.place(map.native, numbers, blocks)
        self._tell_collisions()

    def place_named(self, map: BlockMap, numbers: Sequence[int], refs: Buffer) -> bytes:
        """Fill those of these entries that are absent and whose chunk is here, by its whole
        reference, 52 bytes for each number. Both hashes of each chunk are checked. Gives back the
        references of the others that are absent, none twice.

        The caller answers for it that these chunks are the volume's. Entries that are not absent
        are never changed. Raises IndexError for a number that the map has not.
        """
        pairs = zip(numbers, split_refs(bytes(refs)), strict=True)
        absent = [(n, ref) for n, ref in pairs if map.entry(n).state is BlockState.ABSENT]
        wanted = [*dict.fromkeys(ref for _, ref in absent)]
        found: dict[ChunkRef, bytes] = {}
        for ref, here in zip(wanted, self.has(b"".join(wanted)), strict=True):
            if here:
                with suppress(ChunkMissing, ChunkInvalid):  # damaged, or given up just now
                    found[ref] = self.get(ref)
        placed = [(n, found[ref]) for n, ref in absent if ref in found]
        if placed:
            self.place(map, [n for n, _ in placed], b"".join(block for _, block in placed))
        return b"".join(ref for ref in wanted if ref not in found)

    def commit(
        self, root: TableRoot, map: BlockMap, overlay_path: str | os.PathLike[str]
    ) -> TableRoot:
        """Store the dirty blocks of a volume and give its new root. Durable after the next `sync`
        or import.

        Then those entries become packed or zero; `map.ask_for_space` has their space in the
        overlay given back. The machine is paused and the volume flushed. Raises ChunkMissing when
        a table page on the way is not here; after an error the map is as before.
        """
        made = _root(self.native.commit(root.ref, root.size, map.native, overlay_path))
        self._tell_collisions()
        return made

    def reachable(self, roots: Iterable[TableRoot]) -> bytes:
        """References of all pages and chunks, in the order of the tables, none twice.

        Raises ChunkMissing when a page is not here; chunks need not be.
        """
        return self.native.reachable(_pairs(roots))

    def missing(self, *roots: TableRoot) -> bytes:
        """References under the roots that are not here; of a missing page, only the page."""
        return self.native.missing(_pairs(roots))

    def verify(self, progress: Progress = silent) -> VerifyReport:
        """Read every record and check its hashes, and the index against them. Changes nothing."""
        report = self.native.verify(progress)
        return VerifyReport(
            records=report["records"],
            bytes=report["bytes"],
            unclaimed=report["unclaimed"],
            bad=tuple(BadRecord(*bad) for bad in report["bad"]),
            lost=split_refs(report["dangling"]),
            unindexed=split_refs(report["unindexed"]),
        )

    def rebuild_index(self, progress: Progress = silent) -> None:
        """Make the index anew from the packs. Other calls wait. Can be repeated after a crash."""
        self.native.rebuild_index(progress)

    def prune(
        self,
        keep: Iterable[TableRoot],
        *,
        maps: Iterable[BlockMap] = (),
        partial: bool = False,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> PruneReport:
        """Remove what is not reachable from `keep`. Other calls wait. A pack stays for which there
        is no room to copy what it keeps. What is removed when it is interrupted stays removed.

        What attached volumes need stays too: their roots, and packs that their maps point into,
        from the first `resolve` with a map until that is closed. So do roots that were made within
        `making`, as long as somebody may still be about to name them. Whoever prunes beside others
        lists the roots to keep, and prunes, within `making`.

        maps: of volumes that another process has attached
        partial: this store is a cache: pages under `keep` may be missing
        dry_run: change nothing, tell what would be removed
        Raises ChunkMissing, and then nothing was removed.
        """
        natives = [map.native for map in maps]
        done = self.native.prune(_pairs(keep), natives, partial, dry_run, progress)
        return PruneReport(**done)

    def rewrite(self, packs: Iterable[int]) -> None:
        """Copy what is whole and needed out of these packs, by number, and remove them, with the
        garbage and the damage in them. Other calls wait."""
        self.native.rewrite(sorted(packs))

    def evict(self, refs: Buffer) -> EvictionReport:
        """For a cache: give these chunks up, and the room that they took where there is much of it.

        What maps of attached volumes point to stays. Other calls wait, for the copying of what is
        left in packs that are mostly garbage. Raises StoreFull where not even that can be copied;
        the chunks are given up then, their room is not.
        """
        count, pinned, size = self.native.evict(refs)
        return EvictionReport(count, split_refs(pinned), size)

    def names(self) -> tuple[ChunkRef, ...]:
        """Every chunk that is here, in the order of the packs, about that of arrival."""
        return split_refs(self.native.names())

    def names_in(self, map: BlockMap, blocks: Sequence[int]) -> tuple[ChunkRef, ...]:
        """What stands in the packs where these blocks are, by an attached map; the zero reference
        for a block that is not packed. Raises IndexError."""
        return split_refs(self.native.names_in(map.native, blocks))

    @contextmanager
    def making(self, *keep: TableRoot) -> Iterator[None]:
        """Within it, no prune takes roots that are made, nor these, before they are named.

        Whoever makes a root and names it (a manifest, a catalog) does both within one. Threads may
        be within at once; none waits for a prune but for the time of one.
        """
        maker = self.native.begin_making()
        try:
            self.native.keep(_pairs(keep))
            yield
        finally:
            self.native.end_making(maker)

    def settle(
        self,
        *,
        maps: Iterable[BlockMap] = (),
        background: bool = False,
        progress: Progress = silent,
    ) -> SettleReport:
        """Compress what imports and checkpoints stored as it was: chunks go into frames of several.

        Runs beside everything else and waits while an import or a checkpoint runs. Maps that point
        to what is moved are made to point to where it goes. What is done stays done, whether this
        is interrupted, killed or runs out of space.

        maps: those of attached volumes that this object was not used with yet
        background: take only what nobody else wants of processor and disk
        progress: bytes as they were stored before
        """
        natives = [map.native for map in maps]
        return SettleReport(**self.native.settle(natives, background, progress))

    def stats(self) -> StoreStats:
        """Count what is in the store. Goes through the whole index."""
        return StoreStats(**self.native.stats())

    def _tell_collisions(self) -> None:
        for ref in split_refs(self.native.take_namesakes()):
            self.collisions += 1
            logger.warning(
                "two different blocks have the SHA-1 %s; both are stored, each as itself: "
                "somebody has made them so",
                chunk_id(ref).hex(),
            )


def name_blocks(blocks: Buffer) -> bytes:
    """References of n * 4096 bytes, without storing anything; ZERO_REF for a zero block."""
    return _core.name_blocks(blocks)


def split_refs(refs: bytes) -> tuple[ChunkRef, ...]:
    """n * 52 bytes as n references."""
    return tuple(
        ChunkRef(refs[i : i + CHUNK_REF_SIZE]) for i in range(0, len(refs), CHUNK_REF_SIZE)
    )


def _require_folder(path: Path) -> None:
    parent = path.absolute().parent
    if not parent.is_dir():
        raise FileMissing(f"cannot make {path}", why=f"there is no folder {parent}")


def _pairs(roots: Iterable[TableRoot]) -> list[tuple[ChunkRef, int]]:
    return [(root.ref, root.size) for root in roots]


def _root(pair: tuple[bytes, int]) -> TableRoot:
    return TableRoot(ChunkRef(pair[0]), pair[1])
