# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine has touched elsewhere is brought ahead of it."""

import dataclasses

import pytest

from chunkstore import BlockState
from images import blob_root
from replica import encode_working_set
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.waiting import eventually
from wire import RUNS_LIMIT, LocalProtocolError, runs_of

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def test_blocks_that_follow_each_other_are_one_run() -> None:
    assert runs_of([]) == ()
    assert runs_of([5, 6, 7, 1, 9, 8]) == (5, 3, 1, 1, 9, 1, 8, 1)
    assert len(runs_of(range(0, 4 * RUNS_LIMIT, 2))) == 2 * RUNS_LIMIT


def test_what_was_touched_before_is_here_before_it_is_touched(site: Site) -> None:
    assert site.origin.manifest.working_set is not None
    blob = site.origin.store.import_bytes(encode_working_set([], lambda run: b""))
    runs: tuple[int, ...] = (0, 2, 1 << 39, 7)
    volumes = dict.fromkeys(site.origin.manifest.volumes, runs)
    request = dataclasses.replace(site.request(), changed=blob.to_json(), touched=volumes)
    assert blob_root("changed", request.changed) == blob
    hosted = site.host.create(request)
    hosted.wait_started(30.0)
    assert hosted.status().state == "ready"
    disk = {volume.name: volume for volume in hosted.volumes}["disk0"]
    assert eventually(lambda: disk.map.entry(0).state is not BlockState.ABSENT)
    assert disk.map.entry(1).state is not BlockState.ABSENT


@pytest.mark.parametrize("numbers", [(1,), (-1, 1), (1, 1 << 41), (0,) * (2 * RUNS_LIMIT + 2)])
def test_what_is_no_run_is_refused(site: Site, numbers: tuple[int, ...]) -> None:
    with pytest.raises(LocalProtocolError, match="not runs"):
        dataclasses.replace(site.request(), touched={"ram": numbers})
