# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stored volume exported for as long as somebody wants it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chunkstore import Store, TableRoot
from volumes.raw_blocks import UNPACKED_BYTES, RawBlocks
from volumes.server import VolumeServer
from volumes.volume import create_volume, local_resolver


@contextlib.contextmanager
def serve_stored(
    store: Store,
    name: str,
    root: TableRoot,
    socket: Path,
    *,
    writable: bool = False,
) -> Iterator[VolumeServer]:
    """Export `root` as `name` at `socket` within the `with` block; nothing is left after it.

    `writable`: clients may write, to an overlay in the temporary directory that is dropped at the
    end; the store stays as it is. Raises what `VolumeServer.start` raises.
    """
    with tempfile.TemporaryDirectory(prefix="satchel-serve-") as folder:
        run_dir = Path(folder)
        volume = create_volume(run_dir, name, root, read_only=not writable)
        unpacked = RawBlocks(run_dir, UNPACKED_BYTES)
        try:
            server = VolumeServer.start(
                run_dir,
                store.packs_path,
                [volume],
                local_resolver(store),
                socket=socket,
                unpacked=unpacked,
            )
        except BaseException:
            volume.remove()
            raise
        finally:
            unpacked.close()
        try:
            yield server
        finally:
            server.stop(remove=True)
