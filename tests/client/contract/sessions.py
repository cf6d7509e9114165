# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session as the cases use it. Nothing else in this folder knows the classes of contracts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from client import ClientSettings, ServiceSession
from client.arrival import Arrival
from client.fronts.ports import LocalPort
from client.moves.mover import Mover
from client.moves.tracing import HostSpans
from client.places.surrogate import Surrogate
from client.platform.settings import HOME
from client.session.checkpoints import NOTHING, OwnerOverrides
from satchel.errors import SatchelError
from satchel.polling import POLL_SECONDS
from tests.client.world import carried_of, operations, post
from tests.waiting import PATIENCE_SECONDS, eventually
from wire import ReplicaStatus

NO_OVERRIDES = NOTHING

Tell = Callable[[str, str], None]
"""Has the machine at a place hear a word."""


class ContractSession:
    """A session of a service of one contract."""

    def __init__(
        self,
        contract: str,
        settings: ClientSettings,
        service: str,
        media: Path | None,
        tell: Tell,
    ) -> None:
        """tell: what programs do that have streams to a carried machine"""
        self.carried = contract == "carried"
        self._path = "/recognize" if contract == "stateless" else "/api/notes"
        self._tell = tell
        self.session = ServiceSession(settings, service, media=media)

    def start(self, *, take_over: bool, accepted: OwnerOverrides) -> None:
        self.session.start(take_over=take_over, accepted=accepted)
        if not self.carried:
            self.session.open_fronts([LocalPort(0)])

    @property
    def leader(self) -> str:
        """The surrogate whose replica was not lost, else home."""
        if self.carried:
            return self.session.leader
        surrogates = set(self.session.settings.surrogates)
        return min(surrogates - set(self.session.elsewhere()) - set(self.lost()), default=HOME)

    def do(self, word: str) -> None:
        """Have the service hear a word. Raises AssertionError if it answers that it did not.
        Programs whose connection has ended connect again, for a while."""
        if not self.carried:
            answer = post(f"http://127.0.0.1:{self.session.port}", self._path, word.encode())
            assert answer.status_code == 200, f"{answer.status_code}: {answer.text}"
            return None
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._tell(self.leader, word)
            except SatchelError:
                if time.monotonic() > until:
                    raise
            time.sleep(POLL_SECONDS)

    def move(self, to: Any, **how: Any) -> Any:
        return self.session.move(to, **how)

    def plan(self, to: str) -> Any:
        return self.session.plan(to)

    def hosts_of_trace(self) -> set[str]:
        """The hosts that reported spans of the last move."""
        told = map(HostSpans.from_json, self.session.trace.to_json())
        return {host.host for host in told if host.spans}

    def lost(self) -> dict[str, str]:
        """Surrogates whose replicas were lost, and why."""
        if self.carried:
            return {loss.surrogate: str(loss) for loss in carried_of(self.session).losses}
        feeds = operations(self.session).feeds()
        return {feed.name: str(feed.error) for feed in feeds if feed.state.value == "lost"}

    def sent(self) -> bool:
        """Wait until home has all that was done."""
        if not self.carried:
            return operations(self.session).wait_stable(PATIENCE_SECONDS)
        if self.leader == HOME:
            return True
        wanted = self.status()["deltas"] + 2  # the second copy from now on began after it
        return eventually(lambda: self.status()["deltas"] >= wanted)

    def on_medium(self) -> bool:
        """Wait until the medium is as new as home."""
        if not self.carried:
            return not operations(self.session).journal.beside

        def rows() -> dict[str, Any]:
            return {row["place"]: row["checkpoint"] for row in self.status()["copies"]}

        return eventually(lambda: rows()["medium"] == rows()["home"])

    def status(self) -> dict[str, Any]:
        return self.session.status()

    def arrival(self, to: str) -> Arrival:
        return Arrival(self.session, to)

    def settle(self) -> None:
        self.session.settle()

    def close(self) -> None:
        self.session.close()

    def kill(self) -> None:
        """End without a message to home or a surrogate."""
        if self.carried:
            carried_of(self.session)._started = False
            self.close()
            carried_of(self.session)._shipping.close()
        else:
            with mock.patch.object(Mover, "end", lambda *_: None):
                self.close()


def interrupted_at_a_status() -> Any:
    """Within it, the first who waits for a replica of a surrogate is interrupted as by Ctrl-C."""
    true, interrupts = Surrogate.status, [KeyboardInterrupt()]

    def status(place: Surrogate, **how: float) -> ReplicaStatus:
        if interrupts:
            raise interrupts.pop()
        return true(place, **how)

    return mock.patch.object(Surrogate, "status", status)
