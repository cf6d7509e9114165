# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An attached volume: a table below, a block map and a sparse overlay file on top."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chunkstore import BlockMap, Store, TableRoot
from satchel.errors import NO_ROOM, CapacityError, NotFoundError, SatchelError, StateError
from satchel.ids import BLOCK_SIZE
from satchel.names import check_name


class AttachFailed(SatchelError):
    """The overlay of a volume could not be created or opened, or belongs to another volume."""


class OverlayFull(CapacityError):
    """The overlay of a volume has no more space."""


class BlocksMissing(NotFoundError):
    """Chunks of a volume are not in the store, and no source has them."""


@dataclass
class Volume:
    """A volume that is attached, or about to be.

    Whoever commits the overlay replaces `root`; everybody else reads only. The files live as long
    as the attachment.
    """

    name: str
    root: TableRoot
    map: BlockMap
    map_path: Path
    overlay: Path
    read_only: bool

    @property
    def size(self) -> int:
        """Bytes that the volume shows."""
        return self.root.size

    @property
    def blocks(self) -> int:
        return self.root.blocks

    @property
    def places(self) -> Path:
        """The file with the places of packed blocks, beside the map."""
        return self.map_path.with_name(self.map_path.name + ".places")

    def remove(self) -> None:
        """Close the map and remove the files. What was dirty and not committed is gone."""
        self.map.close()
        self.map_path.unlink(missing_ok=True)
        self.places.unlink(missing_ok=True)
        self.overlay.unlink(missing_ok=True)


class ReadAbandoned(StateError):
    """The machine that reads this block is ending."""


class Resolver(Protocol):
    """Brings absent blocks: called by a thread of the miss server, by many at once.

    Returns None once none of the `count` blocks from `first` on is absent in `volume.map`, or their
    content, where it cannot be kept, or raises: then the guest's read fails with EIO, and the
    exception is logged. ReadAbandoned is no news.
    """

    def __call__(self, volume: Volume, first: int, count: int) -> bytes | None: ...


def create_volume(run_dir: Path, name: str, root: TableRoot, read_only: bool = False) -> Volume:
    """Attach `root` under `run_dir` with every block absent: NAME.map and NAME.overlay are made.

    Raises BadName, FileExists, AttachFailed or a CapacityError, and leaves nothing behind then.
    """
    map_path, overlay = _paths(run_dir, check_name(name, "volume"))
    block_map = BlockMap.create(map_path, root.blocks)
    volume = Volume(name, root, block_map, map_path, overlay, read_only)
    try:
        with overlay.open("wb") as file:
            file.truncate(root.blocks * BLOCK_SIZE)
    except OSError as error:
        volume.remove()
        kind = OverlayFull if error.errno in NO_ROOM else AttachFailed
        raise kind(f"cannot attach volume {name} in {run_dir}", why=str(error)) from error
    return volume


def open_volume(run_dir: Path, name: str, root: TableRoot) -> Volume:
    """The volume that `create_volume` made, in a daemon that has started again.

    `root` is the one that the map belongs to: that of the last commit.
    Raises FileMissing, StoreDamaged for a bad map, AttachFailed when its files do not fit.
    """
    map_path, overlay = _paths(run_dir, check_name(name, "volume"))
    block_map = BlockMap.open(map_path)
    try:
        found = overlay.stat().st_size // BLOCK_SIZE
    except OSError as error:
        block_map.close()
        raise AttachFailed(f"cannot open volume {name} in {run_dir}", why=str(error)) from error
    if found != root.blocks:
        block_map.close()
        raise AttachFailed(
            f"cannot open volume {name} in {run_dir}",
            why=f"its overlay has {found} blocks and its table {root.blocks}",
        )
    return Volume(name, root, block_map, map_path, overlay, read_only=False)


def local_resolver(store: Store) -> Resolver:
    """Brings blocks from `store` alone: for homes, whose store has everything."""

    def resolve(volume: Volume, first: int, count: int) -> None:
        missing = store.resolve(volume.root, volume.map, first, count)
        if missing:
            raise BlocksMissing(
                f"blocks {first} to {first + count - 1} of volume {volume.name} are not complete",
                why=f"the store at {store.path} lacks chunk {missing[:20].hex()}",
                fix="verify the store",
            )

    return resolve


def _paths(run_dir: Path, name: str) -> tuple[Path, Path]:
    return run_dir / f"{name}.map", run_dir / f"{name}.overlay"
