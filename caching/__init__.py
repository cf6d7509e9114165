# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept where not all can be: chunks on a surrogate, blocks of files on a node of a share.

- policy: what goes next, as one small class without content, IO and time
- key: what a policy keeps in order; a chunk's reference, or a file and the number of a block
- queue: high, normal or low; a key's class
- pinned: in use just now; never given up

Modules: policy (what one is), three_queues and lru (the two that there are; POLICIES, by the name
that an operator chooses).
"""

from caching.lru import Lru
from caching.policy import EvictionPolicy, Key, MakePolicy, Queue, take
from caching.three_queues import ThreeQueues

POLICIES: dict[str, MakePolicy] = {"three-queues": ThreeQueues, "lru": Lru}

__all__ = ["POLICIES", "EvictionPolicy", "Key", "Lru", "MakePolicy", "Queue", "ThreeQueues", "take"]
