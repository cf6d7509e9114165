# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What crosses a machine boundary as JSON. Described in docs/formats/messages.md.

Both ends read this file. Every class is a frozen dataclass; `from_json` and `from_bytes` raise
RemoteProtocolError for anything but exactly these keys and types, so an instance that exists is
well-formed: names are safe as parts of a path, counts are not negative.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from satchel.ids import CheckpointId, OperationNumber, ReplicaId
from satchel.paths import SOCKET_PATH_LIMIT
from wire import codec
from wire.errors import ErrorReport, LocalProtocolError

PARTS_LIMIT = 1024

RUNS_LIMIT = 1 << 15
"""Runs of blocks of a volume that are named at once."""

BLOCK_LIMIT = 1 << 40
"""Parts of a volume in a status."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_CHECKPOINT = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_name(name: str, kind: str) -> None:
    """Raises LocalProtocolError unless `name` is 1 to 64 characters of a-z 0-9 . _ - that start
    with a letter or a digit: such a name is safe as a part of a path."""
    if not _NAME.fullmatch(name):
        raise LocalProtocolError(f"{name[:80]!r} is no {kind}", fix="use a-z, 0-9, '-', '_', '.'")


def _check_runs(volumes: dict[str, tuple[int, ...]]) -> None:
    for name, numbers in volumes.items():
        check_name(name, "volume name")
        if len(numbers) % 2 or len(numbers) > 2 * RUNS_LIMIT:
            raise LocalProtocolError("these are not runs", why=f"{len(numbers)} numbers of {name}")
        if not all(0 <= number < BLOCK_LIMIT for number in numbers):
            raise LocalProtocolError("these are not runs", why=f"{name} has no such block")


def _check_count(value: float, kind: str) -> None:
    if value < 0:
        raise LocalProtocolError(f"{kind} must not be negative", why=f"it is {value}")


class JsonMessage:
    """What a message can do: dataclasses inherit it."""

    def to_json(self) -> dict[str, Any]:
        return codec.encode(self)

    def to_bytes(self) -> bytes:
        return codec.dumps(self.to_json())

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises RemoteProtocolError."""
        return codec.decode(cls, value)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises RemoteProtocolError."""
        return cls.from_json(codec.loads(data))


@dataclass(frozen=True)
class SourceAddress(JsonMessage):
    """Where a surrogate finds a source of chunks: a Unix socket on the surrogate's own host, which
    a forward of the client's link carries to the client's media or to home."""

    name: str
    socket: str

    def __post_init__(self) -> None:
        check_name(self.name, "source name")
        usable = self.socket.startswith("/") and "\0" not in self.socket
        if not usable or len(self.socket.encode()) > SOCKET_PATH_LIMIT:
            raise LocalProtocolError(f"{self.socket[:120]!r} is not the absolute path of a socket")


@dataclass(frozen=True)
class EdgeShare(JsonMessage):
    """What home has granted of a share to a replica's guest at a surrogate. node, calls: forwarded
    sockets at which home meets its node of the share, and answers for the guest; log: the share's
    log policy."""

    share: str
    writable: bool
    log: str
    node: SourceAddress
    calls: SourceAddress

    def __post_init__(self) -> None:
        check_name(self.share, "share")
        check_name(self.log, "log policy")


@dataclass(frozen=True)
class CreateReplica(JsonMessage):
    """The client asks a surrogate for a replica. `manifest` is the checkpoint manifest's JSON
    object, checked by the part that owns that format. changed: of a machine that was handed over,
    the blob of the blocks that the manifest's working set does not know; pages, touched: as
    HandoverState says. calls: for a machine with shares, the forwarded socket at which home answers
    for them. standby: the machine is made ready, and runs when its last delta has come. edge: where
    calls are done here, by a node of the share."""

    replica: ReplicaId
    service: str
    manifest: dict[str, Any]
    sources: tuple[SourceAddress, ...]
    changed: dict[str, Any] | None = None
    pages: dict[str, Any] | None = None
    touched: dict[str, tuple[int, ...]] = field(default_factory=dict)
    calls: SourceAddress | None = None
    standby: bool = False
    edge: EdgeShare | None = None

    @staticmethod
    def new_id(service: str) -> ReplicaId:
        """An id that nobody guesses: who knows it may do everything with the replica."""
        return ReplicaId(f"{service[:30]}-{secrets.token_hex(16)}")

    def __post_init__(self) -> None:
        check_name(self.replica, "replica id")
        check_name(self.service, "service name")
        _check_runs(self.touched)
        if len(self.sources) > 16:
            raise LocalProtocolError("too many sources", why=f"{len(self.sources)}, at most 16")


@dataclass(frozen=True)
class SignedStatement(JsonMessage):
    """What home says that it has answered to an operation, or a surrogate in a proof. answered:
    SHA-256 of the normalised response, in hex; key: the public line of the signer; signature:
    OpenSSH's, armored, or a surrogate's in base64."""

    replica: str
    answered: str
    key: str
    signature: str

    def __post_init__(self) -> None:
        check_name(self.replica, "replica id")


def runs_of(blocks: Iterable[int]) -> tuple[int, ...]:
    """Of blocks in some order: first block and count of each run, all in one row; of the first
    RUNS_LIMIT runs."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([block, 1])
    return tuple(number for run in runs[:RUNS_LIMIT] for number in run)


