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

One read in SAMPLED or more, drawn after it was answered, is a sample: home executes it as well, at
the state of the answer, and the digests are compared. Lots are drawn when SAMPLED reads were
answered, when home gets the operation after them, at the time of a heartbeat, and at the session's
end. So nothing that leaves before an answer depends on the lots, and what leaves afterwards is due
whatever was drawn: the sample goes to home together with the operations, at the size of the largest
read among which it was drawn. A surrogate that lies at rate p is caught after at most SAMPLED / p
reads on the average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from client.platform.settings import HOME, Policy
from client.session.feed import FINAL, Feed, FeedState
from images import ContractSpec
from replay import Operation, Response, Sample
from replay.adapters import http
from satchel.ids import OperationNumber

UNKNOWN_SECONDS = 0.1
"""What is waited for a replica of which nothing is known yet."""

RESCUE = 10
RESCUE_SECONDS = 1.0
"""`nearest` asks the next one after so many times the 95th percentile, and not before that."""

SAMPLED = 20

SAMPLES_KEPT = 256
"""Samples that wait for home; if there are more, lots are drawn which is dropped."""

SAMPLES_BYTES_KEPT = 64 << 20
"""The same, of their requests."""

PAYLOAD_KEPT = 256 << 10
"""Of a larger response only the digest is remembered until home has compared it."""

READ_ONLY: dict[str, Callable[[Operation, Sequence[str]], bool]] = {
    http.kind: http.changes_nothing,
}
"""By kind of adapter, whether an operation is one of those that a recipe declares read-only. A
desktop has none: to look at the screen changes what the next answer is told from."""


@dataclass(eq=False)
class PendingRead:
    """One read that waits for its first response. asked: who was asked; heard: who has answered.

    asked_at: when the last one of them was; states: the last operation that each had executed when
    it was asked; leader: the replica that gave the response that counts; room: bytes that the read
    takes as a sample.
    """

    operation: Operation
    asked: list[Feed] = field(default_factory=list)
    heard: set[Feed] = field(default_factory=set)
    states: dict[Feed, OperationNumber] = field(default_factory=dict)
    asked_at: float = 0.0
    response: Response | None = None
    leader: Feed | None = None
    room: int = 0

    def wanted_of(self, feed: Feed) -> bool:
        """Return whether that replica has yet to answer it."""
        return self.response is None and feed not in self.heard and feed in self.asked

    def release(self) -> None:
        """Keep only the digest of a large response, which the program has."""
        said = self.response
        if said and len(said.payload) > PAYLOAD_KEPT:
            self.response = Response(said.number, b"", said.signature, said.digest)

    @property
    def asked_home(self) -> bool:
        return any(feed.name == HOME for feed in self.asked)

    @property
    def heard_home(self) -> bool:
        return any(feed.name == HOME for feed in self.heard)

    @property
    def state(self) -> OperationNumber:
        """The last operation before the response that counts."""
        assert self.leader
        return self.states[self.leader]

    @property
    def earliest_state(self) -> OperationNumber:
        """The last operation that is surely before the response."""
        least = OperationNumber(self.operation.number - 1)
        there = [feed for feed in self.asked if feed.state not in FINAL]
        return min((self.states.get(feed, least) for feed in there), default=least)

    @property
    def sample(self) -> Sample:
        """The read for home, which executes it at that state."""
        state = self.states.get(self.leader, None) if self.leader else None
        return Sample(state or OperationNumber(0), self.operation)


def read_only(contract: ContractSpec) -> Callable[[Operation], bool]:
    """Which operations change nothing, as a manifest says it of its service."""
    judge, declared = READ_ONLY.get(contract.adapter), contract.read_only
    return lambda operation: judge is not None and judge(operation, declared)


def by_distance(feeds: Sequence[Feed]) -> list[Feed]:
    """Those that may answer, the nearest first; one of which nothing is known before the others, so
    that something becomes known; one that lags or is silent after them. One that owes an answer is
    as far as that is late: where it hangs, one read waits for it and not each of them."""

    def distance(feed: Feed) -> tuple[bool, bool, float]:
        state = feed.state
        return state is FeedState.SILENT, state is not FeedState.JOINED, feed.distance

    return sorted((feed for feed in feeds if feed.state not in FINAL), key=distance)


def next_to_ask(
    read: PendingRead, feeds: Sequence[Feed], policy: Policy, now: float
) -> tuple[list[Feed], float]:
    """Whom to ask now, and after how many seconds to look again unless something happens."""
    others = [feed for feed in by_distance(feeds) if feed not in read.asked]
    if not others:
        return [], RESCUE_SECONDS
    if policy == "all":
        return others, RESCUE_SECONDS
    there = (FeedState.JOINED, FeedState.CATCHING_UP)
    hopeful = [f for f in read.asked if f.state in there and f not in read.heard]
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
