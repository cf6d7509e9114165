# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Does a service do the same twice? A log on two fresh replicas, and why they part.

Where two replicas answer an operation differently, two more bring evidence: one executes the same
again, the other with the guest's clock a day later. What is told:

    network        the guest sent something, or tried to, that was not for itself
    thread order   the same words in another order
    time           what differs is a moment near the operation's, or follows the guest's clock
    randomness     it differs in every run, and does not follow the clock
    chance         done again it is as one of the two was: a rare race, or a machine at fault

The first that holds is the likely cause; it is a guess with a reason, not a proof.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from replay.operations import Operation, Response
from satchel.progress import Progress, silent

SHIFT_SECONDS = 86_400
NEAR_SECONDS = 3_600.0
"""So near to an operation's time, a number in a response is taken for a moment."""

UNITS = (1, 10**3, 10**6, 10**9)

_MOMENT = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?|\d+(?:\.\d+)?")
_WORD = re.compile(rb"[^\s,;:\"'\[\]{}()<>]+")


class Cause(enum.Enum):
    """See the module."""

    NETWORK = "network"
    THREAD_ORDER = "thread order"
    TIME = "time"
    RANDOMNESS = "randomness"
    CHANCE = "chance"


class Subject(Protocol):
    """A fresh replica, for one run."""

    def execute(self, operation: Operation) -> Response:
        """Its normalised response."""

    def sent(self) -> int:
        """Packets and connections that left the guest so far, or tried to."""


@dataclass(frozen=True)
class AnswerDifference:
    """The first operation that two replicas answered differently. evidence: for people."""

    operation: Operation
    first: bytes
    second: bytes
    cause: Cause
    evidence: str


@dataclass(frozen=True)
class ResponseEvidence:
    """What the responses to one operation were: of two replicas, done again by a third, and by a
    fourth whose clock was a day later. sent: what left the third's guest because of it."""

    first: bytes
    second: bytes
    again: bytes
    later: bytes
    sent: int


Fresh = Callable[[], AbstractContextManager[Subject]]
"""Brings up a fresh replica that ends with the block."""


def examine(
    operations: Sequence[Operation], fresh: Fresh, progress: Progress = silent
) -> AnswerDifference | None:
    """Play the operations on two fresh replicas at once: where they part and why, or None.

    Raises what bringing up and executing raise.
    """
    found = _first_difference(operations, fresh, progress)
    if found is None:
        return None
    return explain(operations, *found, fresh)


def explain(
    operations: Sequence[Operation], index: int, first: bytes, second: bytes, fresh: Fresh
) -> AnswerDifference:
    """Why two fresh replicas answered the operation at `index` with these: what two more say.

    Raises what bringing up and executing raise.
    """
    operation, before = operations[index], operations[:index]
    with fresh() as subject:
        _play(subject, before)
        quiet = subject.sent()
        again = subject.execute(operation).compared
        sent = subject.sent() - quiet
    with fresh() as subject:
        _play(subject, before)
        moment = operation.time_ns + SHIFT_SECONDS * 10**9
        later = subject.execute(dataclasses.replace(operation, time_ns=moment)).compared
    cause, evidence = judge(operation, ResponseEvidence(first, second, again, later, sent))
    return AnswerDifference(operation, first, second, cause, evidence)


def judge(operation: Operation, seen: ResponseEvidence) -> tuple[Cause, str]:
    """The likely cause, and what speaks for it."""
    if seen.sent > 0:
        return Cause.NETWORK, f"the guest sent {seen.sent} packets or connections for it"
    words = [sorted(_WORD.findall(text)) for text in (seen.first, seen.second)]
    if words[0] == words[1]:
        return Cause.THREAD_ORDER, "both responses have the same words in another order"
    if found := _clock(operation, seen):
        return Cause.TIME, found
    if seen.again not in (seen.first, seen.second):
        return Cause.RANDOMNESS, "it differs in each of three runs and does not follow the clock"
    return Cause.CHANCE, "done again, it was as one of the two: a rare race, or a machine at fault"


def _clock(operation: Operation, seen: ResponseEvidence) -> str:
    """What shows that the difference is a moment; empty if nothing does."""
    texts = (seen.first, seen.second, seen.later)
    found = [[_seconds(text, operation) for text in _MOMENT.findall(all_)] for all_ in texts]
    first, second, later = found
    if len(first) != len(second):
        return ""
    differing = [i for i, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]]
    if not differing:
        return ""
    due = operation.time_ns / 1e9
    follows = len(later) == len(first) and all(
        abs(later[i] - first[i] - SHIFT_SECONDS) < NEAR_SECONDS for i in differing
    )
    if follows:
        return "what differs is a day later where the guest's clock is"
    if all(abs(moment - due) < NEAR_SECONDS for i in differing for moment in (first[i], second[i])):
        return "what differs is a moment near the operation's time"
    return ""


def _seconds(text: bytes, operation: Operation) -> float:
    """A number as the moment that it most likely is, in seconds since 1970."""
    if b"-" in text:
        try:
            moment = datetime.fromisoformat(text.decode())
            return moment.replace(tzinfo=UTC).timestamp()
        except ValueError:
            return 0.0
    number, due = float(text[:32]), operation.time_ns / 1e9
    return min((number / unit for unit in UNITS), key=lambda seconds: abs(seconds - due))


def _first_difference(
    operations: Sequence[Operation], fresh: Fresh, progress: Progress
) -> tuple[int, bytes, bytes] | None:
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=2))
        both = [stack.enter_context(fresh()) for _ in range(2)]
        for index, operation in enumerate(operations):
            futures = [pool.submit(subject.execute, operation) for subject in both]
            first, second = (future.result().compared for future in futures)
            progress(index + 1, len(operations))
            if first != second:
                return index, first, second
    return None


def _play(subject: Subject, operations: Sequence[Operation]) -> None:
    for operation in operations:
        subject.execute(operation)
