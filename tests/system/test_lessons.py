# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a real machine touched at a surrogate alone is foreseen by the next checkpoint.

The owner reads there by a policy that asks one replica, and home for one request in twenty. What
such a read touches is told by a copy of the first checkpoint, whose misses the test sees itself.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from homeserver import Home, HomeSettings
from hypervisor import MachineSpec, QemuDriver
from images import Manifest
from replay import Operation
from replay.adapters import http
from replica import AWAY, MachineSnapshot, Profile, Replica, Run, decode_profile
from satchel.ids import OperationNumber, ReplicaId
from testbed.built import cache_folder
from tests.system.needs import WHOLE
from tests.system.site import Site
from tests.waiting import eventually
from volumes import Volume, local_resolver

pytestmark = [*WHOLE, pytest.mark.nightly]

READS = ("/export", "/", "/notes/1")
"""What no rehearsal of `notes` asks for."""

SECONDS = 60.0

Block = tuple[str, int]


@contextmanager
def home_of(site: Site) -> Iterator[Home]:
    """Home's data without its daemon."""
    data = site.home.folder / "data"
    settings = HomeSettings(data=data, run=site.folder / "hr", images=cache_folder())
    home = Home(settings, QemuDriver())
    try:
        yield home
    finally:
        home.close()


def newest(home: Home) -> Manifest:
    checkpoint = home.service("notes").newest()
    assert checkpoint is not None
    return checkpoint.manifest


def profile_of(home: Home, manifest: Manifest) -> Profile:
    assert manifest.profile is not None
    return decode_profile(home.store.read(manifest.profile), manifest.volumes)


def blocks_of(runs: Iterable[Run]) -> set[Block]:
    return {block for run in runs for block in run.blocks()}


def misses_of_reads(home: Home, manifest: Manifest, folder: Path) -> set[Block]:
    """What a copy of that machine misses for READS, and not for adding a note before them."""
    inner, missed = local_resolver(home.store), list[Block]()

    def resolve(volume: Volume, first: int, count: int) -> bytes | None:
        missed.extend((volume.name, number) for number in range(first, first + count))
        return inner(volume, first, count)

    spec, kind = MachineSpec.from_json(manifest.machine), manifest.contract.adapter
    replica = Replica(
        ReplicaId("copy"), spec, home.store, QemuDriver(), folder, adapter=kind, stateful=True
    )
    try:
        frozen = MachineSnapshot(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
        replica.resume(frozen, resolve, home.store.read, timeout=SECONDS)
        before = 0
        for target in ("/api/notes", *READS):
            number = OperationNumber(replica.last + 1)
            method, body = ("GET", b"") if target in READS else ("POST", b'{"title": "a"}')
            headers = [("Content-Type", "application/json")]
            said = http.encode(method, target, headers, body, number=number, time_ns=1, seed=1)
            replica.execute(Operation(number, 1, 1, said), SECONDS)
            before = before or len(missed)
    finally:
        replica.stop()
    return set(missed[before:])


def answered_by_a(site: Site, port: int, target: str) -> bool:
    """Whether the surrogate was the nearest for that read."""
    reply = site.request(port, "GET", target)
    assert reply.status == 200, reply
    return reply.leader == "a"


@pytest.mark.parametrize("teach", [True, False])
def test_what_only_the_surrogate_was_asked_for_comes_home(parts: Site, teach: bool) -> None:
    with home_of(parts) as home:
        first = newest(home)
        known = profile_of(home, first)
        needed = misses_of_reads(home, first, parts.folder / "copy") - blocks_of(known.order(1))
    assert len(needed) >= 20, "rehearsals know all of it: the test shows nothing"
    parts.start()
    parts.settings(f"teach = {str(teach).lower()}")
    parts.run_with_media("--policy", "nearest")
    parts.move("a")
    port = parts.port()
    parts.adds(port, *(f"note {number}" for number in range(8)))
    for target in READS:
        assert eventually(partial(answered_by_a, parts, port, target))
    assert parts.sees("stop", "notes") == {"stopped": "notes"}
    parts.home.command("checkpoint", "notes", "--media", parts.media, "--json")
    parts.home.stop()
    with home_of(parts) as home:
        learnt = profile_of(home, newest(home))
    assert (AWAY in learnt.phases) is teach
    if teach:
        away = blocks_of(learnt.order(phases=[AWAY]))
        assert needed & away
        assert len(needed & blocks_of(learnt.order())) >= 0.75 * len(needed)
