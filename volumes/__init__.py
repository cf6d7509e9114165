# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The block layer: volumes that are served before their content is here.

- volume: a table of chunks (its root), a block map that says where each block is, and an overlay
  file that holds what has been written
- attach: make the map and the overlay of a volume, with every block absent
- miss: a read of an absent block; the plugin asks the daemon for it over the miss protocol
- resolver: what the daemon does about a miss
- dirty: written since the last commit; the block's bytes are in the overlay

Modules: volume (what an attached volume is), misses (the daemon's end of the miss protocol),
server (the nbdkit process), raw_blocks (what such processes keep of settled content), process (one
that outlives its daemon), serve (a stored volume exported). The nbdkit plugin is in plugin/.
"""

from volumes.misses import MissCounts, MissServer
from volumes.raw_blocks import RawBlocks
from volumes.serve import serve_stored
from volumes.server import (
    BLOCK_READER,
    PLUGIN,
    BadPath,
    NbdkitMissing,
    ServerFailed,
    SocketInUse,
    VolumeServer,
)
from volumes.volume import (
    AttachFailed,
    BlocksMissing,
    OverlayFull,
    ReadAbandoned,
    Resolver,
    Volume,
    create_volume,
    local_resolver,
    open_volume,
)

__all__ = [
    "BLOCK_READER",
    "PLUGIN",
    "AttachFailed",
    "BadPath",
    "BlocksMissing",
    "MissCounts",
    "MissServer",
    "NbdkitMissing",
    "OverlayFull",
    "RawBlocks",
    "ReadAbandoned",
    "Resolver",
    "ServerFailed",
    "SocketInUse",
    "Volume",
    "VolumeServer",
    "create_volume",
    "local_resolver",
    "open_volume",
    "serve_stored",
]
