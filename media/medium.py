# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Portable media: packs, checkpoints and logs on FAT32 or exFAT, trusted by nobody.

    ROOT/satchel/media.json                        format, version, UUID
    ROOT/satchel/key.age, key-N.age                of a sealed one: its keys (media/seal.py)
    ROOT/satchel/packs/                            packs and their index files, see media/media.h
    ROOT/satchel/commits/                          what each generation consists of
    ROOT/satchel/checkpoints/SERVICE-ID.json|.sig  manifests and their signatures
    ROOT/satchel/checkpoints/SERVICE-ID.part-CHECK says that a part of it is there (media/parts.py)
    ROOT/satchel/log/SERVICE-*                     the operations since

A generation is what `commit` made whole: packs, manifests, signatures. Two are kept. Logs belong to
none, they are kept by who writes them. All names are lower case, without links or permissions. No
folder is made but by `init`: FAT cannot do that in one step.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chunkstore import (
    ENGINES_HERE,
    BadRecord,
    Buffer,
    MediaDamaged,
    MediaEngine,
    MediaEngines,
    MediaGone,
    Store,
    TableRoot,
    split_refs,
)
from media.seal import NewSeal, Seal, SealKeys, remove_wrapped, wrapped_keys, write_wrapped
from satchel.errors import SatchelError
from satchel.files import open_regular, require_real_folder
from satchel.ids import CheckpointId, ChunkRef, chunk_id
from satchel.names import NAME, check_name
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

_DESCRIPTION_LIMIT = 4096
FILE_LIMIT = 1 << 20
"""Bytes of a manifest or a signature that are read."""

_MANIFEST = re.compile(r"checkpoints/([^/]+)\.json")
_PART = re.compile(r"checkpoints/([^/]+)\.part-([0-9a-f]{8})")
_CHECK_DIGITS = 8
_IN_CLEAR = re.compile(r"(.+)-([0-9a-f]{16})")
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Layout:
    """How many chunks of something are on a medium, and in how many pieces."""

    chunks: int
    pieces: int


@dataclass(frozen=True)
class Generation:
    """What one commit made. number: from 1. created: UTC, ISO 8601.

    paths: of manifests and signatures, below satchel/
    packs, pack_bytes: that it consists of
    lacks: the first part that is not there; empty if the generation is whole
    """

    number: int
    created: str
    paths: tuple[str, ...]
    packs: int
    pack_bytes: int
    lacks: str

    @property
    def whole(self) -> bool:
        """Whether all of its packs and files are there; what is in packs is for `verify`."""
        return not self.lacks


@dataclass(frozen=True)
class MediaCheckpoint:
    """A checkpoint that a generation names. generations: those, the newest first.

    whole: whether one of them is. part: the file that says that only a part of it was to be there,
    below satchel/; empty where all of it was
    """

    service: str
    id: CheckpointId
    generations: tuple[int, ...]
    whole: bool
    part: str = ""


@dataclass(frozen=True)
class MediaReport:
    """What reading every record of a medium showed: whole records, bytes of packs read, places
    that hold something else, chunks that an index names and no pack has whole."""

    records: int
    bytes: int
    bad: tuple[BadRecord, ...]
    damaged: tuple[ChunkRef, ...]


