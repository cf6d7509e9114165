# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A policy of our own: who comes next to a block is told from what came next before.

Every write of an owned block is a question: is the next access another node's read, or this node's
own? The answer comes later, and is counted for what was known at the write: how often the block had
been overwritten and what its last two answers were (the writer's history), how long ago the file
was written before (inter-access times), and which block of the same file was written before this
one (context within the file). The narrowest context that was seen before decides; wider ones, the
file and then all files, decide for blocks that are new. That is prediction by partial matching with
backing off (Cleary, Witten: Data Compression Using Adaptive Coding and Partial String Matching,
IEEE Trans. Comm. 32(4), 1984), with one symbol to foretell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shares.protocol.messages import ATTRIBUTES, FileId
from shares.protocol.node_blocks import Block
from shares.protocol.policies import AHEAD, ALONG, POLICIES, QUIET, Decision
from shares.protocol.predicted_tables import Answers, Context, Latest, Tables

SURE = 0.5
"""A push is right from this share of the answers on: a wrong one costs a round trip and a block, a
missing one a round trip."""

PLACES = 65536
"""Blocks whose last write waits for its answer; beyond, the oldest question is dropped."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What waits for its answer. late: contexts of the write, of a block that was quiet since: a
    reader that comes now is no reason to push at a write, because the quiet block is pushed."""

    contexts: tuple[Context, ...]
    late: tuple[Context, ...] = ()

    def answered(self, *, elsewhere: bool) -> tuple[Context, ...]:
        """What the answer is counted for."""
        return self.contexts if elsewhere else (*self.contexts, *self.late)


_NOTHING = _Question(())


class Predicted:
    """One node's predictor for one share. Not thread-safe, as the machine that it is asked by."""

    name = "predicted"
    declines = True
    along = True

    def __init__(self, tables: Tables | None = None) -> None:
        """tables: what was learnt before; they are the predictor's from now on."""
        self.tables = tables if tables is not None else Tables()
        self._bursts: Latest[FileId, list[int]] = Latest(PLACES)
        self._open: Latest[tuple[FileId, int], _Question] = Latest(PLACES)
        self._last: Latest[FileId, tuple[int, float]] = Latest(PLACES)

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        self._answer(file, number, elsewhere=False)
        contexts = self._contexts(file, number, block, now)
        self._note_burst(file, number, now)
        self._last[file] = (number, now)
        self._open[file, number] = _Question(contexts)
        return Decision.PUSH_TO_EVERYONE if self._likely(contexts) else Decision.LATER

    def together(self, file: FileId, number: int, now: float) -> Iterable[int]:
        return self.tables.groups.get((file, number), ())

    def _note_burst(self, file: FileId, number: int, now: float) -> None:
        """Blocks that are written one soon after the other, by the first of them."""
        burst = self._bursts.get(file)
        if burst is None or now - self._last[file][1] > QUIET:
            if burst is not None:
                self.tables.groups[file, burst[0]] = tuple(burst[1:])
            self._bursts[file] = [number]
        elif number not in burst and len(burst) <= ALONG:
            burst.append(number)

    def quiet(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        contexts = self._quiet_contexts(file, number, block)
        at_write = self._open.get((file, number), _NOTHING).contexts
        self._open[file, number] = _Question(contexts, late=at_write)
        likely = self._likely(contexts, otherwise=True)
        return Decision.PUSH_TO_EVERYONE if likely else Decision.KEEP

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return number < AHEAD

    def unasked(self, file: FileId, block: Block) -> float:
        return 0  # it learns from each write

    def asked(self, file: FileId, number: int, block: Block, now: float) -> None:
        self._answer(file, number, elsewhere=True)

    def used(self, file: FileId, number: int, block: Block, now: float) -> None:
        self._answer(file, number, elsewhere=True)

    def early(self, file: FileId, number: int, block: Block, now: float) -> None:
        self._answer(file, number, elsewhere=False)

    def _contexts(self, file: FileId, number: int, block: Block, now: float) -> tuple[Context, ...]:
        before, at = self._last.get(file, (None, now))
        step = "first" if before is None else _step(number - before)
        kind = number == ATTRIBUTES
        count = min(block.overwritten, 64)
        return (
            ("history", file, number, count, self.tables.before.get((file, number))),
            ("block", file, number, count),
            ("file", file, kind, step, min(count, 4)),
            ("gap", kind, block.wanted, step, min(count, 4), _magnitude(now - at)),
            ("all", kind, block.wanted, min(count, 2)),
        )

    def _quiet_contexts(self, file: FileId, number: int, block: Block) -> tuple[Context, ...]:
        kind, count = number == ATTRIBUTES, min(block.overwritten, 64)
        of_file = (
            ("quiet history", file, number, count, self.tables.before.get((file, number))),
            ("quiet count", file, number, count),
            ("quiet block", file, number),
            ("quiet file", file, kind),
        )
        # A push of what nobody had and nobody reads is never found out: other files say nothing.
        return (*of_file, ("quiet", kind)) if block.wanted else of_file

    def _likely(self, contexts: tuple[Context, ...], *, otherwise: bool = False) -> bool:
        """otherwise: where none of the contexts was seen before."""
        for context in contexts:
            answers = self.tables.answers.get(context)
            if answers is not None:
                return answers.elsewhere > SURE * answers.count
        return otherwise

    def _answer(self, file: FileId, number: int, elsewhere: bool) -> None:
        question = self._open.pop((file, number), None)
        if question is None:
            return
        for context in question.answered(elsewhere=elsewhere):
            answers = self.tables.answers.get(context, Answers())
            self.tables.answers[context] = answers.with_one(elsewhere=elsewhere)
        before = self.tables.before
        before[file, number] = (*before.get((file, number), ()), elsewhere)[-2:]


def _step(distance: int) -> str:
    if distance in {0, 1}:
        return ("same", "next")[distance]
    return "back" if distance < 0 else "ahead"


def _magnitude(seconds: float) -> int:
    """Decades, from a millisecond on."""
    decade = 0
    while seconds > 0.001 and decade < 6:
        seconds /= 10
        decade += 1
    return decade


POLICIES[Predicted.name] = Predicted
