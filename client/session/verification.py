# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the answers of replicas, and quarantines a replica that answers otherwise than home."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from client.platform.settings import HOME
from client.session.answers import Tally
from client.session.comparison import Comparison, Divergence
from client.session.feed import Feed
from client.state.savings import HeadStart
from replay import Operation, Response
from satchel.errors import IntegrityError

logger = logging.getLogger(__name__)

DIVERGENCES_KEPT = 100


class ReplicaDiverged(IntegrityError):
    """A replica and home answered an operation differently."""


class Verification:
    """The verification of one session's answers. Callers hold the session's lock."""

    def __init__(
        self, tally: Tally, lead: HeadStart, on_quarantine: Callable[[Divergence], None]
    ) -> None:
        """tally: counts later answers, divergences and quarantines. lead: forgets what a replica in
        quarantine was ahead by. on_quarantine: receives the answer that put a replica in
        quarantine; it returns at once and calls nothing of the session."""
        self._tally = tally
        self._lead = lead
        self._on_quarantine = on_quarantine
        self._comparison = Comparison(HOME)
        self._judged: set[Feed] = set()

    def check(
        self,
        feed: Feed,
        response: Response,
        asked: Operation | None = None,
        among: Comparison | None = None,
    ) -> None:
        """Compare an answer with those of other replicas. asked: the operation, if the journal does
        not have it. among: the other answers; None: those to operations."""
        later, divergences = (among or self._comparison).add(feed, response)
        self._tally.later_responses += later
        for divergence in divergences:
            self._judge(dataclasses.replace(divergence, asked=asked))

    def _judge(self, divergence: Divergence) -> None:
        number, feed, believed = divergence.operation, divergence.feed, divergence.believed
        self._tally.diverged += 1
        if len(self._tally.divergences) < DIVERGENCES_KEPT:
            names = [feed.name, believed.name]
            self._tally.divergences.append({"operation": number, "replicas": names})
        if believed.name != HOME:
            logger.error(
                "operation %s: %s and %s answered differently", number, feed.name, believed.name
            )
            return
        error = ReplicaDiverged(
            f"the replica at {feed.name} has answered operation {number} otherwise than home",
            why="it or its surrogate is at fault, or the service does not do the same twice",
            fix="`satchel doctor` looks for the cause",
        )
        if feed not in self._judged:  # even if its replica is gone
            self._judged.add(feed)
            feed.quarantine(error)
            self._tally.quarantined += 1
            self._comparison.forget(feed)
            self._lead.forget(feed.name)
            self._on_quarantine(divergence)
