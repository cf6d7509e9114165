# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The manifest of a checkpoint: what a machine was, and the tables that hold the rest of it.

Canonical JSON: keys sorted, no spaces, ASCII, one line feed at the end. The same manifest has the
same bytes everywhere; their SHA-256 names the checkpoint and the owner's signature is made of them.
docs/formats/manifest.md has the table of fields and an example.

Manifests come from media and peers: `from_bytes` and `from_json` trust nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chunkstore import TableRoot
from hypervisor import MachineSpec
from satchel.errors import IntegrityError, SatchelError, UnsupportedError
from satchel.ids import BLOCK_SIZE, CheckpointId, OperationNumber
from satchel.names import NAME
from satchel.timestamps import format_timestamp

VERSION = 4
"""1: without a profile. 2: with one. 3: `machine` says whether it is portable. 4: `freshness`."""

READ_VERSIONS = (2, 3, 4)
"""A manifest of version 2 is one whose machine does not say whether it is portable; it is not."""

SIGNATURE_NAMESPACE = "satchel-checkpoint"
"""What `ssh-keygen -Y` signs a manifest as."""

SIZE_LIMIT = 64 * 1024
"""Bytes of a manifest."""

ALGORITHMS = {"block": BLOCK_SIZE, "chunk": "sha1+sha256"}
RAM_VOLUME = "ram"

OPERATION_LIMIT = (1 << 63) - 1
EPOCH_LIMIT = (1 << 63) - 1
VOLUME_SIZE_LIMIT = 1 << 48
DEVICE_STATE_LIMIT = 64 << 20
WORKING_SET_LIMIT = 512 << 20
PROFILE_LIMIT = 256 << 10
LIST_LIMIT = 64
STRING_LIMIT = 200
PORT_LIMIT = (1 << 16) - 1
BEHIND_LIMIT = 86400
_DIGITS_LIMIT = 20

_FIELDS = (
    *("adapter", "algorithms", "created", "device_state", "machine"),
    *("operation", "parent", "profile", "service", "version", "volumes", "working_set"),
)
_ADAPTER_FIELDS = {"kind": str, "port": int, "stateful": bool, "state": list, "read_only": list}
_ID = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00")
_PATH = re.compile(r"/[!-~]*")
_FOLDER = re.compile(r"/[^\0]*")
_METHOD_PATH = re.compile(r"[A-Z]{1,20} /[!-~]{0,200}")
_MORE_OF_CARRY = {"egress", "idempotent"}
_HOST_PORT = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")


