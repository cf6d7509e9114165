# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that change nothing: to whom they go, and when to one more.

A read has no number of its own and is in no log. Its operation carries the number of the next one,
before which it belongs: a replica answers it that has executed everything before that number, so it
shows everything that was numbered when it was asked. A replica may be asked twice for it, or two
replicas, and the first answer counts. All operations of a stateless service are reads.

    all      everybody at once. A stateful service has no reads then: they are operations
    nearest  the replica that answers fastest; the next one when that is lost, silent, or has not
             answered after RESCUE times its 95th percentile
    hedge    the same, but after the 95th percentile

One read in SAMPLED, drawn at random, is a sample: home answers it as well, and the two answers are
compared. Both are given at the same number: no replica gets an operation behind the read before it
has answered. A surrogate cannot tell a sample from other reads. One that lies at rate p is caught
after SAMPLED / p reads on the average.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from client.platform.settings import Policy
from client.session.feed import FINAL, Feed, FeedState, PendingRead
from images import ContractSpec
from replay import Operation
from replay.adapters import http

UNKNOWN_SECONDS = 0.1
"""What is waited for a replica of which nothing is known yet."""

RESCUE = 10
RESCUE_SECONDS = 1.0
"""`nearest` asks the next one after so many times the 95th percentile, and not before that."""

SAMPLED = 20

SAMPLES_KEPT = 256
"""Reads that wait for an answer, samples for home's too; no further one is sampled while so many
do."""

READ_ONLY: dict[str, Callable[[Operation, Sequence[str]], bool]] = {
    http.kind: http.changes_nothing,
}
"""By kind of adapter, whether an operation is one of those that a recipe declares read-only. A
desktop has none: to look at the screen changes what the next answer is told from."""


def read_only(contract: ContractSpec) -> Callable[[Operation], bool]:
    """Which operations change nothing, as a manifest says it of its service."""
    judge, declared = READ_ONLY.get(contract.adapter), contract.read_only
    return lambda operation: judge is not None and judge(operation, declared)


def at_random() -> bool:
    """Whether a read is a sample. Nobody can foresee it."""
    return secrets.randbelow(SAMPLED) == 0


def by_distance(feeds: Sequence[Feed]) -> list[Feed]:
    """Those that may answer, the nearest first; one of which nothing is known before the others, so
    that something becomes known; one that lags or is silent after them. One that owes an answer is
    as far as that is late: where it hangs, one read waits for it and not each of them."""

    def distance(feed: Feed) -> tuple[bool, bool, float]:
        state = feed.state
        return state is FeedState.SILENT, state is not FeedState.JOINED, feed.distance

    return sorted((feed for feed in feeds if feed.state not in FINAL), key=distance)


def at_its_number(read: PendingRead, feeds: Sequence[Feed]) -> list[Feed]:
    """Whom a sample may be asked of. A replica that comes while it waits may have executed more
    than home has when it answers, so it is not asked while home is there."""
    if read.apart not in feeds:
        return [*feeds]
    return [feed for feed in feeds if feed.is_before(read.operation.number)]


def next_to_ask(
    read: PendingRead, feeds: Sequence[Feed], policy: Policy, now: float
) -> tuple[list[Feed], float]:
    """Whom to ask now, and after how many seconds to look again unless something happens."""
    others = [feed for feed in by_distance(feeds) if feed not in read.asked]
    if not others:
        return [], RESCUE_SECONDS
    if policy == "all":
        return others, RESCUE_SECONDS
    hopeful = [
        feed for feed in read.asked if feed.state in (FeedState.JOINED, FeedState.CATCHING_UP)
    ]
    if not hopeful:
        return others[:1], 0.0
    wait = patience(hopeful[-1], policy) - (now - read.asked_at)
    return (others[:1], 0.0) if wait <= 0 else ([], wait)


def patience(feed: Feed, policy: Policy) -> float:
    """How long an answer of that replica is waited for before the next one is asked."""
    usual = feed.pace.percentile95()
    if policy == "hedge":
        return UNKNOWN_SECONDS if usual is None else usual
    return max(RESCUE_SECONDS, RESCUE * (usual or 0.0))
