# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine needs is here before anybody asks for the machine."""

import os

import pytest

from chunkstore import TableRoot, places_missing
from images.manifest import VOLUME_SIZE_LIMIT
from satchel.errors import ConflictError, NotFoundError
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef
from surrogate.fetching import fetcher
from surrogate.host import STAGED_KEPT
from surrogate.tenants.replica_request import NotForwarded
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def test_a_replica_that_was_staged_is_resumed_from_the_cache(site: Site) -> None:
    staging = site.host.stage(site.request("ahead"))
    assert eventually(lambda: staging.status().done)
    assert staging.status().error is None
    assert staging.status().bytes["home"] > 0
    assert site.host.replicas() == []
    before = staging.status().bytes
    hosted = site.create()
    assert hosted.status().state == "ready"
    blobs = (site.origin.manifest.device_state, site.origin.manifest.working_set)
    assert all(site.host.store.missing_in(blob, 0, blob.size) == b"" for blob in blobs if blob)
    ram = site.origin.manifest.volumes["ram"]
    assert places_missing(site.host.store, ram, 0, ram.size // BLOCK_SIZE, 64) == []
    assert staging.status().bytes == before


def test_what_cannot_be_had_is_told_and_nothing_hangs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(site.source, "fetch", lambda refs, *_: b"")
    staging = site.host.stage(site.request("ahead"))
    assert eventually(lambda: staging.status().done)
    assert staging.status().error is not None


def test_a_client_that_says_a_chunk_is_a_page_keeps_nobody_busy(site: Site) -> None:
    block = ChunkRef(site.origin.store.put(os.urandom(BLOCK_SIZE)))
    ram = site.origin.manifest.volumes["ram"]
    volumes = {**site.origin.manifest.volumes, "ram": TableRoot(block, ram.size)}
    staging = site.host.stage(site.request("ahead", volumes=volumes))
    assert eventually(lambda: staging.status().done, 10.0)
    error = staging.status().error
    assert error is not None
    assert "it is not a table page" in error.why


def test_a_source_that_is_none_a_double_id_and_an_unknown_one_are_refused(site: Site) -> None:
    site.host.stage(site.request("r1"))
    with pytest.raises(ConflictError, match="staged"):
        site.host.stage(site.request("r1"))
    with pytest.raises(NotFoundError, match="nothing is staged"):
        site.host.staged("other")
    site.host.unstage("r1")
    with pytest.raises(NotFoundError):
        site.host.unstage("r1")
    site.server.close()
    site.server.path.unlink(missing_ok=True)
    with pytest.raises(NotForwarded):
        site.host.stage(site.request("r2"))


def test_a_client_that_says_its_disk_is_huge_is_forgotten_like_any_other(site: Site) -> None:
    huge = TableRoot(ref=ZERO_REF, size=VOLUME_SIZE_LIMIT)
    volumes = {**site.origin.manifest.volumes, "disk0": huge}
    staging = site.host.stage(site.request("ahead", volumes=volumes))
    assert not eventually(lambda: staging.status().done, 0.5)
    site.host.unstage("ahead")
    assert staging.status().error is None


def test_the_oldest_are_forgotten(site: Site) -> None:
    for n in range(STAGED_KEPT + 2):
        site.host.stage(site.request(f"r{n}"))
    with pytest.raises(NotFoundError):
        site.host.staged("r0")
    assert site.host.staged(f"r{STAGED_KEPT + 1}").status().service == "notes"