class ManifestInvalid(IntegrityError):
    """The bytes are not a manifest. field: the wrong one, or empty."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"not a manifest: {field}" if field else "not a manifest", why=why)
        self.field = field


class ManifestUnsupported(UnsupportedError):
    """The manifest has another version or other algorithms."""


@dataclass(frozen=True)
class Freshness:
    """Where a checkpoint stands among those of its service, and until when it may be used where
    its owner cannot be asked.

    epoch: 1 for the first one, and one more for each later one. previous: SHA-256 of the canonical
    bytes of the one that was made before, in hex; None where there was none. expires: a moment as
    `created` is; None: never.
    """

    epoch: int
    previous: str | None
    expires: str | None

    @classmethod
    def after(cls, latest: Manifest | None, created: str, days: int) -> Freshness:
        """Of the checkpoint after `latest`, made then; it expires after `days`, with 0 never."""
        epoch, previous = (latest.epoch, latest.digest) if latest else (0, None)
        ends = datetime.fromisoformat(created) + timedelta(days=days)
        return cls(epoch + 1, previous, format_timestamp(ends) if days else None)

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "previous": self.previous, "expires": self.expires}

    @classmethod
    def from_json(cls, value: object) -> Freshness:
        """Raises ManifestInvalid."""
        fields = _object("freshness", value)
        _exactly("freshness", fields, ("epoch", "previous", "expires"))
        epoch = _number("freshness.epoch", fields["epoch"], EPOCH_LIMIT)
        previous, expires = fields["previous"], fields["expires"]
        if epoch < 1:
            raise ManifestInvalid("freshness.epoch", "the first one is 1")
        return cls(
            epoch,
            None if previous is None else _matching("freshness.previous", previous, _DIGEST),
            None if expires is None else _moment("freshness.expires", expires),
        )


@dataclass(frozen=True)
class Manifest:
    """A checkpoint of one service.

    parent: the checkpoint that its replica was resumed from or that was taken before. created: UTC,
    microseconds, as datetime.isoformat writes it. freshness: None in one of version 2 or 3, which
    does not say it. operation: the last one that the machine has
    executed. machine: a MachineSpec as JSON. adapter: what a recipe says about operations.
    device_state: a blob. volumes: "ram" and the disks of the machine spec. working_set: a blob, the
    blocks that a resumed machine touches first; None where nobody found out. profile: a blob, what
    the service's machines touch and what after what; None as before.
    """

    service: str
    parent: CheckpointId | None
    created: str
    operation: OperationNumber
    machine: Mapping[str, Any]
    adapter: Mapping[str, Any]
    device_state: TableRoot
    volumes: Mapping[str, TableRoot]
    working_set: TableRoot | None = None
    profile: TableRoot | None = None
    freshness: Freshness | None = None

    @property
    def version(self) -> int:
        """Of the format: VERSION, but for a manifest that was read and is older."""
        if self.freshness:
            return VERSION
        return 3 if "portable" in self.machine else 2

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def id(self) -> CheckpointId:
        """The first 16 hex digits of the digest."""
        return CheckpointId(self.digest[:16])

    @property
    def epoch(self) -> int:
        """Of its freshness; 0 where it has none."""
        return self.freshness.epoch if self.freshness else 0

    @property
    def age(self) -> tuple[OperationNumber, int, str]:
        """Return the key that sorts the checkpoints of a service, the newest last. The moment
        counts only in checkpoints without an epoch: the clock may have jumped."""
        return self.operation, self.epoch, self.created

    def roots(self) -> list[TableRoot]:
        """Every table of the checkpoint: what is needed first comes first, the volumes by name."""
        first = [self.working_set] if self.working_set else []
        then = [self.profile] if self.profile else []
        volumes = (self.volumes[name] for name in sorted(self.volumes))
        return [*first, self.device_state, *then, *volumes]

    def first_roots(self) -> list[TableRoot]:
        """Those that every resume reads whole, in that order."""
        return self.roots()[: -len(self.volumes)]

    def to_json(self) -> dict[str, Any]:
        """The manifest in JSON types."""
        freshness = {"freshness": self.freshness.to_json()} if self.freshness else {}
        return {
            **freshness,
            "version": self.version,
            "algorithms": ALGORITHMS,
            "service": self.service,
            "parent": self.parent,
            "profile": self.profile.to_json() if self.profile else None,
            "created": self.created,
            "operation": self.operation,
            "machine": dict(self.machine),
            "adapter": dict(self.adapter),
            "device_state": self.device_state.to_json(),
            "volumes": {name: root.to_json() for name, root in self.volumes.items()},
            "working_set": self.working_set.to_json() if self.working_set else None,
        }

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return f"{text}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest of these canonical bytes. Raises ManifestInvalid, ManifestUnsupported."""
        if len(data) > SIZE_LIMIT:
            raise ManifestInvalid("", f"it has more than {SIZE_LIMIT} bytes")
        try:
            value = json.loads(
                data.decode("ascii"),
                object_pairs_hook=_unique,
                parse_int=_integer,
                parse_float=_no_number,
                parse_constant=_no_number,
            )
        except (ValueError, RecursionError) as error:
            raise ManifestInvalid("", str(error)[:STRING_LIMIT]) from error
        manifest = cls.from_json(value)
        if manifest.to_bytes() != data:
            raise ManifestInvalid("", "its bytes are not canonical")
        return manifest

    @classmethod
    def from_json(cls, value: object) -> Manifest:
        """The manifest of this JSON value. Raises ManifestInvalid, ManifestUnsupported."""
        fields = _object("", value)
        version = fields.get("version")
        if type(version) is not int or version < 1:
            raise ManifestInvalid("version", "it is not a version number")
        if version not in READ_VERSIONS or fields.get("algorithms") != ALGORITHMS:
            fix = "take a new checkpoint" if version < VERSION else "install a newer Satchel"
            known = " or ".join(map(str, READ_VERSIONS))
            raise ManifestUnsupported(
                f"cannot read a manifest of version {str(version)[:_DIGITS_LIMIT]}",
                why=f"this Satchel knows version {known} with {ALGORITHMS['chunk']}",
                fix=fix,
            )
        _exactly("", fields, (*_FIELDS, *(["freshness"] if version == VERSION else [])))
        spec = _machine(fields["machine"], version)
        return cls(
            service=_matching("service", fields["service"], NAME),
            parent=_parent(fields["parent"]),
            created=_moment("created", fields["created"]),
            operation=OperationNumber(_number("operation", fields["operation"], OPERATION_LIMIT)),
            machine=_object("machine", fields["machine"]),
            adapter=_adapter(fields["adapter"]),
            device_state=_root("device_state", fields["device_state"], DEVICE_STATE_LIMIT),
            volumes=_volumes(fields["volumes"], spec),
            working_set=_blob("working_set", fields, WORKING_SET_LIMIT),
            profile=_blob("profile", fields, PROFILE_LIMIT),
            freshness=Freshness.from_json(fields["freshness"]) if version == VERSION else None,
        )


