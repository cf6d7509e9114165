# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home keeps of a service on disk: golden bytes, damage, interruption."""

import dataclasses
import json
from pathlib import Path

import pytest

from chunkstore import TableRoot
from homeserver.services.records import (
    CheckpointNotFound,
    CheckpointRegistry,
    RecordDamaged,
    ServiceRecord,
    ServiceRegistry,
)
from hypervisor import MachineSpec
from images import ContractSpec, Manifest
from replay import Log
from satchel.errors import ConflictError, NotFoundError, UnsupportedError
from satchel.ids import CheckpointId, ChunkRef, OperationNumber
from satchel.names import BadName

RECORD = ServiceRecord("notes", "notes", "2026-01-31T12:00:00+00:00", stateful=True)
GOLDEN = b"""\
{
  "version": 3,
  "name": "notes",
  "image": "notes",
  "created": "2026-01-31T12:00:00+00:00",
  "stateful": true,
  "machine": {
    "accelerator": "",
    "vcpus": 0,
    "memory_mib": 0
  },
  "wanted": false
}
"""
SECOND = GOLDEN.replace(b'"version": 3', b'"version": 2').replace(b',\n  "wanted": false', b"")
OLD = GOLDEN.replace(b'"version": 3', b'"version": 1')[: GOLDEN.index(b',\n  "machine"')] + b"\n}\n"


def root(number: int, size: int = 4096) -> TableRoot:
    return TableRoot(ref=ChunkRef(bytes([number]) * 52), size=size)


def manifest(operation: int, second: int = 0) -> Manifest:
    spec = MachineSpec(memory_mib=64, disks=("disk0",))
    return Manifest(
        service="notes",
        parent=None,
        created=f"2026-01-31T12:00:{second:02}.000000+00:00",
        operation=OperationNumber(operation),
        machine=spec.to_json(),
        contract=ContractSpec(port=80),
        device_state=root(1),
        volumes={"ram": root(2, spec.memory_bytes), "disk0": root(3)},
    )


@pytest.fixture
def services(tmp_path: Path) -> ServiceRegistry:
    return ServiceRegistry(tmp_path / "services")


@pytest.fixture
def shelf(tmp_path: Path) -> CheckpointRegistry:
    return CheckpointRegistry(tmp_path / "checkpoints")


def test_golden_bytes(services: ServiceRegistry) -> None:
    services.add(RECORD)
    assert (services.root / "notes" / "service.json").read_bytes() == GOLDEN
    assert services.get("notes") == RECORD
    assert services.all() == [RECORD]


def test_no_folder_no_services(services: ServiceRegistry) -> None:
    assert services.all() == []
    assert services.roots() == []
    with pytest.raises(NotFoundError):
        services.get("notes")


def test_a_name_is_taken_once(services: ServiceRegistry) -> None:
    services.add(RECORD)
    with pytest.raises(ConflictError):
        services.add(RECORD)


@pytest.mark.parametrize("name", ["../notes", "Notes", "", "a/b", "."])
def test_names_do_not_lead_elsewhere(services: ServiceRegistry, name: str) -> None:
    with pytest.raises(BadName):
        services.get(name)
    with pytest.raises(BadName):
        services.add(dataclasses.replace(RECORD, name=name))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        GOLDEN[:-20],
        GOLDEN.replace(b"true", b"1"),
        GOLDEN.replace(b'"version": 3', b'"version": 0'),
        SECOND.replace(b'"version": 2', b'"version": 3'),
        OLD.replace(b'"version": 1', b'"version": 3'),
        GOLDEN.replace(b'"accelerator": ""', b'"accelerator": "xen"'),
        GOLDEN.replace(b'"vcpus": 0', b'"vcpus": 99'),
        GOLDEN.replace(b'"image"', b'"imagination"'),
        GOLDEN.replace(b'"name": "notes"', b'"name": "other"'),
    ],
)
def test_a_damaged_description(services: ServiceRegistry, data: bytes) -> None:
    services.add(RECORD)
    (services.root / "notes" / "service.json").write_bytes(data)
    with pytest.raises(RecordDamaged, match=r"service\.json"):
        services.get("notes")


@pytest.mark.parametrize("older", [OLD, SECOND], ids=["1", "2"])
def test_a_description_of_an_older_version_is_read(services: ServiceRegistry, older: bytes) -> None:
    services.add(RECORD)
    (services.root / "notes" / "service.json").write_bytes(older)
    assert services.get("notes") == RECORD


def test_a_newer_description(services: ServiceRegistry) -> None:
    services.add(RECORD)
    newer = {**json.loads(GOLDEN), "version": 4, "colour": "red"}
    (services.root / "notes" / "service.json").write_text(json.dumps(newer))
    with pytest.raises(UnsupportedError, match="version 4"):
        services.get("notes")


