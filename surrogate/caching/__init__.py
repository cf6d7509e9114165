# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks a surrogate keeps when it cannot keep all.

- policy: which chunks go next, as one small class without content, IO and time
- queue: high, normal or low; what a chunk's class is in the numbers
- pinned: a block map of a running replica points to it; never given up

Modules: policy (what one is), three_queues and lru (the two that there are; POLICIES, by the name
that an operator chooses), cache (what of it a host's store gives up, and when).
"""

from surrogate.caching.cache import PACK_BYTES, ChunkCache
from surrogate.caching.lru import Lru
from surrogate.caching.policy import Key, MakePolicy, Policy, Queue, take
from surrogate.caching.three_queues import ThreeQueues

POLICIES: dict[str, MakePolicy] = {"three-queues": ThreeQueues, "lru": Lru}

__all__ = [
    "PACK_BYTES",
    "POLICIES",
    "ChunkCache",
    "Key",
    "Lru",
    "MakePolicy",
    "Policy",
    "Queue",
    "ThreeQueues",
    "take",
]
