# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a replica is at the moment, what it is when it is frozen, and why it cannot go on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from chunkstore import TableRoot
from guestshares import ShareHost, SharesUnserved
from satchel.errors import IntegrityError, StateError, UnavailableError
from satchel.ids import OperationNumber, ReplicaId


class ReplicaState(enum.Enum):
    """See the table of replica.replica."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class WrongReplicaState(StateError):
    """The replica is not in the state that the call needs."""

    def __init__(self, replica: ReplicaId, state: ReplicaState, required: ReplicaState) -> None:
        super().__init__(f"replica {replica} is {state.value}", why=f"must be {required.value}")
        self.state = state
        self.required = required


class ReplicaFailed(UnavailableError):
    """The machine ended or its agent went silent; the replica cannot continue."""


def was_stopped(replica: ReplicaId) -> ReplicaFailed:
    """What calls hear that a stop ends."""
    return ReplicaFailed(f"replica {replica} cannot continue", why="it was stopped")


class WrongGuest(IntegrityError):
    """A resumed guest is not at the operation that its checkpoint names."""


def check_shares(replica: ReplicaId, host: ShareHost | None, *, shares: bool) -> None:
    """Raises SharesUnserved, and what `host` raises, unless it answers for a guest with shares."""
    if not shares:
        return
    if host is None:
        raise SharesUnserved(
            f"replica {replica} cannot run here",
            why="its service has shares, and this host does not serve them",
            fix="use it at home",
        )
    host.check()


@dataclass(frozen=True)
class MachineSnapshot:
    """A machine as it was between two operations: what a manifest is made of.

    paused_seconds: how long it stood still for that; of no meaning to a resume.
    """

    operation: OperationNumber
    device_state: TableRoot
    volumes: Mapping[str, TableRoot]
    paused_seconds: float = 0.0
