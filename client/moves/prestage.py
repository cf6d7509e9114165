# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a service needs is brought to the surrogate that is expected to be the next one.

It begins when the replica here has all that is fetched ahead for it, so that it never competes with
that. The surrogate there fetches from this client's media and from home, with nobody's priority,
over a link of its own. A wrong guess costs these bytes and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client.moves.history import History
from client.platform.power import Power, Urgency
from client.platform.settings import ClientSettings
from client.state.paths import Paths, likely_next
from images import Manifest
from satchel.errors import SatchelError
from wire import CreateReplica, Lane, Link, Links, SourceAddress, StagingStatus

logger = logging.getLogger(__name__)

STAGE_POLL_SECONDS = 2.0

Offer = Callable[[Link], tuple[SourceAddress, ...]]
"""Offers this client's sources to the other end of a link, below that folder."""


@dataclass
class PrestageState:
    """What is brought to one surrogate. staged: as it was heard last; waits: why nothing is brought
    just now, empty: it is."""

    surrogate: str
    ending: threading.Event = field(default_factory=threading.Event)
    staged: StagingStatus | None = None
    error: SatchelError | None = None
    waits: str = ""
    over: bool = False

    def row(self) -> dict[str, Any]:
        """For `satchel status`."""
        return {
            "surrogate": self.surrogate,
            "bytes": self.staged.bytes if self.staged else {},
            "done": bool(self.staged and self.staged.done),
            "error": str(self.error) if self.error else None,
            "waits": self.waits or None,
        }


class Prestager:
    """Of one session. Thread-safe; `close` ends its threads."""

    def __init__(
        self, settings: ClientSettings, service: str, links: Links, power: Power, offer: Offer
    ) -> None:
        self._settings = settings
        self._power = power
        self._service = service
        self._links = links
        self._offer = offer
        self._lock = threading.Lock()
        self._stages: list[PrestageState] = []

    def expect(
        self,
        here: str,
        manifest: Manifest,
        quiet: Callable[[], bool],
        *,
        other: str | None = None,
    ) -> str | None:
        """The client is at a surrogate now: begin to bring the checkpoint to the next one, where
        one can be expected. That one, or None. quiet: whether the replica here has what it needs;
        other: where to, if nothing says it.
        """
        visited = [m.surrogate for m in History.of(self._settings.state, self._service).moves()]
        following = likely_next(here, Paths(self._settings.state).all(), visited)
        if following is None or following not in self._settings.surrogates:
            following = other
        if following is None:
            return None
        self.end(following)
        stage = PrestageState(following)
        with self._lock:
            self._stages.append(stage)
            link = f"{following}-ahead-{len(self._stages)}"
        work = (stage, link, manifest, quiet)
        threading.Thread(target=self._run, args=work, name=f"ahead-{following}").start()
        return following

    def end(self, surrogate: str) -> None:
        """Bring nothing more there; what has come stays. Returns at once."""
        with self._lock:
            stages = [stage for stage in self._stages if stage.surrogate == surrogate]
        for stage in stages:
            stage.ending.set()

    @property
    def under_way(self) -> bool:
        """Whether something is being brought, or waits for that."""
        with self._lock:
            stages = list(self._stages)
        return any(not stage.over for stage in stages)

    def status(self) -> list[dict[str, Any]]:
        with self._lock:
            return [stage.row() for stage in self._stages]

    def close(self) -> None:
        for stage in list(self._stages):
            stage.ending.set()

    def _run(
        self, stage: PrestageState, name: str, manifest: Manifest, quiet: Callable[[], bool]
    ) -> None:
        """name: of the link, which is this stage's own"""
        try:
            while not quiet() or self._held(stage):
                if stage.ending.wait(STAGE_POLL_SECONDS):
                    return
            self._bring(stage, name, manifest)
        except SatchelError as error:
            logger.info("%s has nothing in advance: %s", stage.surrogate, error)
            stage.error = error
        finally:
            stage.over = True
            self._links.drop(name)

    def _bring(self, stage: PrestageState, name: str, manifest: Manifest) -> None:
        peer = self._settings.surrogate(stage.surrogate)
        while not self._stage(stage, self._links.open(name, peer, Lane.BULK), manifest):
            self._links.drop(name)
            while self._held(stage):
                if stage.ending.wait(STAGE_POLL_SECONDS):
                    return

    def _held(self, stage: PrestageState) -> bool:
        """Whether the device cannot afford it now."""
        stage.waits = self._power.holds(Urgency.LATER)
        return bool(stage.waits)

    def _stage(self, stage: PrestageState, link: Link, manifest: Manifest) -> bool:
        """Have the surrogate fetch until it has all. Whether that is over; False where the device
        cannot afford it any more: what has come stays in the cache there."""
        replica = CreateReplica.new_id(self._service)
        sources = self._offer(link)
        request = CreateReplica(replica, self._service, manifest.to_json(), sources)
        link.http.post_json("/v1/staged", request.to_json())
        while True:
            ended = stage.ending.wait(STAGE_POLL_SECONDS)
            stage.staged = StagingStatus.from_json(link.http.get_json(f"/v1/staged/{replica}"))
            over = ended or stage.staged.done
            if over or self._held(stage):
                break
        link.http.delete(f"/v1/staged/{replica}")
        if stage.staged.error is not None:
            stage.error = stage.staged.error.to_error()
        return over
