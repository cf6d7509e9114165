# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: pinned bytes, round trips, and everything that a hostile one may try."""

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from chunkstore import TableRoot
from hypervisor import MachineSpec
from images import (
    ContractSpec,
    Freshness,
    Manifest,
    ManifestInvalid,
    ManifestUnsupported,
    ServedPort,
)
from images.manifest import SIZE_LIMIT
from satchel.errors import SatchelError
from satchel.ids import CheckpointId, ChunkRef, OperationNumber

GOLDEN = (
    b'{"adapter":{"kind":"http","port":8080,"read_only":["/"],"state":["/var/lib/notes"],'
    b'"stateful":true},"algorithms":{"block":4096,"chunk":"sha1+sha256"},'
    b'"created":"2026-01-02T03:04:05.000006+00:00",'
    b'"device_state":{"sha1":"0101010101010101010101010101010101010101",'
    b'"sha256":"0101010101010101010101010101010101010101010101010101010101010101","size":290816},'
    b'"machine":{"accelerator":"tcg","cpu_model":"Westmere-v1","disks":["disk0"],'
    b'"machine_type":"pc-q35-5.1","memory_mib":256,"portable":true,"vcpus":1},"operation":30,'
    b'"parent":"0123456789abcdef","profile":null,"service":"notes","version":3,'
    b'"volumes":{"disk0":{"sha1":"0202020202020202020202020202020202020202",'
    b'"sha256":"0202020202020202020202020202020202020202020202020202020202020202",'
    b'"size":1073741824},"ram":{"sha1":"0303030303030303030303030303030303030303",'
    b'"sha256":"0303030303030303030303030303030303030303030303030303030303030303",'
    b'"size":268435456}},"working_set":null}\n'
)
GOLDEN_ID = "0109251f745c0da6"

FRESH = GOLDEN.replace(
    b'"machine":{',
    b'"freshness":{"epoch":12,"expires":"2026-07-01T03:04:05.000006+00:00",'
    b'"previous":"0404040404040404040404040404040404040404040404040404040404040404"},"machine":{',
).replace(b'"version":3', b'"version":4')
FRESH_ID = "f362757b51a3fab3"

OLD = (
    GOLDEN.replace(b'"machine_type":"pc-q35-5.1"', b'"machine_type":"pc-q35-7.2"')
    .replace(b'"portable":true,', b"")
    .replace(b'"version":3', b'"version":2')
)
OLD_ID = "8134cbe504d75a38"
"""What Satchel wrote before machines were portable, and still reads."""


def root(byte: int, size: int) -> TableRoot:
    return TableRoot(ChunkRef(bytes([byte]) * 52), size)


def manifest() -> Manifest:
    return Manifest(
        service="notes",
        parent=CheckpointId("0123456789abcdef"),
        created="2026-01-02T03:04:05.000006+00:00",
        operation=OperationNumber(30),
        machine={
            "memory_mib": 256,
            "disks": ["disk0"],
            "machine_type": "pc-q35-5.1",
            "cpu_model": "Westmere-v1",
            "vcpus": 1,
            "accelerator": "tcg",
            "portable": True,
        },
        contract=ContractSpec(state=("/var/lib/notes",), read_only=("/",)),
        device_state=root(1, 290816),
        volumes={"ram": root(3, 256 << 20), "disk0": root(2, 1 << 30)},
    )


