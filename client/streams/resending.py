# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that a lost machine answered and its copy does not know of, sent to the next one."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence

import h11

from client.fronts.requests import FrontRequest
from replay import StreamRelay

logger = logging.getLogger(__name__)

SECONDS = 60.0
"""How long the next machine may take to answer each."""

PIECE = 1 << 16


def send_again(relay: StreamRelay, requests: Sequence[FrontRequest]) -> None:
    """Send them one after the other, in a thread; nobody sees the answers. Those that connections
    send again by themselves may come before."""
    if requests:
        work = (relay, list(requests))
        threading.Thread(target=_send_all, args=work, name="sent again", daemon=True).start()


def _send_all(relay: StreamRelay, requests: Sequence[FrontRequest]) -> None:
    for request in requests:
        try:
            status = _send(relay, request)
            logger.info("sent again: %s, answered with %d", request, status)
        except (OSError, h11.ProtocolError) as error:
            logger.error("cannot send %s again: %s", request, error)


def _send(relay: StreamRelay, request: FrontRequest) -> int:
    """The status of the answer."""
    ours, theirs = socket.socketpair()
    with ours:
        relay.adopt(theirs, request.port)
        ours.settimeout(SECONDS)
        ours.sendall(request.data or b"")
        answer = h11.Connection(h11.CLIENT)
        answer.send(h11.Request(method=request.method, target="/", headers=[("Host", "localhost")]))
        answer.send(h11.EndOfMessage())
        status = 0
        while not isinstance(event := answer.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                answer.receive_data(ours.recv(PIECE))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the connection ended")
        return status
