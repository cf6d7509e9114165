# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How often a machine that is handed over stands still, with machines of which a test knows what
they have written."""

import contextlib
import mmap
from collections.abc import Iterator

import pytest

from chunkstore import FANOUT, pages_missing
from hypervisor.fake import FakeMachine
from satchel.ids import BLOCK_SIZE
from surrogate.replicas.hosted import HostedReplica
from tests.chunkstore.content import noise
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.waiting import eventually
from volumes import Volume
from wire import Priority

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def urgent(hosted: HostedReplica) -> int:
    """Chunks that came for somebody who waited for them."""
    return sum(n.chunks for n in hosted.status().sources if n.priority == Priority.DEMAND.value)


def far_written(site: Site) -> tuple[HostedReplica, int]:
    """A machine, and the number of a block of its memory that came without the pages above."""
    store, root = site.origin.store, site.origin.manifest.volumes["ram"]
    far = FANOUT + 7
    memory = bytearray(store.read(root))
    memory[far * BLOCK_SIZE : (far + 1) * BLOCK_SIZE] = noise(1, 1)
    hosted = site.create(
        volumes={**site.origin.manifest.volumes, "ram": store.import_bytes(bytes(memory))}
    )
    assert hosted.status().state == "ready", hosted.status().error
    site.host.store.place(ram_of(hosted).map, [far], noise(1, 1))  # as a stream does
    return hosted, far


def ram_of(hosted: HostedReplica) -> Volume:
    (ram,) = [volume for volume in hosted.volumes if volume.name == "ram"]
    return ram


@contextlib.contextmanager
def memory_of(hosted: HostedReplica) -> Iterator[mmap.mmap]:
    path = hosted.replica.run_dir / "memory" / "ram"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        yield mapped  # to close either writes back


def test_a_machine_whose_writes_are_in_the_page_cache_only_stands_still_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages above them were looked for when the first freeze had failed on them."""
    monkeypatch.setattr("surrogate.prefetch.table_pages.PAGE_POLL_SECONDS", 1000.0)
    hosted, far = far_written(site)
    ram = ram_of(hosted)
    paused: list[FakeMachine] = []
    pause = FakeMachine.pause

    def counted(machine: FakeMachine) -> None:
        paused.append(machine)
        pause(machine)

    monkeypatch.setattr(FakeMachine, "pause", counted)
    with memory_of(hosted) as mapped:
        mapped[far * BLOCK_SIZE] ^= 1
        assert pages_missing(site.host.store, ram.root, [far])
        before = urgent(hosted)
        handed = hosted.hand_over()
    assert len(paused) == 1
    assert urgent(hosted) > before  # who hands over is waited for
    assert 0 < handed.paused_seconds == hosted.replica.stood_still
    changed = site.host.store.read(ram.root, far * BLOCK_SIZE, BLOCK_SIZE)
    assert changed == bytes([noise(1, 1)[0] ^ 1]) + noise(1, 1)[1:]


def test_the_pages_above_what_was_written_are_here_before_a_hand_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came after the walk, over the longer way, and were waited for."""
    monkeypatch.setattr("surrogate.prefetch.table_pages.PAGE_POLL_SECONDS", 0.05)
    monkeypatch.setattr("surrogate.prefetch.table_pages.FLUSH_SECONDS", 0.05)
    hosted, far = far_written(site)
    root = ram_of(hosted).root
    with memory_of(hosted) as mapped:
        mapped[far * BLOCK_SIZE] ^= 1
        assert eventually(lambda: not pages_missing(site.host.store, root, [far]))
        before = urgent(hosted)
        hosted.hand_over()
    assert urgent(hosted) == before
