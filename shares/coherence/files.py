# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node knows of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from shares.coherence.messages import Message
from shares.coherence.policies import Policy
from shares.coherence.state import Block


@dataclass(slots=True)
class File:
    """What a node knows of a file that it has open, or had natively."""

    policy: Policy
    native: bool
    relaxation: float
    grant: int = 0
    opened: bool = True
    blocks: defaultdict[int, Block] = field(default_factory=lambda: defaultdict(Block))

    def about(self, message: Message) -> Iterable[tuple[int, Block]]:
        """The blocks of the message's that anything is known of."""
        for number in message.numbers:
            if number in self.blocks:
                yield number, self.blocks[number]
