# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of a service: which replicas execute, and which ports programs may reach.

In a manifest it is the object `adapter`: docs/formats/manifest.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from images import fields
from images.fields import ManifestInvalid
from satchel.names import NAME

BEHIND_LIMIT = 86400

_FOLDER = re.compile(r"/[^\0]*")
_PATH = re.compile(r"/[!-~]*")
_METHOD_PATH = re.compile(r"[A-Z]{1,20} /[!-~]{0,200}")
_HOST_PORT = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
Contract = Literal["replay", "carry"]
REPLAY: Final = "replay"
CARRY: Final = "carry"

_FIELDS = ("kind", "port", "stateful", "state", "read_only")


@dataclass(frozen=True)
class ServedPort:
    """A port of a carried service.

    front: what programs on the client's device are offered, by the name of a front in
    client.fronts: `tcp`, or `http`, which keeps pages of other sites out; port: on
    127.0.0.1 in the guest; local: on the client's device by default, 0 for a free one
    """

    front: str = "tcp"
    port: int = 0
    local: int = 0

    @classmethod
    def from_json(cls, value: object) -> ServedPort:
        """Raises ManifestInvalid."""
        name = "adapter.carry.ports"
        said = fields.json_object(name, value)
        fields.exactly(name, said, ("front", "port", "local"))
        return cls(
            fields.matching(f"{name}.front", said["front"], NAME),
            fields.port(f"{name}.port", said["port"]),
            fields.port(f"{name}.local", said["local"], least=0),
        )


@dataclass(frozen=True)
class EgressRule:
    """The place where a guest's connections leave, and the allowed destinations (HOST:PORT)."""

    at: Literal["home", "client"]
    hosts: tuple[str, ...]

    @classmethod
    def from_json(cls, value: object) -> EgressRule:
        """Raises ManifestInvalid."""
        name = "adapter.carry.egress"
        said = fields.json_object(name, value)
        fields.exactly(name, said, ("at", "hosts"))
        if said["at"] not in ("home", "client"):
            raise ManifestInvalid(f"{name}.at", "it is neither home nor client")
        hosts = fields.items(f"{name}.hosts", said["hosts"])
        for host in hosts:
            digits = fields.matching(f"{name}.hosts", host, _HOST_PORT).rpartition(":")[2]
            fields.port(f"{name}.hosts", int(digits))
        return cls(said["at"], tuple(hosts))


@dataclass(frozen=True)
class ContractSpec:
    """The contract of a service as its manifests have it.

    kind: `replay`: each replica executes each operation; `carry`: one replica leads, and programs
    have streams to its ports. adapter: what the port speaks, by the name of an adapter in
    `replay.adapters`. port: in the guest; it takes operations. stateful: whether operations are
    logged; never of a carried service. state: folders that hold the state. read_only: paths whose
    reads may go to one replica only. Of a carried service alone: behind: the seconds by which its
    copies may be behind; ports; egress; idempotent: METHOD PATH that may be sent twice.
    """

    kind: Contract = REPLAY
    adapter: str = "http"
    port: int = 8080
    stateful: bool = True
    state: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    behind: int = 0
    ports: tuple[ServedPort, ...] = ()
    egress: EgressRule | None = None
    idempotent: tuple[str, ...] = ()

    @property
    def carried(self) -> bool:
        """Whether one replica leads."""
        return self.kind == CARRY

    def to_json(self) -> dict[str, Any]:
        """The object `adapter` of a manifest, in JSON types."""
        said = {
            "kind": self.adapter,
            "port": self.port,
            "stateful": self.stateful,
            "state": list(self.state),
            "read_only": list(self.read_only),
        }
        return {**said, "carry": dict(self._carry())} if self.carried else said

    def _carry(self) -> Iterator[tuple[str, Any]]:
        yield "behind", self.behind
        yield "ports", [dataclasses.asdict(port) for port in self.ports]
        if self.egress:
            yield "egress", {"at": self.egress.at, "hosts": list(self.egress.hosts)}
        if self.idempotent:
            yield "idempotent", list(self.idempotent)

    @classmethod
    def from_json(cls, value: object) -> ContractSpec:
        """The contract of a manifest's `adapter`. Raises ManifestInvalid."""
        said = fields.json_object("adapter", value)
        carried = "carry" in said
        fields.exactly("adapter", said, (*_FIELDS, *(["carry"] if carried else [])))
        if type(said["stateful"]) is not bool:
            raise ManifestInvalid("adapter.stateful", "it is no bool")
        replayed = cls(
            adapter=fields.matching("adapter.kind", said["kind"], NAME),
            port=fields.port("adapter.port", said["port"]),
            stateful=said["stateful"],
            state=_paths("state", said["state"], _FOLDER),
            read_only=_paths("read_only", said["read_only"], _PATH),
        )
        return replayed._with_carry(said["carry"]) if carried else replayed

    def _with_carry(self, value: object) -> ContractSpec:
        name = "adapter.carry"
        said = fields.json_object(name, value)
        more = said.keys() & {"egress", "idempotent"}
        fields.exactly(name, said, ("behind", "ports", *more))
        idempotent = said.get("idempotent")
        if "idempotent" in more:
            for text in fields.items(f"{name}.idempotent", idempotent):
                fields.matching(f"{name}.idempotent", text, _METHOD_PATH)
        return dataclasses.replace(
            self,
            kind=CARRY,
            behind=fields.number(f"{name}.behind", said["behind"], BEHIND_LIMIT),
            ports=tuple(map(ServedPort.from_json, fields.items(f"{name}.ports", said["ports"]))),
            egress=EgressRule.from_json(said["egress"]) if "egress" in more else None,
            idempotent=tuple(idempotent or ()),
        )


def _paths(key: str, value: object, pattern: re.Pattern[str]) -> tuple[str, ...]:
    field = f"adapter.{key}"
    for path in fields.items(field, value, least=0):
        if ".." in fields.matching(field, path, pattern).split("/"):
            raise ManifestInvalid(field, "a path leads upwards")
    return tuple(value)  # type: ignore[arg-type]
