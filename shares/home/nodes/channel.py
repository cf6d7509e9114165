# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The conversation with a node, as home needs it. The program passes in `wire.Duplex`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from satchel.errors import SatchelError

ANSWER_LIMIT = 16 << 20
"""Bytes of an answer: a stream takes no longer one (`wire.FRAME_LIMIT`)."""

Reply = Callable[[bytes], None]
Arrived = Callable[[bytes, Reply | None], None]
"""Takes what the node says, on one thread and in order. With a request comes a function for its
reply, to be called once, now or later, on any thread."""


class Channel(Protocol):
    """Home's end of a conversation. Thread-safe. It outlives its connections: what is posted while
    there is none waits for the next one.

    name: of the node, for messages; heard: monotonic time at which anything of it came last
    """

    name: str
    heard: float

    @property
    def connected(self) -> bool: ...

    @property
    def ended(self) -> str | None:
        """Why the conversation is over; None while it is not."""
        ...

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        """Send a message or, with `arrived`, a request. Never waits.

        arrived: is called with the reply on the thread that reads, in its place among what the
        node says; failed: is called where there will be no reply, also at once
        """
        ...

    def pause(self) -> int:
        """Cut the connection and wait until all that came over it was taken up: how many payloads
        that were since the conversation began."""
        ...

    def end(self, why: str) -> None:
        """Nothing is sent or taken any more. Harmless the second time."""
        ...


Open = Callable[[str, Arrived], Channel]
"""Begins a conversation with the node of that name, which has no connection yet."""
