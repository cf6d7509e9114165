# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks a surrogate keeps when it cannot keep all.

- policy: which chunks go next, as one small class without content, IO and time
- queue: high, normal or low; what a chunk's class is in the numbers
- pinned: a block map of a running replica points to it; never given up

Modules: policy (what one is), three_queues (the one that there is), cache (what of it a host's
store gives up, and when).
"""

from surrogate.caching.cache import PACK_BYTES, ChunkCache
from surrogate.caching.policy import Key, Policy, Queue, take
from surrogate.caching.three_queues import ThreeQueues

__all__ = [
    "PACK_BYTES",
    "ChunkCache",
    "Key",
    "Policy",
    "Queue",
    "ThreeQueues",
    "take",
]
