# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client's replica here: brought up in a thread of its own, asked through the API."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from chunkstore import Foresight, Store, TableRoot
from images import Manifest
from replay import Operation, ReadDigest, Response, Sample
from replica import (
    RAM,
    DeltaMaker,
    MachineSnapshot,
    Replica,
    ReplicaFailed,
    ReplicaState,
    WrongReplicaState,
    was_stopped,
)
from satchel.errors import (
    ROOTS,
    CapacityError,
    SatchelError,
    StateError,
    UnavailableError,
    UsageError,
)
from satchel.ids import ReplicaId
from satchel.spans import Spans
from surrogate.fetching import Fetcher, FetchTally, UncachedReader
from surrogate.prefetch.prefetcher import Prefetcher
from surrogate.prefetch.readahead import Readahead
from surrogate.prefetch.table_pages import TablePagePrefetcher
from surrogate.replicas.carried import Standby, frozen_at
from surrogate.replicas.cpu_priority import CpuPriority
from surrogate.replicas.handover import freeze, hand_over, taken_over
from surrogate.tenants.replica_request import named_blobs, named_roots
from surrogate.tenants.tenant import Tenant, Usage
from volumes import ReadAbandoned, Volume
from wire import (
    CreateReplica,
    ErrorReport,
    ForesightNumbers,
    HandoverState,
    ReplicaStatus,
    SourceNumbers,
    StallNumbers,
    VolumeNumbers,
)

logger = logging.getLogger(__name__)

FIRST_OPERATION_SECONDS = 3600.0
"""How long the first operation may take. Most of its time the machine waits for blocks, which is
the link's fault; blocks that nobody delivers end the machine much sooner."""

REQUEST = "request.json"
"""In a replica's folder: what a client asked for, so that the daemon can take it over."""

OWNER = "tenant"
"""In a replica's folder: the identity of its tenant."""

END_POLL_SECONDS = 0.1
"""How soon the fetch of a device state notices that the replica is being ended."""


