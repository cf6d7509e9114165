# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node's heartbeats: home hears that it is there, and how long strong copies are good follows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from math import inf

from satchel.aligned_timers import next_tick, period_within
from shares.node import clock
from shares.node.content.content import Content
from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import Hub, LeaseGrant
from shares.node.hub.losses import Losses
from shares.node.names.names import NameCache

log = logging.getLogger(__name__)

FIRST_LEASE = 3.0
"""Seconds, until home has told."""

SHORTEST = 0.1
"""Seconds of relaxation for which heartbeats are still made more frequent."""


class Heartbeat:
    """Of one node. `run` is one thread's; the rest is thread-safe."""

    def __init__(
        self,
        home: CurrentHub,
        content: Content,
        names: NameCache,
        losses: Losses,
        kept: Callable[[bytes], None],
    ) -> None:
        """kept: is called with the path of each conflict copy that home has made."""
        self._home, self._kept = home, kept
        self._content, self._names, self._losses = content, names, losses
        self._relaxation = inf
        self._lease: tuple[Hub, float] | None = None  # which has told it; seconds
        self._beats: Hub | None = None  # which has not answered yet

    def relaxed(self, seconds: float) -> None:
        """Copies that may be so old count by heartbeats; 0: there are none."""
        if seconds:
            self._relaxation = max(seconds, SHORTEST)

    def run(self, ended: threading.Event) -> None:
        """Beat until then, at ticks."""
        due = 0.0
        while True:
            if self._home.joined:
                self.beat()
            self._content.look_at_pages()
            lease = self._lease[1] if self._lease else FIRST_LEASE
            now = time.monotonic()
            due = next_tick(period_within(min(lease, self._relaxation) / 3), max(now, due))
            if ended.wait(due - now):
                return

    def beat(self) -> None:
        """Behind content that is on its way it may take longer than a lease until home answers: a
        ping tells whether home hears this node, and nothing else."""
        hub = self._home.latest
        if self._lease is not None and self._lease[0] is hub:
            hub.ping(partial(self._pinged, hub, clock.now() + self._lease[1]))
        if self._beats is hub:
            return
        self._content.table.collect()
        self._beats = hub
        self._send(hub)

    def confirm(self, seconds: float) -> None:
        """Beat once more, and wait so long at most until home has answered: then it has all that
        was said before, and the journal knows."""
        answered = threading.Event()
        self._send(self._home.latest, answered.set)
        answered.wait(seconds)

    def _send(self, hub: Hub, told: Callable[[], object] = lambda: None) -> None:
        """told: is called when home has answered, or will not."""
        sent, mark = clock.now(), self._content.beating()

        def heard(lease: LeaseGrant | OSError | None) -> None:
            self._beaten(hub, sent, mark, lease)
            told()

        hub.beat(heard, self._losses.latest)

    def _pinged(self, hub: Hub, until: float) -> None:
        if self._content.leased(hub, until):
            self._names.leased(until)

    def _beaten(self, hub: Hub, sent: float, mark: int, lease: LeaseGrant | OSError | None) -> None:
        if self._beats is hub:
            self._beats = None
        if not isinstance(lease, LeaseGrant):
            if lease is not None:
                log.warning("home does not take heartbeats: %s", lease)
            return
        until = sent + lease.seconds
        self._content.heard(sent)
        if self._content.leased(hub, until, mark):
            self._lease = hub, lease.seconds
            self._names.leased(until)
        self._losses.heard(lease.taken_over)
        for path in lease.conflicts:
            self._kept(path)