def media_uuid(root: Path) -> str:
    """The UUID of the medium at `root`, which anybody may have written. Raises MediaDamaged,
    MediaGone."""
    path = root / "satchel" / "media.json"
    try:
        with open(open_regular(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
            data = file.read(_DESCRIPTION_LIMIT)
        return str(uuid.UUID(json.loads(data)["uuid"]))
    except OSError as error:
        raise MediaGone(f"cannot read {path}", why=str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MediaDamaged(f"cannot read {path}", why="it has no uuid") from error


def seal_at(root: Path, keys: SealKeys | None) -> Seal | None:
    """What opens the medium at `root`; None for one that is not sealed. Without keys nothing sealed
    is opened. Raises as SealKeys.seal_of does, and MediaGone."""
    try:
        return (keys or SealKeys()).seal_of(root, media_uuid(root))
    except MediaDamaged:
        return None  # the engine says what is wrong with it
    except OSError as error:
        raise MediaGone(f"cannot read the medium at {root}", why=str(error)) from error


def _engines(seal: Seal | None, keys: SealKeys | None) -> MediaEngines:
    """What is sealed was written by who has its key, and is looked at after its tags were. What is
    in clear anybody may have written."""
    return keys.in_clear if keys is not None and seal is None else ENGINES_HERE


class Media:
    """The chunks and checkpoints on one medium. Thread-safe; one process writes at a time.

    Every method may raise MediaGone, and StoreState once it is closed. A medium that was pulled
    out is opened again when it is back. References are passed as n * 52 bytes.
    """

    def __init__(self, root: Path, native: MediaEngine, seal: Seal | None) -> None:
        self._root = root
        self._seal = seal
        self._native = native
        self._damaged: set[ChunkRef] = set()

    @classmethod
    def init(
        cls,
        root: str | os.PathLike[str],
        seal: NewSeal | None = None,
        keys: SealKeys | None = None,
    ) -> Media:
        """Make an empty medium in a mounted folder, whatever else is in it, and open it.

        seal: its key, which `keys` keeps; without one everything on it is in clear. Raises
        MediaExists, MediaNotFound if the folder is not there, MediaReadOnly, MediaFull, OSError.
        """
        name = seal.uuid if seal is not None else str(uuid.uuid4())
        place = Path(root)
        if seal is not None and place.is_dir() and not (place / "satchel" / "media.json").exists():
            write_wrapped(place, seal)
            if keys is not None:
                keys.keep(name, seal.seal)
        ENGINES_HERE.init(root, name)
        return cls._opened(place, seal.seal if seal is not None else None, keys)

    @classmethod
    def open(cls, root: str | os.PathLike[str], keys: SealKeys | None = None) -> Media:
        """Open the medium mounted at `root` and read its indexes; writes nothing.

        A pack without a usable index is scanned. keys: open sealed ones, and say what reads those
        in clear. Raises MediaNotFound, MediaDamaged, MediaVersion, MediaSealed, MediaRevoked, and
        NotRegular where a link stands for a folder: what is below it is elsewhere.
        """
        place = Path(root)
        for name in ("", "packs", "commits", "checkpoints", "log"):
            require_real_folder(place / "satchel" / name)
        there = (place / "satchel" / "media.json").exists()  # else the engine says what is not
        return cls._opened(place, seal_at(place, keys) if there else None, keys)

    @classmethod
    def _opened(cls, root: Path, seal: Seal | None, keys: SealKeys | None) -> Media:
        engines = _engines(seal, keys)
        return cls(root, engines.open(root, seal.content if seal else b""), seal)

    @staticmethod
    def redescribe(root: str | os.PathLike[str], keys: SealKeys | None = None) -> None:
        """Write what makes it a medium anew, where that is lost or damaged. Nothing happens to a
        sealed one, which without its UUID has no key. Raises MediaNotFound where there are no packs
        either."""
        if not wrapped_keys(Path(root)):
            _engines(None, keys).redescribe(Path(root), str(uuid.uuid4()), b"")

    def log_path(self, service: str) -> Path:
        """Where the operation log of a service is, what its files' names begin with; there may be
        none. Raises BadName."""
        name = check_name(service, "service")
        return self._root / "satchel" / "log" / (self._seal.log_name(name) if self._seal else name)

    def log_secret(self, service: str) -> bytes | None:
        """The key that its operations are sealed under there; None where they are in clear."""
        return self._seal.log_secret(service) if self._seal else None

    @property
    def seal(self) -> Seal | None:
        """What it is sealed with; None where all is in clear."""
        return self._seal

    def rotate(self, new: NewSeal, keys: SealKeys) -> None:
        """Give the medium that key, which `keys` keeps: what is opened from now on is written under
        it. This object goes on with the key before, and is to be closed.

        A crash leaves the key before or the new one, or both: then the new one counts for whoever
        it opens for, and the one before for the others. Raises MediaGone.
        """
        try:
            write_wrapped(self._root, new)
            keys.keep(self.uuid, new.seal)
            remove_wrapped(self._root, len(new.seal.keys))
        except OSError as error:
            raise MediaGone(f"cannot write to {self._root}", why=str(error)) from error

    def paths(self, checkpoint: MediaCheckpoint) -> tuple[str, str]:
        """Of the manifest and of its signature, below satchel/; where they are not there, of those
        that would be written."""
        names: tuple[str, ...] = (f"{checkpoint.service}-{checkpoint.id}",)
        if self._seal:
            names = self._seal.file_names(checkpoint.service, checkpoint.id)
        folder = self._root / "satchel" / "checkpoints"
        name = next((one for one in names if (folder / f"{one}.json").exists()), names[0])
        return f"checkpoints/{name}.json", f"checkpoints/{name}.sig"

    def files(self, checkpoint: MediaCheckpoint) -> tuple[str, ...]:
        """All that a generation names of a checkpoint, below satchel/."""
        paths = self.paths(checkpoint)
        return (*paths, checkpoint.part) if checkpoint.part else paths

    def close(self) -> None:
        """Let go of its files. Nothing happens the second time."""
        self._native.close()

    def __enter__(self) -> Media:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """Where the medium is mounted."""
        return self._root

    @property
    def uuid(self) -> str:
        """What identifies the medium, wherever it is mounted. Raises MediaDamaged, MediaGone."""
        return media_uuid(self._root)

    @property
    def damaged(self) -> int:
        """How many of its chunks were found damaged since it was opened."""
        return len(self._damaged)

    @property
    def chunks(self) -> int:
        """How many chunks its indexes name."""
        return self._native.chunks()

    def has(self, refs: Buffer) -> list[bool]:
        """Whether the indexes name each chunk. ZERO_REF always counts as there."""
        return self._native.has(refs)

    def records(self, refs: Buffer) -> bytes:
        """The pack records of those chunks that are here, in the order asked for.

        Their content is not verified: who receives them admits them. A record that is cut off or
        garbage is left out, counted in `damaged`, and logged the first time.
        """
        return self.read(refs)[0]

    def read(self, refs: Buffer) -> tuple[bytes, bytes]:
        """The same, and the references of the damaged records."""
        records, damaged = self._native.records(refs)
        self._report(damaged)
        return records, damaged

    def add(
        self, store: Store, refs: Buffer, progress: Progress = silent, *, again: int = 0
    ) -> int:
        """Copy the chunks that the medium lacks from a store, in order; bytes written.

        They are durable on return. After an error, what was copied in complete packs stays, and
        another call goes on from there; of a call that `progress` stopped, all that was copied.
        `refs` is all of a new generation: where room lacks, generations before the newest one
        make it. The first `again` of them are copied also if they are there, so that they lie in
        one piece. Raises MediaFull (before anything is written if it cannot fit), MediaReadOnly,
        ChunkMissing, ChunkInvalid.
        """
        return self._native.add(store.native, refs, again, progress)

    def put_checkpoint(
        self, service: str, checkpoint: CheckpointId, manifest: bytes, signature: bytes
    ) -> None:
        """Write a manifest and its signature, durable on return. No generation has them yet.

        Raises MediaFull, MediaReadOnly, BadName.
        """
        named = MediaCheckpoint(check_name(service, "service"), checkpoint, (), whole=False)
        for path, data in zip(self.paths(named), (manifest, signature), strict=True):
            self._native.put_file(path, data)

    def put_part(self, checkpoint: MediaCheckpoint, data: bytes) -> str:
        """Write what says that only a part of a checkpoint is there, durable on return; its path.
        The name has the beginning of its SHA-256, so that no generation's is ever replaced.

        Raises MediaFull, MediaReadOnly.
        """
        stem = self.paths(checkpoint)[0].removesuffix(".json")
        path = f"{stem}.part-{hashlib.sha256(data).hexdigest()[:_CHECK_DIGITS]}"
        self._native.put_file(path, data)
        return path

    def read_part(self, path: str) -> bytes:
        """What `put_part` wrote there. Raises MediaDamaged where it is something else."""
        named, data = _PART.fullmatch(path), self._read(path)
        if named is None or hashlib.sha256(data).hexdigest()[:_CHECK_DIGITS] != named[2]:
            raise MediaDamaged(f"cannot use {path} on the medium at {self._root}", why="damaged")
        return data

    def stray_parts(self, checkpoint: MediaCheckpoint) -> list[str]:
        """The paths of all such files of a checkpoint, whether or not a generation names them."""
        stem = self.paths(checkpoint)[0].removesuffix(".json")
        top = self._root / "satchel"
        paths = sorted(str(path.relative_to(top)) for path in top.glob(f"{stem}.part-*"))
        return [path for path in paths if _PART.fullmatch(path)]

    def commit(
        self,
        checkpoints: Iterable[MediaCheckpoint],
        roots: Sequence[TableRoot],
        *,
        carried: Sequence[TableRoot] = (),
        partial: Sequence[TableRoot] = (),
        chunks: Buffer = b"",
        keep_packs: bool = False,
    ) -> tuple[int, int]:
        """Make the next generation of these checkpoints: its number, and bytes freed by it.

        Durable on return. Of the older generations one is kept. Packs with nothing needed are not
        part of it; mostly unneeded ones, and many small ones, are copied together where there is
        room.

        roots: of the new checkpoints, all of whose chunks have to be on the medium
        carried: of those that were there before, and may be damaged
        partial: of which the medium has a part, and keeps that
        chunks: references of others that have to be on the medium, and stay
        keep_packs: other chunks are needed than these name
        Raises ChunkMissing, and nothing has changed; MediaFull, MediaReadOnly.
        """
        generation, freed, damaged = self._native.commit(
            [path for checkpoint in checkpoints for path in self.files(checkpoint)],
            [(root.ref, root.size) for root in roots],
            [(root.ref, root.size) for root in carried],
            [(root.ref, root.size) for root in partial],
            chunks,
            keep_packs,
            time.time_ns(),
        )
        self._report(damaged)
        return generation, freed

    def generations(self) -> list[Generation]:
        """Those that are there, the newest first."""
        return [
            Generation(
                number,
                datetime.fromtimestamp(created // 10**9, UTC).isoformat(),
                tuple(path for path, _, _ in files),
                packs,
                pack_bytes,
                lacks,
            )
            for number, created, files, packs, pack_bytes, lacks in self._native.generations()
        ]

    @property
    def newest(self) -> int:
        """The number of the newest generation, 0 where there is none."""
        return max((generation.number for generation in self.generations()), default=0)

    def commits(self) -> list[Path]:
        """The files that say what a generation consists of, whether they can be read or not."""
        return sorted((self._root / "satchel" / "commits").glob("*.commit"))

    def checkpoints(self, service: str | None = None) -> list[MediaCheckpoint]:
        """Every checkpoint, or every one of a service, that a generation names: the newest
        generation's first."""
        found: dict[tuple[str, CheckpointId], list[Generation]] = {}
        for generation in self.generations():
            for path in generation.paths:
                key = self._named_by(path)
                if key and service in (None, key[0]):
                    found.setdefault(key, []).append(generation)
        return [
            MediaCheckpoint(
                name,
                checkpoint,
                tuple(generation.number for generation in generations),
                whole=any(generation.whole for generation in generations),
                part=self._part_in(generations, (name, checkpoint)),
            )
            for (name, checkpoint), generations in found.items()
        ]

    def signed(self, checkpoint: MediaCheckpoint) -> tuple[bytes, bytes]:
        """The bytes that are there for its manifest and its signature, whatever they are. Raises
        MediaDamaged where they cannot be read."""
        manifest, signature = self.paths(checkpoint)
        return self._read(manifest), self._read(signature)

    def stray_checkpoints(self) -> list[MediaCheckpoint]:
        """Checkpoints whose files are there, whether or not a generation names them."""
        top = self._root / "satchel"
        paths = sorted(path.relative_to(top) for path in top.glob("checkpoints/*.json"))
        found = (self._named_by(str(path)) for path in paths)
        return [MediaCheckpoint(*named, (), whole=False) for named in found if named]

    def missing(self, *roots: TableRoot) -> bytes:
        """References under the roots that are not on the medium; of a missing page, only the
        page."""
        return self._native.missing([(root.ref, root.size) for root in roots])

    def pieces(self, *roots: TableRoot) -> Layout:
        """How what lies under the roots lies on the medium, read in the order of `reachable`."""
        return Layout(*self._native.pieces([(root.ref, root.size) for root in roots]))

    def verify(self, progress: Progress = silent) -> MediaReport:
        """Read every record and check both hashes. Changes nothing on the medium; from then on
        damaged chunks are missing to this object."""
        return self._reported(self._native.verify(progress))

    def rebuild_indexes(self, progress: Progress = silent) -> MediaReport:
        """Verify every pack that there is, and replace the indexes that do not say what is whole
        in them. Raises MediaReadOnly, MediaFull."""
        return self._reported(self._native.rebuild_indexes(progress))

    def free_bytes(self) -> int:
        """What the medium's file system has left, in bytes."""
        return self._native.free_bytes()

    def _read(self, path: str) -> bytes:
        try:
            return self._native.read_file(path)
        except SatchelError as error:
            raise MediaDamaged(
                f"cannot read {path} on the medium at {self._root}",
                why=error.why or str(error),
                fix="`satchel-home media recover` looks for what else is there",
            ) from error

    def _part_in(self, generations: Sequence[Generation], key: tuple[str, CheckpointId]) -> str:
        """The file that the newest whole one of these generations has of a checkpoint's part."""
        best = next((one for one in generations if one.whole), generations[0])
        parts = (path for path in best.paths if _PART.fullmatch(path))
        return next((path for path in parts if self._named_by(path, _PART) == key), "")

    def _named_by(
        self, path: str, pattern: re.Pattern[str] = _MANIFEST
    ) -> tuple[str, CheckpointId] | None:
        """Service and checkpoint of a manifest; None for what is no manifest's name."""
        named = pattern.fullmatch(path)
        if named is None:
            return None
        if self._seal:
            parts = self._seal.named_by(named[1])
        else:
            found = _IN_CLEAR.fullmatch(named[1])
            parts = (found[1], found[2]) if found else None
        if parts is None or not NAME.fullmatch(parts[0]) or not _ID.fullmatch(parts[1]):
            return None
        return parts[0], CheckpointId(parts[1])

    def _reported(self, report: tuple[int, int, list[tuple[int, int, str]], bytes]) -> MediaReport:
        records, count, bad, damaged = report
        return MediaReport(
            records, count, tuple(BadRecord(*one) for one in bad), split_refs(damaged)
        )

    def _report(self, damaged: bytes) -> None:
        for ref in set(split_refs(damaged)) - self._damaged:
            self._damaged.add(ref)
            logger.warning("%s: chunk %s is damaged", self._root, chunk_id(ref).hex())
