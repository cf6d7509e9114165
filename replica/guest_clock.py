# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The clock of a carried guest, which stands still while its machine or its host does.

The guest's clock begins at the moment of its checkpoint. It falls behind by each freeze, by the
sleep of the host, and when the host's clock is set. The replica tells the guest the time after each
of them, and now and then since two clocks drift apart. It sends new randomness with it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from hypervisor import Machine, MachineSpec, MachineState
from replay import AgentChannel
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
APART_SECONDS = 0.1
"""The host's wall clock and the clock of its machines parted by more: the guest's is wrong."""
DRIFT_SECONDS = 600.0
TELL_SECONDS = 5.0
"""How long a guest may take to set its clock. A later message sets it again."""

ENTROPY_BYTES = 32


class GuestClock:
    """The clock of one guest. Thread-safe. `close` ends it."""

    def __init__(
        self,
        agent: AgentChannel,
        reach: Callable[[], AbstractContextManager[tuple[AgentChannel, Machine]]],
    ) -> None:
        """Set the guest's clock. reach: gives the agent and the machine, or raises a
        SatchelError. Raises AgentFailed, AgentTimeout, AgentGone."""
        self._reach = reach
        self._closing = threading.Event()
        agent.waken(time.time_ns(), secrets.token_bytes(ENTROPY_BYTES))
        self._thread = threading.Thread(target=self._watch, name="guest's clock", daemon=True)
        self._thread.start()

    def tell(self, agent: AgentChannel) -> None:
        """Set the clock of a guest that stood still. Log a failure."""
        try:
            agent.waken(time.time_ns(), secrets.token_bytes(ENTROPY_BYTES), TELL_SECONDS)
        except SatchelError as error:
            logger.warning("a guest's clock may be wrong: %s", error)

    def close(self) -> None:
        """End soon. Does not wait."""
        self._closing.set()

    def _watch(self) -> None:
        ahead, told = _ahead(), time.monotonic()
        while not self._closing.wait(LOOK_SECONDS):
            now = _ahead(), time.monotonic()
            if abs(now[0] - ahead) < APART_SECONDS and now[1] - told < DRIFT_SECONDS:
                continue
            try:
                with self._reach() as (agent, machine):
                    if machine.state is not MachineState.RUNNING:
                        continue  # held; the end of the hold sets the clock
                    self.tell(agent)
            except SatchelError as error:
                logger.debug("a guest is not told the time: %s", error)
            else:
                ahead, told = now


def let_run(machine: Machine, agent: AgentChannel | None, spec: MachineSpec) -> None:
    """Resume a machine that stands still. A carried guest finds the time and new randomness at its
    agent's port, before its programs execute. Raises MachineFailed."""
    if spec.streams and agent:
        try:
            agent.waken_first(time.time_ns(), secrets.token_bytes(ENTROPY_BYTES))
        except SatchelError as error:
            logger.debug("a guest that stands still is not told the time: %s", error)
    machine.resume()


def _ahead() -> float:
    """Return the wall clock less the clock of machines, which stands while the host sleeps."""
    return time.time() - time.monotonic()
