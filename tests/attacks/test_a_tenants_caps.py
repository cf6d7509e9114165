# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant asks for more than each of its caps, at its own socket; another one has a machine."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chunkstore import TableRoot, references_below
from satchel.errors import CapacityError, SatchelError
from satchel.ids import BLOCK_SIZE
from surrogate.caps import TenantCaps
from surrogate.replicas.hosted import HostedReplica
from surrogate.tenant_sockets import TenantSockets
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.waiting import eventually
from wire import HttpClient, SourceAddress

pytestmark = requires("nbdkit", "nbdfuse", "fuse")


@dataclass
class Crowd:
    """A surrogate, a tenant with small caps, and a machine of another one."""

    site: Site
    sockets: TenantSockets
    greedy: HttpClient
    victim: HostedReplica

    def ask(self, name: str, size: int = 0) -> None:
        """For a machine. size: of its disk, by what its manifest says"""
        tenant = self.site.host.tenants.admit("greedy")
        request = dataclasses.replace(
            self.site.request(name),
            sources=(SourceAddress("home", str(tenant.forwarded / "home")),),
        )
        if size:
            request.manifest["volumes"]["disk0"]["size"] = size
        self.greedy.post_json("/v1/replicas", request.to_json())

    def has(self) -> list[HostedReplica]:
        return self.site.host.replicas(self.site.host.tenants.admit("greedy"))


@pytest.fixture
def crowded(short_path: Path) -> Iterator[Callable[..., Crowd]]:
    made: list[Any] = []

    def make(settings: dict[str, Any] | None = None, **caps: Any) -> Crowd:
        site = Site(short_path, tenant=TenantCaps(**caps), **settings or {})
        made.append(site)
        sockets = TenantSockets(site.host)
        made.append(sockets)
        tenant = site.host.tenants.admit("greedy")
        made.append(site.forward("home", tenant.forwarded))
        greedy = HttpClient(sockets.open(tenant))
        made.append(greedy)
        victim = site.host.create(site.request("v1"))
        victim.wait_started(60.0)
        return Crowd(site, sockets, greedy, victim)

    yield make
    assert made[0].host.replicas()[0].status().state == "ready", "the other one's machine"
    for one in reversed(made):
        one.close()


@pytest.mark.parametrize(("cap", "limit"), [("replicas", 1), ("memory_mib", 24), ("vcpus", 1)])
def test_a_machine_more_than_its_cap_is_refused_by_name(
    crowded: Callable[..., Crowd], cap: str, limit: int
) -> None:
    crowd = crowded(**{cap: limit})
    crowd.ask("g1")
    with pytest.raises(CapacityError, match=rf"tenant\.{cap.replace('_', '-')}"):
        crowd.ask("g2")
    assert [one.id for one in crowd.has()] == ["g1"]


def test_larger_disks_than_its_cap_are_refused_by_name(crowded: Callable[..., Crowd]) -> None:
    crowd = crowded(volume_gib=1)
    with pytest.raises(CapacityError, match=r"tenant\.volume-gib"):
        crowd.ask("g1", (1 << 30) + 4096)
    assert crowd.has() == []


def test_what_it_writes_beyond_its_cap_ends_its_machine(crowded: Callable[..., Crowd]) -> None:
    crowd = crowded(overlay_mib=1)
    crowd.ask("g1")
    (mine,) = crowd.has()
    mine.wait_started(60.0)
    (overlay,) = (one.overlay for one in mine.volumes if one.name == "disk0")
    with overlay.open("r+b") as file:
        file.write(os.urandom((1 << 20) + 8192))
    assert eventually(lambda: crowd.has() == [])


def test_beyond_its_bytes_of_a_day_all_is_ended_and_refused(crowded: Callable[..., Crowd]) -> None:
    crowd = crowded(day_mib=1)
    crowd.ask("g1")
    with suppress(SatchelError):
        crowd.greedy.post_bytes("/v1/replicas/g1/operations", bytes(2 << 20))
    with pytest.raises(CapacityError, match=r"tenant\.day-mib"):
        crowd.greedy.get_json("/v1/status")
    crowd.site.host._end_idle()
    assert crowd.has() == []


