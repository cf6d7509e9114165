# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The doctor: a service's log, or visits to its ports, on fresh copies of its machine. They are
thrown away.

The service itself is not touched and may go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from homeserver.services.machines import PreparedReplica
from homeserver.services.visits import PortVisit, examine_ports
from images import Manifest
from replay import AnswerDifference, Operation, Response, adapters, examine
from replica import Replica
from satchel.errors import NotFoundError, SatchelError
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent
from wire import printable

OPERATION_SECONDS = 60.0

EXCERPT_BYTES = 400

NETWORK_SECONDS = 30.0

COUNTERS = {"Ip": ("OutNoRoutes",), "Udp": ("NoPorts",)}
"""Of /proc/net/snmp: what tried to leave the guest, which has no network but its own loopback, and
questions for the address of a name, for which nobody listens there. What programs of one service
say to each other does not count."""


class NothingToExamine(NotFoundError):
    """No kept checkpoint has later operations, or the service has no log."""


class DoctorReplica:
    """A fresh replica as the diagnosis sees it."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    def execute(self, operation: Operation) -> Response:
        return self.replica.execute(operation, OPERATION_SECONDS)

    def sent(self) -> int:
        """0 where the guest cannot say."""
        try:
            argv = ["cat", "/proc/net/snmp"]
            _, output = self.replica.run(argv, NETWORK_SECONDS)
        except SatchelError:
            return 0
        return sum(_counters(output.decode("ascii", "replace")))


def diagnose(
    manifests: Sequence[Manifest],
    log_after: Callable[[OperationNumber], Sequence[Operation]],
    resume: Callable[[Manifest], PreparedReplica],
    progress: Progress = silent,
) -> dict[str, Any]:
    """What examining a log has shown, from the first of the checkpoints that it leads on from.

    manifests: the oldest first. log_after: its operations after a number, none where it begins
    later. resume: a machine that is not started. Raises NothingToExamine, and what resuming and
    executing raise.
    """
    manifest, operations = _choose(manifests, log_after)

    @contextmanager
    def fresh() -> Iterator[DoctorReplica]:
        with _started(resume(manifest)) as replica:
            yield DoctorReplica(replica)

    found = examine(operations, fresh, progress)
    return _report(manifest) | {
        "first_operation": operations[0].number,
        "last_operation": operations[-1].number,
        "differs": _describe(found, manifest) if found else None,
    }


def diagnose_ports(
    manifest: Manifest, resume: Callable[[Manifest], PreparedReplica]
) -> dict[str, Any]:
    """Return which ports of a copy of a checkpoint answer, and when, as `diagnose` reports. Raise
    the errors of a resume."""
    prepared, began = resume(manifest), time.monotonic()
    with _started(prepared) as replica:
        seconds, ports = time.monotonic() - began, manifest.contract.ports
        visits = [PortVisit(one.port, one.front, None, "the guest has no streams") for one in ports]
        if replica.door:
            visits = examine_ports(replica.door, ports)
    return _report(manifest) | {
        "resumed_seconds": seconds,
        "ports": [asdict(visit) for visit in visits],
    }


@contextmanager
def _started(prepared: PreparedReplica) -> Iterator[Replica]:
    try:
        prepared.start()
        yield prepared.replica
    finally:
        prepared.replica.stop()


def _report(manifest: Manifest) -> dict[str, Any]:
    """Return a report that has found nothing yet."""
    return {
        "service": manifest.service,
        "checkpoint": manifest.id,
        "first_operation": None,
        "last_operation": None,
        "differs": None,
        "resumed_seconds": None,
        "ports": [],
    }


def _choose(
    manifests: Sequence[Manifest], log_after: Callable[[OperationNumber], Sequence[Operation]]
) -> tuple[Manifest, Sequence[Operation]]:
    for manifest in sorted(reversed(manifests), key=lambda kept: kept.operation):
        if operations := log_after(manifest.operation):
            return manifest, operations
    raise NothingToExamine(
        "there is no operation to examine",
        why="no kept checkpoint has logged operations after it",
        fix="use the service first, or name the medium whose log has some",
    )


def _describe(found: AnswerDifference, manifest: Manifest) -> dict[str, Any]:
    label = adapters.for_kind(manifest.contract.adapter).label(found.operation)
    return {
        "operation": found.operation.number,
        "request": label,
        "cause": found.cause.value,
        "evidence": found.evidence,
        "first": excerpt(found.first),
        "second": excerpt(found.second),
    }


def excerpt(response: bytes) -> str:
    """For a terminal: a guest may answer anything."""
    text = response[:EXCERPT_BYTES].decode("utf-8", "replace")
    return printable(text.replace("\r\n", "\n"))


def _counters(snmp: str) -> Iterator[int]:
    """The counters that matter: /proc/net/snmp has a line of names before each line of numbers."""
    lines = re.findall(r"^(\w+): (.*)$", snmp, re.M)
    for (kind, names), (_, numbers) in zip(lines[::2], lines[1::2], strict=False):
        values = dict(zip(names.split(), numbers.split(), strict=False))
        for name in COUNTERS.get(kind, ()):
            if values.get(name, "").isdigit():
                yield int(values[name])
