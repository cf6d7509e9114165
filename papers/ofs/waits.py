# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an access of a replay waits for, in kinds that tell who could help.

open             until the node that has the file natively has said what it has of it
first read       blocks that the node never had
read again       blocks that it had, and that were written elsewhere since
write, free      to own blocks that no other node has
write, shared    to own blocks that another node owns or has a copy of
"""

from __future__ import annotations

from papers.ofs.plan import Step
from shares.protocol import ATTRIBUTES, HOME, HomeMachine, NodeId, NodeMachine

OPEN, FIRST, AGAIN, FREE, SHARED = KINDS = (
    "open",
    "first read",
    "read again",
    "write, free",
    "write, shared",
)


def kind(
    machine: NodeMachine, directory: HomeMachine, node: NodeId, step: Step, now: float
) -> str | None:
    """What the access is going to wait for most; None: for nothing."""
    found = set()
    for number in (ATTRIBUTES, *step.numbers):
        writes = step.changes if number == ATTRIBUTES else step.write
        if writes and not machine.writable(step.file, number, now, number in step.whole):
            record = directory.record(step.file, number)
            owner = record.owner if record is not None else HOME
            sharers = record.sharers - {node} if record is not None else ()
            found.add(SHARED if owner not in {HOME, node} or sharers else FREE)
        elif not writes and not machine.readable(step.file, number, now):
            found.add(AGAIN if machine.block(step.file, number).version else FIRST)
    return max(found, key=KINDS.index) if found else None


__all__ = ["KINDS", "OPEN", "kind"]
