# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate does about manifests of strangers that cannot be meant."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import pytest

from chunkstore import TableRoot
from images import ManifestUnsupported
from satchel.errors import (
    IntegrityError,
    SatchelError,
    UnsupportedError,
)
from satchel.ids import ZERO_REF, ChunkRef, OperationNumber
from surrogate.fetching import fetcher
from tests.needs import requires
from tests.scripted import SPEC
from tests.surrogate.conftest import ADAPTER, Site

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def machine(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        manifest["machine"] |= changes

    return change


def field(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        manifest[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (field("version", 99), ManifestUnsupported),
        (field("version", "1"), IntegrityError),
        (field("service", "../x"), IntegrityError),
        (field("volumes", {}), IntegrityError),
        (field("volumes", {"../../etc": {}}), IntegrityError),
        (field("operation", -1), IntegrityError),
        (field("operation", 2**80), IntegrityError),
        (field("adapter", ADAPTER | {"kind": "gopher"}), UnsupportedError),
        (field("adapter", ADAPTER | {"port": 0}), IntegrityError),
        (field("extra", 1), IntegrityError),
        (machine(memory_mib=10**9), SatchelError),
        (machine(memory_mib=-1), SatchelError),
        (machine(disks=["disk0", "disk0"]), SatchelError),
        (machine(disks=["a,file=/etc/passwd"]), SatchelError),
        (machine(cpu_model="host"), SatchelError),
        (machine(machine_type="pc,accel=kvm"), SatchelError),
    ],
)
def test_a_hostile_manifest_is_refused(
    site: Site, change: Callable[[dict[str, Any]], None], error: type[SatchelError]
) -> None:
    good = site.request()
    manifest = {**good.manifest, "machine": dict(good.manifest["machine"])}
    change(manifest)
    with pytest.raises(error):
        site.host.create(dataclasses.replace(good, manifest=manifest))
    assert site.host.replicas() == []


def test_a_manifest_of_a_monstrous_disk_is_refused_or_fails_and_leaves_nothing(site: Site) -> None:
    disks = dict(site.origin.manifest.volumes)
    disks["disk0"] = TableRoot(ref=ChunkRef(b"\1" * 52), size=1 << 48)
    try:
        hosted = site.create(volumes=disks)
    except SatchelError:
        return
    assert hosted.status().state == "failed"
    assert hosted.status().error is not None
    assert site.left() == []


def test_a_root_that_is_no_table_fails_the_replica_and_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 1.0)
    block = ChunkRef(site.origin.store.put(os.urandom(4096)))
    state = dataclasses.replace(site.origin.manifest.device_state, ref=block)
    hosted = site.create(device_state=state)
    assert hosted.status().state == "failed"
    assert hosted.status().error is not None
    assert site.left() == []


def test_memory_that_does_not_belong_to_the_device_state_fails_the_replica(site: Site) -> None:
    volumes = dict(site.origin.manifest.volumes)
    volumes["ram"] = TableRoot(ref=ZERO_REF, size=SPEC.memory_bytes)
    hosted = site.create(volumes=volumes)
    status = hosted.status()
    assert status.state == "failed"
    assert status.error is not None
    assert "refused" in status.error.what
    assert site.left() == []


def test_a_checkpoint_that_names_another_operation_than_its_guest_fails(site: Site) -> None:
    hosted = site.create(operation=OperationNumber(9))
    status = hosted.status()
    assert status.state == "failed"
    assert status.error is not None
    assert "at operation 3, not 9" in status.error.why
