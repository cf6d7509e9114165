# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reads that a client compares, each executed between two operations of the log.

The client draws lots after a surrogate has answered. It names the last operation before the answer,
and home executes the read when its replica has executed exactly this one.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from replay import ReadDigest, Sample
from replica import Replica
from satchel.errors import SatchelError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

DIGESTS_KEPT = 1024
"""Digests that are known when a client asks once more after its link broke."""


class SampledReads:
    """See the module. Thread-safe."""

    def __init__(self, changed: threading.Condition, seconds: float) -> None:
        """changed: the service's, which guards this. seconds: how long a read may take."""
        self._changed = changed
        self._seconds = seconds
        self._begun = OperationNumber(0)
        self._due: dict[bytes, Sample] = {}
        self._digests: OrderedDict[bytes, bytes] = OrderedDict()

    def reset(self, last: OperationNumber) -> None:
        """Begin with a replica that has executed that operation."""
        with self._changed:
            self._begun = last
            self._due.clear()

    def compare(
        self, samples: Sequence[Sample], runs: Callable[[], bool], stateless: Replica | None
    ) -> Iterator[ReadDigest]:
        """Announce reads, and then give the digests of their answers. The caller logs the
        operations after them between the two. A digest is empty if the replica is past the state or
        does not get there in time.

        runs: whether there is a replica. stateless: the replica of a service without states.
        """
        if stateless:
            digests = (self._read(stateless, sample) for sample in samples)
        else:
            with self._changed:
                self._announce(samples)
                self._changed.notify_all()
            digests = (self._await(sample, runs) for sample in samples)
        numbers = (sample.operation.number for sample in samples)
        return (ReadDigest(*pair) for pair in zip(numbers, digests, strict=True))

    def due(self, last: OperationNumber) -> list[Sample]:
        """Return the reads of the state after that operation. The caller holds the lock."""
        return [sample for sample in self._due.values() if sample.state == last]

    def execute(self, replica: Replica, following: OperationNumber | None) -> None:
        """Execute the reads of the present state. following: the operation that begins then."""
        while True:
            with self._changed:
                if not (due := self.due(replica.last)):
                    if following:
                        self._begin(following)
                    return
            for sample in due:
                digest = self._read(replica, sample)
                with self._changed:
                    self._keep(sample, digest)
                    self._changed.notify_all()

    def _read(self, replica: Replica, sample: Sample) -> bytes:
        perform = replica.read if replica.stateful else replica.execute
        try:
            return perform(sample.operation, self._seconds).digest
        except SatchelError as error:
            logger.warning("%s: a read was not compared: %s", replica.id, error)
            return b""

    def _await(self, sample: Sample, runs: Callable[[], bool]) -> bytes:
        key = _key(sample)
        with self._changed:
            self._changed.wait_for(lambda: key in self._digests or not runs(), self._seconds)
            return self._digests.get(key, b"")

    def _announce(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if _key(sample) in self._digests:
                continue
            if sample.state < self._begun or len(self._due) >= DIGESTS_KEPT:
                self._keep(sample, b"")
            else:
                self._due[_key(sample)] = sample

    def _begin(self, number: OperationNumber) -> None:
        """No read of an earlier state is executed any more."""
        self._begun = number
        for sample in [one for one in self._due.values() if one.state < number]:
            self._keep(sample, b"")

    def _keep(self, sample: Sample, digest: bytes) -> None:
        self._due.pop(_key(sample), None)
        self._digests[_key(sample)] = digest
        while len(self._digests) > DIGESTS_KEPT:
            self._digests.popitem(last=False)


def _key(sample: Sample) -> bytes:
    state = sample.state.to_bytes(8, "little")
    return hashlib.sha256(state + sample.operation.encode()).digest()