def _machine(value: object, version: int) -> MachineSpec:
    if isinstance(value, dict) and ("portable" in value) != (version > 2):
        raise ManifestInvalid("machine.portable", f"in version {version} it has no such place")
    try:
        return MachineSpec.from_json(value)
    except SatchelError as error:
        raise ManifestInvalid("machine", str(error)) from error


def _adapter(value: object) -> dict[str, Any]:
    adapter = _object("adapter", value)
    if "carry" in adapter:
        _carry(adapter["carry"])
    _exactly("adapter", adapter, (*_ADAPTER_FIELDS, *(["carry"] if "carry" in adapter else [])))
    for key, kind in _ADAPTER_FIELDS.items():
        if type(adapter[key]) is not kind:
            raise ManifestInvalid(f"adapter.{key}", f"it is no {kind.__name__}")
    _matching("adapter.kind", adapter["kind"], NAME)
    if not 1 <= adapter["port"] < 1 << 16:
        raise ManifestInvalid("adapter.port", "it is not a port")
    for key, pattern in (("state", _FOLDER), ("read_only", _PATH)):
        if len(adapter[key]) > LIST_LIMIT:
            raise ManifestInvalid(f"adapter.{key}", f"it has more than {LIST_LIMIT} items")
        for path in adapter[key]:
            if ".." in _matching(f"adapter.{key}", path, pattern).split("/"):
                raise ManifestInvalid(f"adapter.{key}", "a path leads upwards")
    return adapter


def _carry(value: object) -> None:
    """What the manifest of a carried service says, and that of no other one."""
    carry = _object("adapter.carry", value)
    _exactly("adapter.carry", carry, ("behind", "ports", *carry.keys() & _MORE_OF_CARRY))
    if "egress" in carry:
        _egress(carry["egress"])
    if "idempotent" in carry:
        _idempotent(carry["idempotent"])
    _number("adapter.carry.behind", carry["behind"], BEHIND_LIMIT)
    ports = carry["ports"]
    if not isinstance(ports, list) or not 1 <= len(ports) <= LIST_LIMIT:
        raise ManifestInvalid("adapter.carry.ports", f"they are not 1 to {LIST_LIMIT}")
    for port in ports:
        fields = _object("adapter.carry.ports", port)
        _exactly("adapter.carry.ports", fields, ("front", "port", "local"))
        _matching("adapter.carry.ports.front", fields["front"], NAME)
        for key, least in (("port", 1), ("local", 0)):
            if _number(f"adapter.carry.ports.{key}", fields[key], PORT_LIMIT) < least:
                raise ManifestInvalid(f"adapter.carry.ports.{key}", "it is not a port")


