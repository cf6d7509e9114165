# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What guests of this surrogate have below /satchel, through sockets that a client lends."""

from __future__ import annotations

import functools
from pathlib import Path

from guestfiles import CallHost, DistantKeeper
from satchel.ids import ReplicaId
from wire import Caller, PeerFailed


def guest_calls(socket: Path, replica: ReplicaId) -> CallHost:
    """Answers for the shares of that replica's guest. socket: the forwarded one."""
    return CallHost(lambda: distant_keeper(socket, replica))


def distant_keeper(socket: Path, replica: ReplicaId) -> DistantKeeper:
    """The way to home's keeper through that socket."""
    call = functools.partial(Caller, socket, name="home's keeper of calls")
    return DistantKeeper(call, replica, PeerFailed)
