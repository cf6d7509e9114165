# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's replica as a feed sees it, with the history that both have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from client.places.home import Home
from client.places.place import wish_of
from client.platform.settings import HOME
from client.session.journal import Journal, JournalParted
from replay import (
    Answered,
    AnswerPreview,
    LongAnswerStart,
    Operation,
    ReadDigest,
    Response,
    Samples,
)
from satchel.errors import ConflictError, UnavailableError
from satchel.ids import OperationNumber

FOREVER = float("inf")


class HomeEndpoint:
    """Home's first-class replica: logs on disk, then executes; waited for without end.

    Whenever it is asked where it is, home hears that this client goes on holding the service. At
    the first time, and where home has more than this client was told, the two histories are
    compared: what another client has done meanwhile is nothing of this one's that home has.
    """

    name = HOME
    patience = FOREVER

    def __init__(
        self,
        home: Home,
        journal: Journal,
        acknowledge: Callable[[OperationNumber], None],
        *,
        stateful: bool,
        early: bool = False,
    ) -> None:
        """early: the service tells early what it is going to answer, and that is wanted."""
        self._home = home
        self._early = early
        self._journal = journal
        self._acknowledge = acknowledge
        self._stateful = stateful
        self._compared = False

    def execute(
        self, operations: Sequence[Operation]
    ) -> Iterator[Response | AnswerPreview | LongAnswerStart]:
        answers = self.compare(Samples(), operations)
        return (answer for answer in answers if not isinstance(answer, ReadDigest))

    def compare(self, samples: Samples, operations: Sequence[Operation]) -> Iterator[Answered]:
        logged, wish = not operations, wish_of(self._early, operations)
        try:
            for response in self._home.execute(operations, wish, samples):
                if not logged:  # home logs all of them before it executes the first
                    self._acknowledge(operations[-1].number)
                logged = True
                yield response
        except UnavailableError:
            self._home.link.connect()
            self.position()
            raise
        if not logged:
            self._acknowledge(operations[-1].number)

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        return self._home.piece(number, after, length)

    def forget(self, number: OperationNumber) -> None:
        self._home.forget(number)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        ask = self._home.read if self._stateful else self._home.execute
        try:
            return [answer for answer in ask(operations) if isinstance(answer, Response)]
        except UnavailableError:
            self._home.link.connect()
            self.position()
            raise

    def position(self) -> OperationNumber:
        """Raises ConflictError when another client holds the service or has used it.

        A stateless service has no position: nothing that it is asked follows anything.
        """
        self._home.claim()
        status = self._home.status()
        if not self._stateful:
            return self._journal.base
        if not self._compared or status.last_logged > self._journal.stable:
            compare(self._home, self._journal, status.last_logged)
            self._compared = True
        self._acknowledge(status.last_logged)
        return OperationNumber(max(status.last_executed, self._journal.base))


def compare(home: Home, journal: Journal, logged: OperationNumber) -> None:
    """Raises ConflictError unless home's log is a beginning of the journal.

    One operation is looked at, the last that both have. Its time and seed are random, so two logs
    that have it in common have all before it in common.
    """
    if logged > journal.last:
        raise ConflictError(
            f"home has operations of {home.service} that this client has not",
            why=f"home's log ends with {logged}, the journal with {journal.last}",
            fix="stop the session and start it again",
        )
    mine = journal.get(logged)
    if mine is not None and home.digest(logged) not in (mine.digest, None):
        raise JournalParted(
            logged,
            "in home's log",
            fix=f"home's log counts: `satchel log {home.service}` lists the operations "
            "that only this device has, and `--drop` moves them out of the way",
        )
