# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What guests of this surrogate have below /satchel, through sockets that a client lends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from guestshares import CallHost, DistantKeeper, EdgeKeeper, Gate, Keeper, MemberHost
from satchel.ids import ReplicaId
from shares.node import Buffer, Member
from wire import Caller, CreateReplica, PeerFailed


def guest_shares(
    request: CreateReplica, place: Callable[[str], Path], nodes: Path
) -> CallHost | None:
    """Answers for the shares of that replica's guest; None where the client lends no way to home.

    place: where a forwarded socket is here that the request names; nodes: a folder for what nodes
    of shares keep. Raises as `place`.
    """
    if request.calls is None:
        return None
    if request.edge is None:
        calls = place(request.calls.socket)
        return CallHost(lambda: distant_keeper(calls, request.replica))
    edge = request.edge
    node, calls = place(edge.node.socket), place(edge.calls.socket)

    def connect() -> Keeper:
        return edge_keeper(
            calls,
            node,
            request.replica,
            share=edge.share,
            service=request.service,
            folder=nodes,
            writable=edge.writable,
            synchronous=edge.log == "sync",
        )

    return CallHost(connect)


def distant_keeper(socket: Path, replica: ReplicaId) -> DistantKeeper:
    """The way to home's keeper through that socket."""
    call = functools.partial(Caller, socket, name="home's keeper of calls")
    return DistantKeeper(call, replica, PeerFailed)


def edge_keeper(
    calls: Path,
    node: Path,
    replica: ReplicaId,
    *,
    share: str,
    service: str,
    folder: Path,
    writable: bool = True,
    synchronous: bool = False,
) -> EdgeKeeper:
    """The same, with a node of the share here, which joins through the socket `node`. folder: for
    what it keeps."""

    def join(gate: Gate) -> MemberHost:
        call = functools.partial(gate.conversation, functools.partial(Caller, node))
        return MemberHost(lambda copies: Member(call, share, service, Buffer(copies)), folder)

    distant = distant_keeper(calls, replica)
    return EdgeKeeper(distant, join, writable=writable, synchronous=synchronous)
