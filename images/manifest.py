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
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chunkstore import TableRoot
from hypervisor import MachineSpec
from images import fields
from images.contract import ContractSpec
from images.fields import STRING_LIMIT, ManifestInvalid
from satchel.errors import SatchelError, UnsupportedError
from satchel.ids import BLOCK_SIZE, CheckpointId, OperationNumber
from satchel.names import NAME
from satchel.timestamps import format_timestamp

VERSION = 4
"""1: without a profile. 2: with one. 3: `machine` says whether it is portable. 4: `freshness`."""

READ_VERSIONS = (2, 3, 4)
"""A manifest of version 2 is one whose machine does not say whether it is portable; it is not."""

UNSAID_DAYS = 180
"""After which a manifest of version 2 or 3 expires, which does not say it."""

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
_DIGITS_LIMIT = 20

_FIELDS = (
    *("adapter", "algorithms", "created", "device_state", "machine"),
    *("operation", "parent", "profile", "service", "version", "volumes", "working_set"),
)
_ID = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00")


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
        said = fields.json_object("freshness", value)
        fields.exactly("freshness", said, ("epoch", "previous", "expires"))
        epoch = fields.number("freshness.epoch", said["epoch"], EPOCH_LIMIT)
        previous, expires = said["previous"], said["expires"]
        if epoch < 1:
            raise ManifestInvalid("freshness.epoch", "the first one is 1")
        return cls(
            epoch,
            None if previous is None else fields.matching("freshness.previous", previous, _DIGEST),
            None if expires is None else _moment("freshness.expires", expires),
        )


@dataclass(frozen=True)
class Manifest:
    """A checkpoint of one service.

    parent: the checkpoint that its replica was resumed from or that was taken before. created: UTC,
    microseconds, as datetime.isoformat writes it. freshness: None in one of version 2 or 3, which
    does not say it. operation: the last one that the machine has
    executed. machine: a MachineSpec as JSON. contract: who executes, and what may be reached.
    device_state: a blob. volumes: "ram" and the disks of the machine spec. working_set: a blob, the
    blocks that a resumed machine touches first; None where nobody found out. profile: a blob, what
    the service's machines touch and what after what; None as before.
    """

    service: str
    parent: CheckpointId | None
    created: str
    operation: OperationNumber
    machine: Mapping[str, Any]
    contract: ContractSpec
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
    def expires(self) -> str | None:
        """Return the moment after which a client without its home refuses it; None: never."""
        if self.freshness:
            return self.freshness.expires
        try:
            ends = datetime.fromisoformat(self.created) + timedelta(days=UNSAID_DAYS)
        except OverflowError:  # in the year 9999
            return self.created
        return format_timestamp(ends)

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
            "adapter": self.contract.to_json(),
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
        said = fields.json_object("", value)
        version = said.get("version")
        if type(version) is not int or version < 1:
            raise ManifestInvalid("version", "it is not a version number")
        if version not in READ_VERSIONS or said.get("algorithms") != ALGORITHMS:
            fix = "take a new checkpoint" if version < VERSION else "install a newer Satchel"
            known = " or ".join(map(str, READ_VERSIONS))
            raise ManifestUnsupported(
                f"cannot read a manifest of version {str(version)[:_DIGITS_LIMIT]}",
                why=f"this Satchel knows version {known} with {ALGORITHMS['chunk']}",
                fix=fix,
            )
        fields.exactly("", said, (*_FIELDS, *(["freshness"] if version == VERSION else [])))
        spec = _machine(said["machine"], version)
        return cls(
            service=fields.matching("service", said["service"], NAME),
            parent=_parent(said["parent"]),
            created=_moment("created", said["created"]),
            operation=OperationNumber(
                fields.number("operation", said["operation"], OPERATION_LIMIT)
            ),
            machine=fields.json_object("machine", said["machine"]),
            contract=ContractSpec.from_json(said["adapter"]),
            device_state=_root("device_state", said["device_state"], DEVICE_STATE_LIMIT),
            volumes=_volumes(said["volumes"], spec),
            working_set=_blob("working_set", said, WORKING_SET_LIMIT),
            profile=_blob("profile", said, PROFILE_LIMIT),
            freshness=Freshness.from_json(said["freshness"]) if version == VERSION else None,
        )


def _machine(value: object, version: int) -> MachineSpec:
    if isinstance(value, dict) and ("portable" in value) != (version > 2):
        raise ManifestInvalid("machine.portable", f"in version {version} it has no such place")
    try:
        return MachineSpec.from_json(value)
    except SatchelError as error:
        raise ManifestInvalid("machine", str(error)) from error


def _volumes(value: object, spec: MachineSpec) -> dict[str, TableRoot]:
    volumes = fields.json_object("volumes", value)
    if set(volumes) != {RAM_VOLUME, *spec.disks}:
        raise ManifestInvalid("volumes", "they are not those of the machine")
    found = {
        name: _root(f"volumes.{name}", root, VOLUME_SIZE_LIMIT) for name, root in volumes.items()
    }
    if found[RAM_VOLUME].size != spec.memory_bytes:
        raise ManifestInvalid("volumes.ram", "its size is not that of the machine's memory")
    return found


def _root(field: str, value: object, limit: int) -> TableRoot:
    root = fields.json_object(field, value)
    fields.exactly(field, root, ("sha1", "sha256", "size"))
    for key, digits in (("sha1", 40), ("sha256", 64)):
        fields.matching(f"{field}.{key}", root[key], re.compile(f"[0-9a-f]{{{digits}}}"))
    fields.number(f"{field}.size", root["size"], limit)
    try:
        return TableRoot.from_json(root)
    except (SatchelError, ValueError) as error:
        raise ManifestInvalid(field, str(error)[:STRING_LIMIT]) from error


def blob_root(field: str, value: object) -> TableRoot:
    """A blob of anybody in the form of a working set. Raises ManifestInvalid."""
    return _root(field, value, WORKING_SET_LIMIT)


def _blob(field: str, said: Mapping[str, Any], limit: int) -> TableRoot | None:
    return None if said[field] is None else _root(field, said[field], limit)


def _parent(value: object) -> CheckpointId | None:
    return None if value is None else CheckpointId(fields.matching("parent", value, _ID))


def _moment(field: str, value: object) -> str:
    text = fields.matching(field, value, _MOMENT)
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ManifestInvalid(field, str(error)) from error
    return text


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
