# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replica at home or on a surrogate, as a feed sees it: HTTP over a link that may break."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from client.links import Link
from replay import Operation, Response, decode_responses, encode_operations
from satchel.errors import UnavailableError
from satchel.ids import OperationNumber, ReplicaId
from wire import ReplicaStatus, ServiceStatus

HOME = "home"
"""The name of home's replica among the feeds."""

FOREVER = float("inf")

HOME_SLOW_SECONDS = 600.0
"""How long home may take to execute a batch before it is asked again."""


class HomeEndpoint:
    """Home's first-class replica: logs on disk, then executes; waited for without end."""

    name = HOME
    patience = FOREVER

    def __init__(
        self,
        link: Link,
        service: str,
        client: str,
        acknowledge: Callable[[OperationNumber], None],
        *,
        stateful: bool,
    ) -> None:
        self._link = link
        self._path = f"/v1/services/{service}"
        self._headers = {"X-Satchel-Client": client}
        self._acknowledge = acknowledge
        self._stateful = stateful

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        body = encode_operations(operations)
        try:
            answer = self._link.post_bytes(
                f"{self._path}/operations", body, headers=self._headers, timeout=HOME_SLOW_SECONDS
            )
        except UnavailableError:
            self._link.ensure()
            self.position()
            raise
        self._acknowledge(operations[-1].number)
        return decode_responses(answer)

    def position(self) -> OperationNumber:
        status = self.status()
        if self._stateful:
            self._acknowledge(status.last_logged)
        return status.last_executed

    def status(self) -> ServiceStatus:
        return ServiceStatus.from_json(self._link.get_json(self._path))


class SurrogateEndpoint:
    """A second-class replica. Its link is made again for a while; then the replica is lost."""

    patience = 10.0

    def __init__(self, name: str, link: Link, replica: ReplicaId) -> None:
        self.name = name
        self.replica = replica
        self._link = link
        self._path = f"/v1/replicas/{replica}"

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        body = encode_operations(operations)
        try:
            answer = self._link.post_bytes(f"{self._path}/operations", body, timeout=None)
        except UnavailableError:
            self._link.ensure()
            raise
        return decode_responses(answer)

    def position(self) -> OperationNumber:
        return self.status().last_operation

    def status(self, *, wait: float = 0.0) -> ReplicaStatus:
        """The replica now; with `wait`, as soon as it is ready or has failed, in seconds."""
        answer = self._link.get_json(f"{self._path}?wait={wait}", timeout=wait + 30.0)
        return ReplicaStatus.from_json(answer)

    def remove(self) -> None:
        """End the replica."""
        self._link.delete(self._path)