class HostedReplica:
    """A second-class replica and the fetcher that feeds it. Thread-safe."""

    def __init__(
        self,
        manifest: Manifest,
        replica: Replica,
        store: Store,
        fetcher: Fetcher,
        prefetcher: Prefetcher | None,
        readahead: Readahead | None,
        operation_seconds: float,
        request: CreateReplica,
        tenant: Tenant,
        *,
        adopt: bool = False,
    ) -> None:
        """Begin to resume the replica, or to take over the machine that is in its folder already.
        All that is given is its own, but for its tenant. request: is kept beside the machine, for
        that."""
        self.manifest = manifest
        self.tenant = tenant
        self._request = request
        self._adopt = adopt
        self.replica = replica
        self._store = store
        self.fetcher = fetcher
        self._passing = UncachedReader(fetcher)
        self._prefetcher = prefetcher
        self._readahead = readahead
        self._pages_ahead = TablePagePrefetcher(fetcher, self._is_quiet, replica.flush)
        self._operation_seconds = operation_seconds
        self.foreground = CpuPriority(replica.weigh, always=self._is_ahead)
        self.standby = Standby(replica) if request.standby and not adopt else None
        self._created = self._heard = time.monotonic()
        self._started_seconds: float | None = None
        self._first_response: tuple[float, dict[str, int]] | None = None
        self._volumes: tuple[Volume, ...] = ()
        self._foresight = ForesightNumbers()
        self._error: SatchelError | None = None
        self._fetch_error: SatchelError | None = None
        self._stopping = threading.Lock()
        self._freezing = threading.Lock()
        self.deltas = DeltaMaker(store, self._freeze, replica.go_on, replica.run_dir)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._resume, name=f"resume-{replica.id}")
        self._thread.start()

    @property
    def id(self) -> ReplicaId:
        return self.replica.id

    @property
    def idle_seconds(self) -> float:
        """Since anybody asked for anything."""
        return time.monotonic() - self._heard

    @property
    def fetched(self) -> int:
        """Bytes that its sources have sent."""
        return sum(self.fetcher.bytes_by_source().values())

    @property
    def roots(self) -> list[TableRoot]:
        """What its client has named."""
        return named_roots(self.manifest, self._request)

    @property
    def usage(self) -> Usage:
        """What its tenant has by it. One that has ended has no machine any more."""
        spec, volumes = self.replica.spec, self.manifest.volumes.items()
        ended = self.replica.state in (ReplicaState.FAILED, ReplicaState.STOPPED)
        return Usage(
            replicas=1,
            memory_mib=0 if ended else spec.memory_mib,
            vcpus=0 if ended else spec.vcpus,
            volume_bytes=sum(root.size for name, root in volumes if name != RAM),
            overlay_bytes=self.written,
            cache_bytes=self.fetched,
            hours=(time.monotonic() - self._created) / 3600,
        )

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Those of the replica, also of one that has ended."""
        return self._volumes

    @property
    def written(self) -> int:
        """Bytes that its machine's disks take here, by what was written to them."""
        found = 0
        for volume in self._volumes:
            if volume.name != RAM:
                with contextlib.suppress(OSError):
                    found += volume.overlay.stat().st_blocks * 512
        return found

    @property
    def about(self) -> tuple[str, str]:
        """Its service and its id."""
        return self.manifest.service, self.id

    @property
    def running(self) -> Replica:
        """The replica, whatever it is at."""
        return self.replica

    present = running

    @property
    def spans(self) -> tuple[Spans, ...]:
        """What was done for it, and when."""
        return self.replica.phases.spans, self.fetcher.tally.spans

    def status(self) -> ReplicaStatus:
        """The replica now, with what it fetched by source."""
        seconds, first_bytes = self._first_response or (None, None)
        error, failure = self._error, self.replica.failure()
        if error is None and failure:
            what = f"replica {self.id} cannot continue"
            error = self._cause(ReplicaFailed(what, why=failure, fix="bring up another one"))
        return ReplicaStatus(
            replica=self.id,
            service=self.manifest.service,
            state="standby" if self._stands_by() else self.replica.state.value,
            last_operation=self.replica.last,
            fetched_bytes=self.fetcher.bytes_by_source(),
            faults=self.fetcher.faults(),
            started_seconds=self._started_seconds,
            first_response_seconds=seconds,
            first_response_bytes=first_bytes,
            error=ErrorReport.of(error) if error else None,
            sources=_sources(self.fetcher.tally),
            stalls=_stalls(self.fetcher.tally),
            volumes=self._coverage(),
            quiet_seconds=self._quiet_seconds(),
            foresight=self.foresight(),
            independent=self._prefetcher is None or self._prefetcher.independent,
        )

    def touch(self) -> None:
        """Note that the client still cares."""
        self._heard = time.monotonic()

    def claim(self, client: str) -> None:
        """Allow it: only the tenant of this replica finds it."""

    def wait_started(self, timeout: float) -> None:
        """Return once the replica is ready or has failed, or after `timeout` seconds."""
        self.touch()
        self._thread.join(timeout)

    def answer(self, operations: Sequence[Operation]) -> Iterator[Response]:
        """Execute operations in order, and give each response at once; those executed already are
        passed over.

        Raises ReplicaFailed, WrongReplicaState (at once while it is being resumed), OperationGap.
        """
        for operation in operations:
            if not (self.replica.stateful and operation.number < self.replica.last):
                yield self._perform(self.replica.execute, operation)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute requests that change nothing; see Replica.read. A response for each. Raises as
        `answer`."""
        return [self._perform(self.replica.read, operation) for operation in operations]

    def compare(self, samples: Sequence[Sample]) -> Iterator[ReadDigest]:
        """Raise UsageError if there are samples: only home compares reads."""
        if samples:
            raise UsageError("a surrogate compares no reads", fix="send the samples to home")
        return iter(())

    def _perform(
        self, perform: Callable[[Operation, float | None], Response], operation: Operation
    ) -> Response:
        if self._thread.is_alive():
            state, required = self.replica.state, ReplicaState.READY
            raise WrongReplicaState(self.id, state, required)
        if self._stop.is_set():
            raise was_stopped(self.id)
        self.touch()
        first = self._first_response is None
        if self._readahead:
            self._readahead.look()
        seconds = FIRST_OPERATION_SECONDS if first else self._operation_seconds
        with self.foreground.awaited():
            response = perform(operation, seconds)
        if self._first_response is None:
            seconds = time.monotonic() - self._created
            self._first_response = (seconds, self.fetcher.bytes_by_source())
        self.touch()
        return response

    def hand_over(self) -> HandoverState:
        """Freeze the replica between two operations, and say what it takes to go on elsewhere; here
        it goes on. Raises as `execute` does, and StateError where that cannot be said.

        While it is being frozen, and after a freeze that failed, there is no request beside it: the
        maps may then go with other tables than the request says, and nobody can take it over.
        """
        if self._thread.is_alive():
            raise WrongReplicaState(self.id, self.replica.state, ReplicaState.READY)
        with self._freezing:
            known = self._prefetcher.changes() if self._prefetcher else frozenset()
            pages = self._prefetcher.page_changes() if self._prefetcher else {}
            handed = hand_over(
                self.manifest,
                self.replica,
                self._store,
                self.fetcher,
                self._volumes,
                known,
                pages,
                freezing=self._forget_request,
            )
            request = taken_over(self._request, handed)
            told = named_blobs({"changed": handed.changed, "pages": handed.pages})
            frozen = Manifest.from_json(request.manifest)
            self.tenant.brought.add([*frozen.volumes.values(), frozen.device_state, *told])
            self._note_request(request)
            return handed

    def _freeze(self, hold: bool) -> MachineSnapshot:
        """For a delta. As with `hand_over` there is no request meanwhile; after it there is one for
        a surrogate that takes the machine over."""
        with self._freezing:
            frozen = freeze(
                self.replica, self.fetcher, self._volumes, self._forget_request, hold=hold
            )
            self.tenant.brought.add([*frozen.volumes.values(), frozen.device_state])
            self._note_request(frozen_at(self._request, frozen))
            return frozen

    def _forget_request(self) -> None:
        (self.replica.run_dir / REQUEST).unlink(missing_ok=True)

    def _note_request(self, request: CreateReplica) -> None:
        self._request = request
        (self.replica.run_dir / REQUEST).write_bytes(request.to_bytes())

    def _is_ahead(self) -> bool:
        """Whether somebody waits for it without an operation: it starts, or leads a carried
        service."""
        if self.standby is not None and self.standby.stands:
            return False
        return self._thread.is_alive() or self.replica.spec.streams

    def _stands_by(self) -> bool:
        """Whether deltas are waited for, and nothing is fetched ahead any more."""
        fetched = self._prefetcher is None or self._prefetcher.done
        return self.standby is not None and self.standby.stands and fetched

    def stop(self) -> None:
        """End the replica; leaves no process, mount or socket. Harmless the second time.

        A request to a source that is silent goes on in a daemon thread; nobody waits for it.
        """
        with self._stopping:
            self._stop.set()
            if self.standby:
                self.standby.close()
            self.fetcher.close()
            self._passing.close()
            if self._readahead:
                self._readahead.close()
            self._pages_ahead.close()
            self.foresight()
            self.replica.stop()
            self._thread.join()
            if self._prefetcher:
                self._prefetcher.join()

    def _resume(self) -> None:
        manifest = self.manifest
        volumes = dict(sorted(manifest.volumes.items()))
        frozen = MachineSnapshot(manifest.operation, manifest.device_state, volumes)
        try:
            if self._adopt:
                self.replica.adopt(frozen, self._resolve, self._attached)
            else:
                bring = self.standby.await_go if self.standby else self._read
                self.replica.resume(frozen, self._resolve, bring, self._attached)
            self._started_seconds = time.monotonic() - self._created
        except SatchelError as error:
            self._error = self._cause(error)
        except OSError as error:
            kind = CapacityError if error.errno in (errno.ENOSPC, errno.EDQUOT) else SatchelError
            self._error = kind(f"replica {self.id} cannot be resumed", why=str(error))
        except Exception as error:
            logger.exception("replica %s", self.id)
            self._error = SatchelError(f"replica {self.id} cannot be resumed", why=repr(error))
        if self._error and not self._stop.is_set():
            logger.error("replica %s: %s", self.id, self._error)

    def _attached(self, volumes: Mapping[str, Volume]) -> None:
        self._volumes = tuple(volumes.values())
        (self.replica.run_dir / OWNER).write_text(self.tenant.identity, encoding="ascii")
        self._note_request(self._request)
        if self._prefetcher:
            self._prefetcher.start(volumes)
        if self._readahead:
            self._readahead.start(volumes)
        self._pages_ahead.start(self._volumes)

    def _coverage(self) -> tuple[VolumeNumbers, ...]:
        """Of the volumes while they are attached."""
        with contextlib.suppress(StateError):
            return tuple(self.fetcher.coverage.numbers(volume) for volume in self._volumes)
        return ()

    def foresight(self) -> ForesightNumbers:
        """What it was worth to bring blocks ahead; of a replica that has ended, until then."""
        with contextlib.suppress(StateError):
            found = Foresight.of(volume.map for volume in self._volumes)
            self._foresight = ForesightNumbers(*found)
        return self._foresight

    def touched(self) -> Mapping[str, Iterable[int]]:
        """What the machine has touched here, in that order; nothing once it has ended."""
        with contextlib.suppress(StateError):
            return {volume.name: volume.map.touched() for volume in self._volumes}
        return {}

    def _quiet_seconds(self) -> float | None:
        remaining = self._prefetcher.remaining if self._prefetcher else 0
        rate = self.fetcher.rate
        if remaining and rate:
            return remaining / rate
        return 0.0 if remaining == 0 else None

    def _is_quiet(self) -> bool:
        """Whether the machine runs, and all that is fetched ahead of it is here."""
        return self.replica.state is ReplicaState.READY and self._quiet_seconds() == 0

    def _resolve(self, volume: Volume, first: int, count: int) -> bytes | None:
        source = self._prefetcher or self.fetcher
        if self._readahead:
            self._readahead.look()
        try:
            with self.fetcher.stalling():
                return self._passing.resolve(source.resolve, volume, first, count)
        except SatchelError as error:
            if not isinstance(error, ReadAbandoned):
                self._fetch_error = error
            raise

    def _cause(self, error: SatchelError) -> SatchelError:
        """A machine that ended because a block could not be had says only that it ended: why the
        block could not be had, if that was so, else `error`."""
        if self._fetch_error is None or not isinstance(error, UnavailableError):
            return error
        kinds = [root for root in ROOTS if isinstance(self._fetch_error, root)]
        return kinds[-1](
            f"replica {self.id} cannot continue", why=str(self._fetch_error), fix=error.fix
        )

    def _read(self, root: TableRoot) -> bytes:
        """All of a small volume; a stop does not wait for a source that is silent."""
        found: concurrent.futures.Future[bytes] = concurrent.futures.Future()

        def read() -> None:
            try:
                found.set_result(self.fetcher.read(root))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=read, name=f"read-{self.id}", daemon=True).start()
        while not self._stop.is_set():
            if concurrent.futures.wait([found], END_POLL_SECONDS).done:
                return found.result()
        raise was_stopped(self.id)


def _sources(tally: FetchTally) -> tuple[SourceNumbers, ...]:
    counts = sorted(tally.counts().items(), key=lambda item: (item[0][0], item[0][1].rank))
    return tuple(
        SourceNumbers(source=source, priority=priority.value, **vars(count))
        for (source, priority), count in counts
    )


def _stalls(tally: FetchTally) -> StallNumbers:
    stalls = tally.stalls()
    return StallNumbers(stalls.count, stalls.seconds, stalls.longest)