def test_a_machine_ends_when_its_hours_are_over(crowded: Callable[..., Crowd]) -> None:
    crowd = crowded(hours=1e-6)
    crowd.ask("g1")
    (mine,) = crowd.has()
    mine.wait_started(60.0)
    victim = crowd.victim.tenant
    victim.caps = TenantCaps()  # the account's own
    crowd.site.host._end_idle()
    assert crowd.has() == []


SHARE = 8 << 20
"""Bytes of a cache of 32 MiB that a tenant with a quarter has."""


@dataclass
class Cache:
    """What is staged of two tenants, by their own sockets."""

    crowd: Crowd
    victims: HttpClient

    def make(self, mib: int) -> TableRoot:
        return self.crowd.site.origin.store.import_bytes(os.urandom(mib << 20))

    def stage(self, who: HttpClient, name: str, blob: TableRoot) -> dict[str, Any]:
        """What has come of it when nothing more comes."""
        owner = "greedy" if who is self.crowd.greedy else "bert"
        tenant = self.crowd.site.host.tenants.admit(owner)
        request = dataclasses.replace(
            self.crowd.site.request(name, device_state=blob),
            sources=(SourceAddress("home", str(tenant.forwarded / "home")),),
        )
        who.post_json("/v1/staged", request.to_json())
        assert eventually(lambda: who.get_json(f"/v1/staged/{name}")["done"])
        said: dict[str, Any] = who.get_json(f"/v1/staged/{name}")
        return said

    def has(self, blob: TableRoot) -> int:
        """Bytes of it that are here, its table's included."""
        refs = b"".join(references_below(self.crowd.site.origin.store, [blob]))
        return self.crowd.site.host.store.has(refs).count(True) * BLOCK_SIZE


@pytest.fixture
def shared(crowded: Callable[..., Crowd]) -> Iterator[Cache]:
    crowd = crowded({"cache_mib": 32}, cache_percent=25)
    tenant = crowd.site.host.tenants.admit("bert")
    tenant.caps = TenantCaps()
    server = crowd.site.forward("home", tenant.forwarded)
    victims = HttpClient(crowd.sockets.open(tenant))
    yield Cache(crowd, victims)
    victims.close()
    server.close()


def test_what_it_stages_ends_at_its_share_of_the_cache(shared: Cache) -> None:
    blob = shared.make(24)
    said = shared.stage(shared.crowd.greedy, "g1", blob)
    assert "tenant.cache-percent" in said["error"]["why"]
    assert 0 < shared.has(blob) <= SHARE + (1 << 20)
    with pytest.raises(CapacityError, match=r"tenant\.cache-percent"):
        shared.stage(shared.crowd.greedy, "g2", blob)


def test_what_it_stages_again_and_again_takes_nobodys_room(shared: Cache) -> None:
    """It ends each before it begins the next one. That comes to the whole cache, and more."""
    precious = shared.make(6)
    assert shared.stage(shared.victims, "mine", precious)["error"] is None
    blobs = [shared.make(4) for _ in range(10)]
    for number, blob in enumerate(blobs):
        assert shared.stage(shared.crowd.greedy, f"g{number}", blob)["error"] is None
        shared.crowd.greedy.delete(f"/v1/staged/g{number}")
        shared.crowd.site.host._cache.look()
    assert shared.has(precious) > precious.size
    assert sum(map(shared.has, blobs)) <= SHARE


def test_by_naming_anothers_tables_it_drives_nothing_out(shared: Cache) -> None:
    precious = shared.make(6)
    shared.stage(shared.victims, "mine", precious)
    for number, blob in enumerate([precious, *(shared.make(4) for _ in range(4))]):
        shared.stage(shared.crowd.greedy, f"g{number}", blob)
        shared.crowd.greedy.delete(f"/v1/staged/g{number}")
    assert shared.has(precious) > precious.size