def _egress(value: object) -> None:
    said = _object("adapter.carry.egress", value)
    _exactly("adapter.carry.egress", said, ("at", "hosts"))
    if said["at"] not in ("home", "client"):
        raise ManifestInvalid("adapter.carry.egress.at", "it is neither home nor client")
    hosts = said["hosts"]
    if not isinstance(hosts, list) or not 1 <= len(hosts) <= LIST_LIMIT:
        raise ManifestInvalid("adapter.carry.egress.hosts", f"they are not 1 to {LIST_LIMIT}")
    for host in hosts:
        port = _matching("adapter.carry.egress.hosts", host, _HOST_PORT).rpartition(":")[2]
        if not 1 <= int(port) <= PORT_LIMIT:
            raise ManifestInvalid("adapter.carry.egress.hosts", "it has no port")


def _idempotent(value: object) -> None:
    if not isinstance(value, list) or not 1 <= len(value) <= LIST_LIMIT:
        raise ManifestInvalid("adapter.carry.idempotent", f"they are not 1 to {LIST_LIMIT}")
    for text in value:
        _matching("adapter.carry.idempotent", text, _METHOD_PATH)


def _volumes(value: object, spec: MachineSpec) -> dict[str, TableRoot]:
    volumes = _object("volumes", value)
    if set(volumes) != {RAM_VOLUME, *spec.disks}:
        raise ManifestInvalid("volumes", "they are not those of the machine")
    found = {
        name: _root(f"volumes.{name}", root, VOLUME_SIZE_LIMIT) for name, root in volumes.items()
    }
    if found[RAM_VOLUME].size != spec.memory_bytes:
        raise ManifestInvalid("volumes.ram", "its size is not that of the machine's memory")
    return found


def _root(field: str, value: object, limit: int) -> TableRoot:
    root = _object(field, value)
    _exactly(field, root, ("sha1", "sha256", "size"))
    for key, digits in (("sha1", 40), ("sha256", 64)):
        _matching(f"{field}.{key}", root[key], re.compile(f"[0-9a-f]{{{digits}}}"))
    _number(f"{field}.size", root["size"], limit)
    try:
        return TableRoot.from_json(root)
    except (SatchelError, ValueError) as error:
        raise ManifestInvalid(field, str(error)[:STRING_LIMIT]) from error


def blob_root(field: str, value: object) -> TableRoot:
    """A blob of anybody in the form of a working set. Raises ManifestInvalid."""
    return _root(field, value, WORKING_SET_LIMIT)


def _blob(field: str, fields: Mapping[str, Any], limit: int) -> TableRoot | None:
    return None if fields[field] is None else _root(field, fields[field], limit)


def _parent(value: object) -> CheckpointId | None:
    return None if value is None else CheckpointId(_matching("parent", value, _ID))


def _moment(field: str, value: object) -> str:
    text = _matching(field, value, _MOMENT)
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ManifestInvalid(field, str(error)) from error
    return text


def _number(field: str, value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ManifestInvalid(field, f"it is not a number from 0 to {limit}")
    return value


def _matching(field: str, value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or len(value) > STRING_LIMIT or not pattern.fullmatch(value):
        raise ManifestInvalid(field, "it is malformed")
    return value


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ManifestInvalid(field, "it is not a JSON object")
    return value


def _exactly(field: str, value: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in set(value) ^ set(keys):
        shown = f"{key[:STRING_LIMIT]!r}"
        raise ManifestInvalid(field, f"{shown} is {'unknown' if key in value else 'missing'}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_LIMIT:
        raise ValueError("a number is too long")
    return int(digits)


def _no_number(text: str) -> object:
    raise ValueError(f"{text[:_DIGITS_LIMIT]} is not a whole number")
