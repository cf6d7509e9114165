# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node that stays in a share: it joins again when home went on without it."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from satchel.errors import NotFoundError, SatchelError
from satchel.polling import IDLE_POLL_SECONDS
from shares.node.content.buffer import Buffer
from shares.node.content.copies import Make
from shares.node.hub.losses import NodeLoss
from shares.node.hub.membership import Caller, ConversationOwner, Membership
from shares.node.journal.conflicts import Conflicts, of_aside
from shares.node.journal.journal import MountJournal
from shares.node.node import Node

log = logging.getLogger(__name__)


SETTLE_SECONDS = 0.25
"""For a call that was about to ask home when the node began to park."""

JOIN_SECONDS = 20.0
RETRY_SECONDS = 1.0
AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class ParkingPolicy:
    """When a node leaves a share that nobody uses. idle_seconds: since a program needed home last;
    parked: is called each time when it has left"""

    idle_seconds: float
    parked: Callable[[], None] = lambda: None


class Member:
    """A node, and its membership of the moment. Thread-safe.

    node: the same one all the time. Where home has no such share any more it is at its end: all
    that programs ask fails at once, also if there is another share of that name later
    """

    def __init__(
        self,
        call: Callable[[ConversationOwner], Caller],
        share: str,
        name: str,
        buffer: Buffer,
        *,
        wait: float | None = 30.0,
        make: Make | None = None,
        lost: Callable[[NodeLoss], None] = lambda lost: None,
        ahead: bool = False,
        journal: MountJournal | None = None,
        kept: Callable[[bytes], None] = lambda path: None,
        parking: ParkingPolicy | None = None,
    ) -> None:
        """Join. call: as for Membership; wait, make, lost, ahead, journal: as for Node; kept: is
        told the path of each conflict copy; parking: None where it stays joined while nobody uses
        it. Raises what Membership.join does."""
        self.share = share
        self._call, self._name, self._wait = call, name, wait
        self._closed = threading.Event()
        self._membership = Membership(call, share, name, patience=wait)
        hub = self._membership.join(JOIN_SECONDS)
        self._journal, self._kept = journal, kept
        self.node = Node(hub, buffer, wait, make, lost, ahead=ahead, journal=journal, kept=kept)
        self._membership.over = self._over
        if journal is not None:
            threading.Thread(target=self._keep_refused, name="conflicts", daemon=True).start()
        self._parked = False
        if parking is not None:
            look = threading.Thread(target=self._park_when_idle, args=(parking,), name="parking")
            look.daemon = True
            look.start()

    @property
    def parked(self) -> bool:
        """Whether it has left until a program needs home."""
        return self._parked

    @property
    def token(self) -> str:
        """What home knows the node by."""
        return self._membership.token

    def close(self) -> bool:
        """Give back what the node has, and leave. Whether something waits in the journal: then it
        is durable there, and the node has not left."""
        if self._journal is not None or self._membership.connected:
            self.node.close()
        self._closed.set()
        self.node.home.wanted.set()
        waits = self._journal is not None and self._journal.waits
        if not waits:
            with suppress(OSError):
                self._membership.hub.leave()
        self._membership.close()
        if self._journal is not None:
            self._journal.refused.set()
            self._journal.close(keep=waits)
        return waits

    def _keep_refused(self) -> None:
        """What home refuses is kept beside the file. What fails is tried again, and stays in the
        journal till then."""
        journal = self._journal
        assert journal is not None
        conflicts = Conflicts(self.node, self._name)
        while not self._closed.is_set():
            journal.refused.wait()
            journal.refused.clear()
            for aside in journal.asides():
                if self._closed.is_set():
                    return
                try:
                    path = conflicts.settle(of_aside(aside))
                    journal.copied(aside)
                except OSError as error:
                    log.warning("the share %s: no conflict copy yet: %s", self.share, error)
                    journal.refused.set()
                    self._closed.wait(AGAIN_SECONDS)
                    break
                if path is not None:
                    self._kept(path)

    def _park_when_idle(self, parking: ParkingPolicy) -> None:
        """A thread, for as long as the node is there."""
        home = self.node.home
        while not self._closed.wait(min(IDLE_POLL_SECONDS, parking.idle_seconds / 4)):
            idle = time.monotonic() - home.asked
            if idle < parking.idle_seconds or not home.joined or not home.connected:
                continue
            if not self._park(parking):
                home.asked = time.monotonic()
                continue
            home.wanted.wait()
            if not self._closed.is_set():
                log.info("the share %s: somebody uses it, joining again", self.share)
                self._join_again(at_once=True)

    def _park(self, parking: ParkingPolicy) -> bool:
        """Leave, with nothing here that home has not, and nothing that home has to ask for."""
        node, membership = self.node, self._membership
        node.home.wanted.clear()
        given = node.park() and not self._closed.wait(SETTLE_SECONDS)
        waits = self._journal is not None and self._journal.waits
        if not given or waits or membership.asking or self._membership is not membership:
            if membership is self._membership and membership.connected:
                node.stay()
            return False
        self._parked = True
        with suppress(OSError):
            membership.hub.leave()
        membership.close()
        node.lost()
        parking.parked()
        log.info("the share %s: parked until somebody uses it", self.share)
        return True

    def _over(self, why: str) -> None:
        if self._closed.is_set() or self._parked:
            return
        if isinstance(self._membership.refusal, NotFoundError):
            self._end()
            return
        log.warning("the share %s: %s; joining again", self.share, why)
        self.node.lost()
        threading.Thread(target=self._join_again, name="join again", daemon=True).start()

    def _end(self) -> None:
        log.error("home has no share %s any more: nothing of it is served here", self.share)
        self.node.end(OSError(errno.ESTALE, f"home has no share {self.share} any more"))

    def _join_again(self, *, at_once: bool = False) -> None:
        token = self._membership.token
        while not self._closed.wait(0.0 if at_once else RETRY_SECONDS):
            at_once = False
            membership = Membership(
                self._call, self.share, self._name, token=token, patience=self._wait
            )
            try:
                hub = membership.join(JOIN_SECONDS)
            except NotFoundError:
                self._end()
                return
            except SatchelError as error:
                log.info("the share %s: %s", self.share, error)
                membership.close()
                continue
            membership.over = self._over
            self._membership, self._parked = membership, False
            try:
                self.node.rejoin(hub)
            except OSError as error:
                log.warning("the share %s: %s", self.share, error)
            return