def changed(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def removed(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


def test_the_bytes_and_the_id_are_pinned() -> None:
    assert manifest().to_bytes() == GOLDEN
    assert manifest().id == GOLDEN_ID


def test_one_that_says_where_it_stands_has_version_4() -> None:
    fresh = Freshness(12, "04" * 32, "2026-07-01T03:04:05.000006+00:00")
    original = dataclasses.replace(manifest(), freshness=fresh)
    assert (original.to_bytes(), original.id) == (FRESH, FRESH_ID)
    assert Manifest.from_bytes(FRESH) == original
    after = Freshness.after(original, original.created, 180)
    assert after == Freshness(13, original.digest, "2026-07-01T03:04:05.000006+00:00")
    assert Freshness.after(None, original.created, 0) == Freshness(1, None, None)
    for key, value in [("epoch", 0), ("epoch", "1"), ("previous", "04"), ("expires", "soon")]:
        with pytest.raises(ManifestInvalid, match=f"freshness.{key}"):
            Manifest.from_json({**original.to_json(), "freshness": {**fresh.to_json(), key: value}})
    for version in (2, 3):
        with pytest.raises(ManifestInvalid):
            Manifest.from_json({**original.to_json(), "version": version})
    with pytest.raises(ManifestInvalid, match="freshness"):
        Manifest.from_json({**manifest().to_json(), "version": 4})


def test_bytes_and_json_give_the_same_manifest() -> None:
    assert Manifest.from_bytes(GOLDEN) == manifest()
    assert Manifest.from_json(json.loads(GOLDEN)) == manifest()
    assert Manifest.from_json(manifest().to_json()).id == manifest().id


def test_a_manifest_of_before_machines_were_portable_is_read_and_written_as_it_is() -> None:
    old = Manifest.from_bytes(OLD)
    assert (old.id, old.to_bytes()) == (OLD_ID, OLD)
    assert Manifest.from_json(old.to_json()) == old
    spec = MachineSpec.from_json(old.machine)
    assert not spec.portable
    assert spec.accelerators == ("tcg",)
    again = dataclasses.replace(old, machine=spec.to_json())
    assert again.to_json()["version"] == 3
    assert Manifest.from_bytes(again.to_bytes()) == again


CARRY = {"behind": 30, "ports": [{"front": "tcp", "port": 6379, "local": 0}]}


def test_a_carried_service_has_its_ports_in_its_manifest() -> None:
    original = manifest()
    ports = (ServedPort("tcp", 6379, 0),)
    contract = dataclasses.replace(original.contract, kind="carry", behind=30, ports=ports)
    carried = dataclasses.replace(original, contract=contract)
    assert contract.to_json()["carry"] == CARRY
    assert Manifest.from_bytes(carried.to_bytes()) == carried
    line = b'{"adapter":{"carry":{"behind":30,"ports":[{"front":"tcp","local":0,"port":6379}]},'
    assert carried.to_bytes().startswith(line + b'"kind":"http"')


@pytest.mark.parametrize(
    "carry",
    [
        None,
        {},
        {**CARRY, "more": 1},
        {**CARRY, "behind": -1},
        {**CARRY, "behind": "30"},
        {**CARRY, "ports": []},
        {**CARRY, "more": 1},
        {**CARRY, "idempotent": []},
        {**CARRY, "idempotent": ["notes"]},
        {**CARRY, "egress": {"at": "surrogate", "hosts": ["a.example:80"]}},
        {**CARRY, "egress": {"at": "home", "hosts": []}},
        {**CARRY, "egress": {"at": "home", "hosts": ["a.example"]}},
        {**CARRY, "egress": {"at": "home", "hosts": ["a.example:0"]}},
        {**CARRY, "egress": {"at": "home", "hosts": "a.example:80"}},
        {**CARRY, "egress": {"at": "home"}},
        {**CARRY, "ports": {"front": "tcp"}},
        {**CARRY, "ports": [{"front": "tcp", "port": 0, "local": 0}]},
        {**CARRY, "ports": [{"front": "tcp", "port": 1, "local": 65536}]},
        {**CARRY, "ports": [{"front": "../x", "port": 1, "local": 0}]},
        {**CARRY, "ports": [{"front": "tcp", "port": 1}]},
        {**CARRY, "ports": [{"front": "tcp", "port": 1, "local": 0}] * 65},
    ],
)
def test_ports_that_cannot_be_meant_are_refused(carry: object) -> None:
    value = manifest().to_json()
    value["adapter"]["carry"] = carry
    with pytest.raises(ManifestInvalid, match=r"adapter\.carry"):
        Manifest.from_json(value)


def test_roots_are_in_the_order_of_need() -> None:
    rehearsed = dataclasses.replace(manifest(), working_set=root(4, 8192))
    assert [each.size for each in manifest().roots()] == [290816, 1 << 30, 256 << 20]
    assert [each.size for each in rehearsed.roots()] == [8192, 290816, 1 << 30, 256 << 20]
    learnt = dataclasses.replace(rehearsed, profile=root(5, 4096))
    assert [each.size for each in learnt.roots()][:3] == [8192, 290816, 4096]
    assert Manifest.from_bytes(learnt.to_bytes()) == learnt


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (changed("service", to="../../etc"), "service"),
        (changed("service", to="a" * 64), "service"),
        (changed("service", to=7), "service"),
        (changed("parent", to="0123456789ABCDEF"), "parent"),
        (changed("parent", to="/etc/passwd"), "parent"),
        (changed("created", to="yesterday"), "created"),
        (changed("created", to="2026-13-45T99:99:99.000000+00:00"), "created"),
        (changed("created", to="\u0662\u0660\u0662\u0666-01-02T03:04:05.000006+00:00"), "created"),
        (changed("operation", to=-1), "operation"),
        (changed("operation", to=1 << 63), "operation"),
        (changed("operation", to=True), "operation"),
        (changed("operation", to="30"), "operation"),
        (changed("operation", to=None), "operation"),
        (changed("version", to=0), "version"),
        (changed("version", to=True), "version"),
        (changed("machine", to=[]), "machine"),
        (changed("machine", "cpu_model", to="host"), "machine"),
        (changed("machine", "memory_mib", to=1 << 70), "machine"),
        (changed("machine", "extra", to=1), "machine"),
        (changed("machine", "portable", to=1), "machine"),
        (removed("machine", "portable"), "machine.portable"),
        (changed("version", to=2), "machine.portable"),
        (changed("adapter", "kind", to="../http"), "adapter.kind"),
        (changed("adapter", "port", to=0), "adapter.port"),
        (changed("adapter", "port", to=True), "adapter.port"),
        (changed("adapter", "port", to=65536), "adapter.port"),
        (changed("adapter", "stateful", to=1), "adapter.stateful"),
        (changed("adapter", "state", to=["etc"]), "adapter.state"),
        (changed("adapter", "state", to=["/a/../../etc"]), "adapter.state"),
        (changed("adapter", "state", to=["/a"] * 65), "adapter.state"),
        (changed("adapter", "read_only", to=[7]), "adapter.read_only"),
        (changed("adapter", "more", to=1), "adapter"),
        (changed("device_state", "size", to=1 << 40), "device_state.size"),
        (changed("device_state", "size", to=-1), "device_state.size"),
        (changed("device_state", "sha1", to="zz" * 20), "device_state.sha1"),
        (changed("device_state", "sha256", to="0" * 63), "device_state.sha256"),
        (removed("device_state", "sha256"), "device_state"),
        (removed("service"), ""),
        (changed("more", to=1), ""),
        (removed("volumes", "ram"), "volumes"),
        (removed("volumes", "disk0"), "volumes"),
        (changed("volumes", "../disk", to={}), "volumes"),
        (changed("volumes", "ram", "size", to=4096), "volumes.ram"),
        (changed("volumes", "disk0", to=None), "volumes.disk0"),
        (changed("profile", to=7), "profile"),
        (changed("profile", to={"size": 1 << 20}), "profile"),
        (changed("working_set", to=7), "working_set"),
        (changed("working_set", to={"size": 1 << 30}), "working_set"),
    ],
)
def test_a_hostile_value_is_refused_by_its_field(
    change: Callable[[dict[str, Any]], None], field: str
) -> None:
    value = json.loads(GOLDEN)
    change(value)
    with pytest.raises(ManifestInvalid) as raised:
        Manifest.from_json(value)
    assert raised.value.field == field


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        GOLDEN[:-1],
        GOLDEN[:100],
        GOLDEN + b"\n",
        GOLDEN.replace(b'"port":8080', b'"port": 8080'),
        GOLDEN.replace(b'"port":8080', b'"port":8080.0'),
        GOLDEN.replace(b'"port":8080', b'"port":NaN'),
        GOLDEN.replace(b'"port":8080', b'"port":1e999'),
        GOLDEN.replace(b'"port":8080', b'"port":' + b"9" * 5000),
        GOLDEN.replace(b'"version":3', b'"version":3,"version":3'),
        GOLDEN.replace(b"notes", b"n\\u006ftes"),
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b" " * (SIZE_LIMIT + 1),
    ],
)
def test_bytes_that_are_not_canonical_are_refused(data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        Manifest.from_bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        changed("version", to=1),
        changed("version", to=5),
        changed("version", to=10**19),
        changed("algorithms", "chunk", to="blake3"),
        removed("algorithms"),
    ],
)
def test_what_a_newer_version_wrote_is_unsupported(
    change: Callable[[dict[str, Any]], None],
) -> None:
    value = json.loads(GOLDEN)
    change(value)
    with pytest.raises(ManifestUnsupported, match=r"newer Satchel|a new checkpoint"):
        Manifest.from_json(value)


def test_no_damage_passes_and_none_raises_anything_unforeseen() -> None:
    rng = random.Random(2)
    for _ in range(3000):
        data = bytearray(GOLDEN)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if bytes(data) == GOLDEN:
            continue
        try:
            found = Manifest.from_bytes(bytes(data))
        except SatchelError as error:
            assert isinstance(error, ManifestInvalid | ManifestUnsupported)
        else:
            assert found.id != GOLDEN_ID
            assert found.to_bytes() == bytes(data)
