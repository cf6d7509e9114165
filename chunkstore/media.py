# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Portable media: packs, checkpoints and logs on FAT32 or exFAT, trusted by nobody.

    ROOT/satchel/media.json                 format, version, UUID
    ROOT/satchel/packs/                     packs and their index files, see core/media.h
    ROOT/satchel/checkpoints/SERVICE/       signed manifests
    ROOT/satchel/log/SERVICE/               the operations since

This module looks after the packs. Manifests and logs are written by who makes them; all names are
lower case, without links, permissions or locks.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from pathlib import Path
from types import TracebackType

from chunkstore._native import _core
from chunkstore.errors import MediaDamaged, MediaGone
from chunkstore.store import Buffer, Store, split_refs
from satchel.ids import ChunkRef, chunk_id
from satchel.names import check_name
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)


class Media:
    """The chunks on one medium. Thread-safe; one process writes to a medium at a time.

    Every method may raise MediaGone, and StoreState once it is closed. A medium that was pulled
    out is opened again when it is back. References are passed as n * 52 bytes.
    """

    def __init__(self, root: Path, native: _core.Media) -> None:
        self._root = root
        self._native = native
        self._damaged: set[ChunkRef] = set()

    @classmethod
    def init(cls, root: str | os.PathLike[str]) -> Media:
        """Make an empty medium in a mounted folder, whatever else is in it, and open it.

        Raises MediaExists, MediaNotFound if the folder is not there, MediaReadOnly, MediaFull.
        """
        _core.Media.init(root, str(uuid.uuid4()))
        return cls.open(root)

    @classmethod
    def open(cls, root: str | os.PathLike[str]) -> Media:
        """Open the medium mounted at `root` and read its indexes; writes nothing.

        A pack without a usable index is scanned. Raises MediaNotFound, MediaDamaged, MediaVersion.
        """
        return cls(Path(root), _core.Media.open(root))

    @staticmethod
    def checkpoints_folder(root: str | os.PathLike[str], service: str) -> Path:
        """Where the signed manifests of a service are; it may not exist. Raises BadName."""
        return Path(root) / "satchel" / "checkpoints" / check_name(service, "service")

    @staticmethod
    def log_folder(root: str | os.PathLike[str], service: str) -> Path:
        """Where the operation log of a service is; it may not exist. Raises BadName."""
        return Path(root) / "satchel" / "log" / check_name(service, "service")

    def close(self) -> None:
        """Let go of its files. Nothing happens the second time."""
        self._native.close()

    def __enter__(self) -> Media:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """Where the medium is mounted."""
        return self._root

    @property
    def uuid(self) -> str:
        """What identifies the medium, wherever it is mounted. Raises MediaDamaged, MediaGone."""
        path = self._root / "satchel" / "media.json"
        try:
            value = json.loads(path.read_bytes())["uuid"]
        except OSError as error:
            raise MediaGone(f"cannot read {path}", why=str(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise MediaDamaged(f"cannot read {path}", why="it has no uuid") from error
        return str(value)

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
        records, damaged = self._native.records(refs)
        self._report(damaged)
        return records

    def add(self, store: Store, refs: Buffer, progress: Progress = silent) -> int:
        """Copy the chunks that the medium lacks from a store, in order; bytes written.

        They are durable on return. After an error, what was copied in complete packs stays, and
        another call goes on from there. Raises MediaFull (before anything is written if it cannot
        fit), MediaReadOnly, ChunkMissing, ChunkInvalid.
        """
        return self._native.add(store.native, refs, progress)

    def retain(self, refs: Buffer) -> int:
        """Give back the space of chunks that are not in `refs`; bytes freed.

        Packs with nothing needed are deleted, mostly unneeded ones are copied together where there
        is room; the rest stays as it is. Raises MediaReadOnly.
        """
        freed, damaged = self._native.retain(refs)
        self._report(damaged)
        return freed

    def free_bytes(self) -> int:
        """What the medium's file system has left, in bytes."""
        return self._native.free_bytes()

    def _report(self, damaged: bytes) -> None:
        for ref in set(split_refs(damaged)) - self._damaged:
            self._damaged.add(ref)
            logger.warning("%s: chunk %s is damaged", self._root, chunk_id(ref).hex())