@dataclass(frozen=True)
class TouchReport(JsonMessage):
    """By volume, runs of blocks that a machine has touched, as HandoverState has them."""

    touched: dict[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        _check_runs(self.touched)


@dataclass(frozen=True)
class HandoverState(JsonMessage):
    """A replica as it was frozen on a surrogate, where it goes on meanwhile: what of a manifest is
    another now. Tables as a manifest has them.

    changed: a blob in the form of a working set, the blocks that differ from the checkpoint's
    pages: a blob of what has changed in the pages of its tables, from which they can be made of the
    checkpoint's; None where they have to be sent whole
    touched: by volume, runs of blocks that the machine has touched there, in that order: the first
    block and the count of each, all in one list
    """

    operation: OperationNumber
    device_state: dict[str, Any]
    volumes: dict[str, Any]
    changed: dict[str, Any]
    paused_seconds: float
    pages: dict[str, Any] | None = None
    touched: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_runs(self.touched)
        _check_count(self.operation, "operation")
        _check_count(self.paused_seconds, "paused_seconds")


@dataclass(frozen=True)
class DeltaOffer(JsonMessage):
    """A delta that was made of a carried machine: the tables and the device state that it leads to,
    as a manifest has them, and how long the machine stood still for it. size: its bytes; digest:
    their SHA-256, in hex; content: the bytes, in base64, where the machine is held meanwhile and
    they are few."""

    volumes: dict[str, Any]
    device_state: dict[str, Any]
    size: int
    digest: str
    paused_seconds: float
    content: str | None = None

    def __post_init__(self) -> None:
        _check_count(self.size, "size")
        _check_count(self.paused_seconds, "paused_seconds")
        if not _DIGEST.fullmatch(self.digest):
            raise LocalProtocolError(f"{self.digest[:80]!r} is not a SHA-256")


@dataclass(frozen=True)
class StagingStatus(JsonMessage):
    """What a surrogate has fetched of a checkpoint before a replica of it is asked for. `replica`
    is the id of the request; bytes: by source, so far; error: why some of it did not come."""

    replica: ReplicaId
    service: str
    bytes: dict[str, int]
    done: bool
    error: ErrorReport | None = None

    def __post_init__(self) -> None:
        check_name(self.replica, "replica id")
        check_name(self.service, "service name")
        for name, count in self.bytes.items():
            check_name(name, "source name")
            _check_count(count, f"the count of {name}")


@dataclass(frozen=True)
class SourceNumbers(JsonMessage):
    """What was fetched from one source at one priority. seconds: of all requests together, which
    overlap; overdue: requests whose chunks were asked for elsewhere before they came."""

    source: str
    priority: str
    requests: int
    chunks: int
    bytes: int
    seconds: float
    overdue: int

    def __post_init__(self) -> None:
        check_name(self.source, "source name")
        check_name(self.priority, "priority")
        for name in ("requests", "chunks", "bytes", "seconds", "overdue"):
            _check_count(getattr(self, name), name)


@dataclass(frozen=True)
class StallNumbers(JsonMessage):
    """How often and for how many seconds a machine stood still for blocks: in all, and the longest
    time."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def __post_init__(self) -> None:
        for name in ("count", "seconds", "longest"):
            _check_count(getattr(self, name), name)


@dataclass(frozen=True)
class PartNumbers(JsonMessage):
    """Blocks of a part of a volume by what is known of them, absent without those that are being
    fetched, and the source that most of them came from; None while none came."""

    absent: int
    fetching: int
    present: int
    dirty: int
    source: str | None = None

    def __post_init__(self) -> None:
        for name in ("absent", "fetching", "present", "dirty"):
            _check_count(getattr(self, name), name)
        if self.source is not None:
            check_name(self.source, "source name")


@dataclass(frozen=True)
class VolumeNumbers(JsonMessage):
    """How much of a volume of so many blocks is at a replica, by parts of equal size, in order."""

    name: str
    blocks: int
    parts: tuple[PartNumbers, ...]

    def __post_init__(self) -> None:
        check_name(self.name, "volume name")
        _check_count(self.blocks, "blocks")
        if len(self.parts) > PARTS_LIMIT:
            raise LocalProtocolError("too many parts", why=f"{len(self.parts)} of {self.name}")


@dataclass(frozen=True)
class ForesightNumbers(JsonMessage):
    """What bringing blocks ahead of a machine was worth: blocks that it touched, blocks that were
    brought, or were about to be, before it did, and those that are both."""

    touched: int = 0
    foreseen: int = 0
    used: int = 0

    def __post_init__(self) -> None:
        for name in ("touched", "foreseen", "used"):
            _check_count(getattr(self, name), name)


@dataclass(frozen=True)
class ReplicaStatus(JsonMessage):
    """One replica as its host sees it.

    last_operation: the last operation executed. fetched_bytes: bytes of chunks by source so far;
    faults: requests that a source did not answer and chunks that it got wrong, by source; sources
    and stalls: the same in detail.
    started_seconds: from the request until it ran; first_response_seconds: until its first
    response, first_response_bytes: `fetched_bytes` at that moment. None: not yet.
    volumes, foresight: while they are attached; quiet_seconds: until what is fetched ahead will be
    there, None while that is not known. independent: of the surrogate that handed it over: what
    only that one has, has come. signer: in the answer to its creation, the public line of the key
    that signs its answers.
    """

    replica: ReplicaId
    service: str
    state: str
    last_operation: OperationNumber
    fetched_bytes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    started_seconds: float | None = None
    first_response_seconds: float | None = None
    first_response_bytes: dict[str, int] | None = None
    error: ErrorReport | None = None
    sources: tuple[SourceNumbers, ...] = ()
    stalls: StallNumbers = field(default_factory=StallNumbers)
    volumes: tuple[VolumeNumbers, ...] = ()
    quiet_seconds: float | None = None
    foresight: ForesightNumbers = field(default_factory=ForesightNumbers)
    independent: bool = True
    signer: str = ""

    def __post_init__(self) -> None:
        check_name(self.replica, "replica id")
        check_name(self.service, "service name")
        check_name(self.state, "state")
        _check_count(self.last_operation, "last_operation")
        for counts in (self.fetched_bytes, self.faults, self.first_response_bytes or {}):
            for name, count in counts.items():
                check_name(name, "source name")
                _check_count(count, f"the count of {name}")


@dataclass(frozen=True)
class Space(JsonMessage):
    """Bytes of memory or disk: what there is, and what is free to use."""

    total: int
    free: int

    def __post_init__(self) -> None:
        _check_count(self.total, "total")
        _check_count(self.free, "free")


@dataclass(frozen=True)
class CacheNumbers(JsonMessage):
    """A host's chunk cache. limit, size: bytes. crowded: running replicas need more than the limit.
    chunks: in each queue, `high`, `normal` or `low`, the last to be given up first; hits: chunks
    that were here when a machine touched them first, by their queue then; misses: those that were
    not; evicted: chunks given up; unkept: blocks that machines got without their being kept, as
    the disk is full."""

    limit: int = 0
    size: int = 0
    crowded: bool = False
    chunks: dict[str, int] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=dict)
    misses: int = 0
    evicted: int = 0
    unkept: int = 0

    def __post_init__(self) -> None:
        for name in ("limit", "size", "misses", "evicted", "unkept"):
            _check_count(getattr(self, name), name)


@dataclass(frozen=True)
class HostStatus(JsonMessage):
    """A host that runs replicas. forwarded: the folder in which it accepts the sockets that a
    client forwards to it, empty where it accepts none. site: names of the sources that it has
    itself, media plugged in there and peers. cell: whether machines are shut in, for people. runs:
    the accelerators under which it runs strangers' machines, the fastest first; lacking: what it
    lacks for each that does not work there."""

    name: str
    version: str
    memory: Space
    disk: Space
    replicas: tuple[ReplicaStatus, ...] = ()
    forwarded: str = ""
    site: tuple[str, ...] = ()
    cache: CacheNumbers = field(default_factory=CacheNumbers)
    cell: str = ""
    runs: tuple[str, ...] = ()
    lacking: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name, "host name")


@dataclass(frozen=True)
class Lease(JsonMessage):
    """The one client that may number a service's operations, and for how many seconds still."""

    client: str
    seconds: float

    def __post_init__(self) -> None:
        check_name(self.client, "client name")
        _check_count(self.seconds, "seconds")


@dataclass(frozen=True)
class ServiceStatus(JsonMessage):
    """A service as home sees it: the newest checkpoint, the last operation on home's disk, the
    last one that home's replica executed, and who holds the lease."""

    service: str
    checkpoint: CheckpointId | None
    last_logged: OperationNumber
    last_executed: OperationNumber
    lease: Lease | None = None

    def __post_init__(self) -> None:
        check_name(self.service, "service name")
        _check_count(self.last_logged, "last_logged")
        _check_count(self.last_executed, "last_executed")
        if self.checkpoint is not None and not _CHECKPOINT.fullmatch(self.checkpoint):
            raise LocalProtocolError(f"{self.checkpoint[:40]!r} is not a checkpoint id")
