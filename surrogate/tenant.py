# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client's replica here: brought up in a thread of its own, asked through the API."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from images import Manifest
from overlay import Volume
from replay import Operation, Response
from replica import Frozen, Replica, ReplicaState
from satchel.errors import SatchelError
from satchel.ids import ReplicaId
from surrogate.fetch import Fetcher
from surrogate.prefetch import Prefetcher
from wire import ErrorReport, ReplicaStatus

logger = logging.getLogger(__name__)


class Tenant:
    """A second-class replica and the fetcher that feeds it. Thread-safe."""

    def __init__(
        self,
        manifest: Manifest,
        replica: Replica,
        fetcher: Fetcher,
        prefetcher: Prefetcher | None,
        operation_seconds: float,
    ) -> None:
        self.manifest = manifest
        self.replica = replica
        self.fetcher = fetcher
        self._prefetcher = prefetcher
        self._operation_seconds = operation_seconds
        self._created = self._heard = time.monotonic()
        self._started_seconds: float | None = None
        self._first_response: tuple[float, dict[str, int]] | None = None
        self._error: SatchelError | None = None
        self._thread = threading.Thread(target=self._resume, name=f"resume-{replica.id}")
        self._thread.start()

    @property
    def id(self) -> ReplicaId:
        return self.replica.id

    @property
    def idle_seconds(self) -> float:
        """Since anybody asked for anything."""
        return time.monotonic() - self._heard

    def status(self) -> ReplicaStatus:
        """The replica now, with what it fetched by source."""
        seconds, first_bytes = self._first_response or (None, None)
        error = self._error
        return ReplicaStatus(
            replica=self.id,
            service=self.manifest.service,
            state=self.replica.state.value,
            last_operation=self.replica.last,
            fetched_bytes=self.fetcher.bytes_by_source(),
            faults=self.fetcher.faults(),
            started_seconds=self._started_seconds,
            first_response_seconds=seconds,
            first_response_bytes=first_bytes,
            error=ErrorReport.of(error) if error else None,
        )

    def touch(self) -> None:
        """Note that the client still cares."""
        self._heard = time.monotonic()

    def wait_started(self, timeout: float) -> None:
        """Return once the replica is ready or has failed, or after `timeout` seconds."""
        self.touch()
        self._thread.join(timeout)

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute operations in order; those executed already are passed over.

        Raises ReplicaFailed, WrongReplicaState.
        """
        responses = []
        for operation in operations:
            self.touch()
            if self.replica.stateful and operation.number < self.replica.last:
                continue
            responses.append(self.replica.execute(operation, self._operation_seconds))
        if responses and self._first_response is None:
            seconds = time.monotonic() - self._created
            self._first_response = (seconds, self.fetcher.bytes_by_source())
        self.touch()
        return responses

    def stop(self) -> None:
        """End the replica; leaves no process, mount or socket."""
        self.fetcher.close()
        self.replica.stop()
        self._thread.join()
        if self._prefetcher:
            self._prefetcher.join()
        self.replica.stop()

    def _resume(self) -> None:
        manifest = self.manifest
        frozen = Frozen(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
        try:
            ahead = self._prefetcher.start if self._prefetcher else _nothing
            self.replica.resume(frozen, self.fetcher.resolve, self.fetcher.read, ahead)
            self._started_seconds = time.monotonic() - self._created
        except SatchelError as error:
            if self.replica.state is not ReplicaState.STOPPED:
                logger.error("replica %s: %s", self.id, error)
            self._error = error


def _nothing(volumes: Mapping[str, Volume]) -> None:
    """A checkpoint without a working set has nothing to fetch ahead."""