def test_a_removal_that_was_interrupted_leaves_nothing_to_the_next(
    services: ServiceRegistry,
) -> None:
    services.add(RECORD)
    services.checkpoints("notes").add(manifest(7), b"signature")
    Log.open(services.log_path("notes")).close()
    (services.root / "notes" / "service.json").unlink()  # as far as it came
    assert services.all() == []
    assert services.roots() == []
    services.add(RECORD)
    assert services.checkpoints("notes").all() == []
    assert not Log.exists(services.log_path("notes"))


def test_checkpoints_come_in_the_order_of_their_operations(shelf: CheckpointRegistry) -> None:
    for one in (manifest(9), manifest(2), manifest(5, 30), manifest(5, 10)):
        shelf.add(one, b"signature")
    assert [(m.operation, m.created[17:19]) for m in shelf.all()] == [
        (2, "00"),
        (5, "10"),
        (5, "30"),
        (9, "00"),
    ]
    latest = shelf.latest()
    assert latest is not None
    assert latest.operation == 9
    assert shelf.signature(latest.id) == b"signature"


def test_a_checkpoint_without_a_signature_is_none(shelf: CheckpointRegistry) -> None:
    shelf.add(manifest(1), b"signature")
    (shelf.root / f"{manifest(2).id}.json").write_bytes(manifest(2).to_bytes())
    (shelf.root / f"{manifest(3).id}.json.sig.new").write_bytes(b"half")
    assert [m.operation for m in shelf.all()] == [1]
    with pytest.raises(CheckpointNotFound):
        shelf.signature(manifest(2).id)
    shelf.keep([manifest(1).id])
    assert sorted(path.name for path in shelf.root.iterdir()) == [
        f"{manifest(1).id}.json",
        f"{manifest(1).id}.json.sig",
    ]


def test_files_of_others_in_the_folder(shelf: CheckpointRegistry) -> None:
    """A medium goes through many hands."""
    shelf.add(manifest(1), b"signature")
    for name in ("._" + manifest(1).id + ".json.sig", "Foto.json.sig", "desktop.ini", "x.json.sig"):
        (shelf.root / name).write_bytes(b"\0")
    (shelf.root / ".Trashes").mkdir()
    assert [m.operation for m in shelf.all()] == [1]
    shelf.keep([manifest(1).id])
    assert [m.operation for m in shelf.all()] == [1]
    assert (shelf.root / "Foto.json.sig").exists()


def test_a_damaged_checkpoint(shelf: CheckpointRegistry) -> None:
    shelf.add(manifest(1), b"signature")
    shelf.add(manifest(2), b"signature")
    path = shelf.root / f"{manifest(2).id}.json"
    for data in (b"garbage", b"", manifest(3).to_bytes(), b" " * (2 << 20)):
        path.write_bytes(data)
        with pytest.raises(RecordDamaged, match=str(path)):
            shelf.all()
        assert [m.operation for m in shelf.readable()] == [1]
    path.unlink()
    with pytest.raises(CheckpointNotFound):
        shelf.all()
    shelf.keep([manifest(1).id])
    assert [m.operation for m in shelf.all()] == [1]


def test_a_prune_is_told_of_every_checkpoint_or_refused(services: ServiceRegistry) -> None:
    services.add(RECORD)
    checkpoints = services.checkpoints("notes")
    checkpoints.add(manifest(1), b"signature")
    assert services.roots() == manifest(1).roots()
    (checkpoints.root / f"{manifest(1).id}.json").write_bytes(b"garbage")
    with pytest.raises(RecordDamaged, match="move it away"):
        services.roots()


def test_the_services_beside_a_store_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ServiceRegistry(tmp_path / "services").add(RECORD)
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    for spelling in (tmp_path / "store", Path("store"), Path("./store/../store"), Path("link")):
        assert ServiceRegistry.beside(spelling).all() == [RECORD]
    assert ServiceRegistry.beside(tmp_path).all() == []


def test_a_checkpoint_that_is_asked_for_by_a_strange_name(shelf: CheckpointRegistry) -> None:
    with pytest.raises(BadName):
        shelf.get(CheckpointId("../../etc/passwd"))
    with pytest.raises(CheckpointNotFound):
        shelf.get(CheckpointId("0" * 16))


def test_a_signature_goes_before_its_manifest(
    shelf: CheckpointRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far it comes, no signature is without its manifest."""
    shelf.add(manifest(1), b"signature")
    shelf.add(manifest(2), b"signature")
    unlink = Path.unlink
    seen = []

    def watched(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        seen.append([m.operation for m in shelf.all()])

    monkeypatch.setattr(Path, "unlink", watched)
    shelf.keep([manifest(2).id])
    assert seen
    assert all(operations == [2] for operations in seen)
