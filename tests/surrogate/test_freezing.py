# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How often a machine that is handed over stands still, with machines of which a test knows what
they have written."""

import mmap
import os

import pytest

from chunkstore import FANOUT, pages_missing
from hypervisor.fake import FakeMachine
from satchel.ids import BLOCK_SIZE
from surrogate.tenant import Tenant
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.surrogate.sources import noise
from wire import Priority

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def urgent(tenant: Tenant) -> int:
    """Chunks that came for somebody who waited for them."""
    return sum(n.chunks for n in tenant.status().sources if n.priority == Priority.DEMAND.value)


def test_a_machine_whose_writes_are_in_the_page_cache_only_stands_still_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages above them were looked for when the first freeze had failed on them."""
    store, root = site.origin.store, site.origin.manifest.volumes["ram"]
    far = FANOUT + 7
    memory = bytearray(store.read(root))
    memory[far * BLOCK_SIZE : (far + 1) * BLOCK_SIZE] = noise(1, 1)
    tenant = site.create(
        volumes=site.origin.manifest.volumes | {"ram": store.import_bytes(bytes(memory))}
    )
    assert tenant.status().state == "ready", tenant.status().error
    (ram,) = [volume for volume in tenant.volumes if volume.name == "ram"]
    site.host.store.place(ram.map, [far], noise(1, 1))  # as a stream does, without the pages above
    paused: list[FakeMachine] = []
    pause = FakeMachine.pause

    def counted(machine: FakeMachine) -> None:
        paused.append(machine)
        pause(machine)

    monkeypatch.setattr(FakeMachine, "pause", counted)
    with (tenant.replica.run_dir / "memory" / "ram").open("r+b") as file:
        assert os.pread(file.fileno(), BLOCK_SIZE, far * BLOCK_SIZE) == noise(1, 1)
        with mmap.mmap(file.fileno(), 0) as mapped:  # to close either would write back
            mapped[far * BLOCK_SIZE] ^= 1
            assert pages_missing(site.host.store, ram.root, [far])
            before = urgent(tenant)
            handed = tenant.hand_over()
    assert len(paused) == 1
    assert urgent(tenant) > before  # who hands over is waited for
    assert 0 < handed.paused_seconds == tenant.replica.stood_still
    changed = site.host.store.read(ram.root, far * BLOCK_SIZE, BLOCK_SIZE)
    assert changed == bytes([noise(1, 1)[0] ^ 1]) + noise(1, 1)[1:]
