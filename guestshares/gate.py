# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing that a node has written comes home before home knows what was read before that.

Else, where a surrogate is lost, home's replica would read once more what the surrogate's had read,
and find what was written afterwards: a counter would be counted up twice. The gate stands between a
node and its conversation with home. What the node says waits, in order, until home has confirmed
all that was told when it was said. Programs do not wait.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable

from satchel.errors import SatchelError, UnavailableError
from shares.node import Caller, ConversationOwner, Wait, await_reply


class Gate:
    """Thread-safe. told: how much was; heard: how much of that home has confirmed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = self._heard = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._passing = False
        self.abandoned = False
        self._callers: list[Caller] = []

    def tell(self) -> int:
        """Something is told: what `confirm` is given when home has it. What the node says after
        this waits for that."""
        with self._lock:
            self._told += 1
            return self._told

    def confirm(self, number: int) -> None:
        """Home knows all that was told up to that."""
        with self._lock:
            self._heard = max(self._heard, number)
        self._pass()

    def abandon(self) -> None:
        """Nothing passes any more: home does without this node."""
        with self._lock:
            self.abandoned = True
            self._waiting.clear()

    def close(self) -> None:
        """After `abandon`: end the conversations; home hears nothing of the node any more."""
        with self._lock:
            callers, self._callers = self._callers, []
        for caller in callers:
            caller.close()

    def say(self, send: Callable[[], None]) -> None:
        """Send it in its turn; never waits."""
        with self._lock:
            if self.abandoned:
                return
            self._waiting.append((self._told, send))
        self._pass()

    def _pass(self) -> None:
        """One thread at a time sends, so what is said stays in order."""
        while True:
            with self._lock:
                if self._passing or not self._waiting or self._waiting[0][0] > self._heard:
                    return
                _, send = self._waiting.popleft()
                self._passing = True
            try:
                send()
            finally:
                with self._lock:
                    self._passing = False

    def conversation(
        self, call: Callable[[ConversationOwner], Caller], ends: ConversationOwner
    ) -> Caller:
        """Begin one whose node is behind this gate."""
        made = _GatedCaller(self, call, ends)
        with self._lock:
            self._callers.append(made)
        return made


class _GatedCaller:
    """See shares.node.Caller."""

    def __init__(
        self, gate: Gate, call: Callable[[ConversationOwner], Caller], ends: ConversationOwner
    ) -> None:
        self._gate, self._ends = gate, ends
        self._caller = call(self)
        self.duplex = _GatedDuplex(gate, self._caller)

    def close(self) -> None:
        self._caller.close()

    # Ends.

    def greet(self, received: int) -> bytes:
        return self._ends.greet(received)

    def welcomed(self, hello: bytes) -> int:
        return self._ends.welcomed(hello)

    def arrived(self, payload: bytes, reply: Callable[[bytes], None] | None) -> None:
        def answer(data: bytes) -> None:
            if reply is not None:
                self._gate.say(lambda: reply(data))

        self._ends.arrived(payload, answer if reply is not None else None)

    def ended(self, why: str) -> None:
        self._ends.ended(why)


class _GatedDuplex:
    """See shares.node.hub.membership.Conversation."""

    def __init__(self, gate: Gate, caller: Caller) -> None:
        self._gate, self._caller = gate, caller

    @property
    def connected(self) -> bool:
        return not self._gate.abandoned and self._caller.duplex.connected

    def ask(
        self,
        payload: bytes,
        *,
        patience: float | None = None,
        arrived: Callable[[bytes], None] | None = None,
    ) -> bytes:
        wait = self.wait()

        def require() -> None:
            gone = patience is not None and wait.over(patience)
            if self._gate.abandoned or gone:
                raise UnavailableError("home is not reached", why=os.strerror(errno.ENOLINK))

        return await_reply(lambda take, failed: self.post(payload, take, failed), require, arrived)

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        self._gate.say(lambda: self._caller.duplex.post(payload, arrived, failed))

    def ping(self, answered: Callable[[], None]) -> None:
        if not self._gate.abandoned:
            self._caller.duplex.ping(answered)

    def wait(self) -> Wait:
        return self._caller.duplex.wait()
