# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Replicas in this process, at which things go wrong when a test says so."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from replay import Operation, OperationGap, ReadDigest, Response, Sample, Samples
from satchel.errors import NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber


class InProcess:
    """An endpoint whose service answers `did OPERATION`.

    executed: the numbers, in order, each once. batches: how many came at a time, asked again or
    not. reads: of each its number, and the last operation before it. compared: sizes of batches of
    samples. fault: raised instead of an
    answer while it is set. after: set, the operations are executed before the fault is raised, as
    when an answer is lost. slow: seconds for each batch.
    """

    def __init__(
        self,
        name: str,
        *,
        last: int = 0,
        patience: float = 5.0,
        stateful: bool = True,
        slow: float = 0.0,
    ) -> None:
        self.name = name
        self.patience = patience
        self.last = last
        self.stateful = stateful
        self.slow = slow
        self.fault: SatchelError | None = None
        self.after = False
        self.says: Callable[[Operation], bytes] = lambda op: b"did " + op.payload
        self.executed: list[int] = []
        self.batches: list[int] = []
        self.positions = 0
        self.reads: list[tuple[int, int]] = []
        self.compared: list[int] = []
        self.acknowledge: Callable[[OperationNumber], None] = lambda number: None
        self.gate = threading.Event()
        self.gate.set()
        self._answers: dict[int, Response] = {}

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        self.batches.append(len(operations))
        self.gate.wait(20)
        time.sleep(self.slow)
        if self.fault and not self.after:
            raise self.fault
        for operation in operations:
            self._execute(operation)
        self.acknowledge(operations[-1].number)
        if self.fault:
            raise self.fault
        return [self._answers[op.number] for op in operations if op.number in self._answers]

    def compare(
        self, samples: Samples, operations: Sequence[Operation]
    ) -> Iterator[Response | ReadDigest]:
        self.compared.append(len(samples.encode()))
        digests = self._compare(samples)
        for operation in operations:
            yield from self.execute([operation])
            digests |= self._compare(samples)
        for sample in samples.reads:
            yield ReadDigest(sample.operation.number, digests.get(sample, b""))

    def _compare(self, samples: Samples) -> dict[Sample, bytes]:
        """The samples of this state."""
        due = [s for s in samples.reads if not self.stateful or s.state == self.last]
        answers = self.read([sample.operation for sample in due]) if due else []
        return {sample: answer.digest for sample, answer in zip(due, answers, strict=True)}

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        if not self.stateful:
            return self.execute(operations)
        self.gate.wait(20)
        time.sleep(self.slow)
        if self.fault:
            raise self.fault
        for operation in operations:
            if operation.number > self.last + 1:
                raise OperationGap(self.name, number=operation.number, last=self.last)
        self.reads += [(operation.number, self.last) for operation in operations]
        return [Response(op.number, b"read " + op.payload) for op in operations]

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        raise NotFoundError(f"{self.name} gives no answer in pieces")

    def forget(self, number: OperationNumber) -> None: ...

    def position(self) -> OperationNumber:
        self.positions += 1
        if self.fault:
            raise self.fault
        return OperationNumber(self.last)

    def _execute(self, operation: Operation) -> None:
        if self.stateful and operation.number <= self.last:
            return
        if self.stateful and operation.number != self.last + 1:
            raise OperationGap(self.name, number=operation.number, last=self.last)
        self.last = operation.number if self.stateful else self.last + 1
        self.executed.append(operation.number)
        self._answers[operation.number] = Response(operation.number, self.says(operation))


def silence(name: str = "it") -> UnavailableError:
    return UnavailableError(f"{name} does not answer")
