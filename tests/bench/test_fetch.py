# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The bench of fetching: traces survive being written down, and both contestants bring the same."""

from pathlib import Path

import pytest

from bench.fetch.nearest_first import NearestFirst
from bench.fetch.trace import FOLDER, Touch, Trace
from bench.fetch.world import make_origin
from chunkstore import BlockState, Store
from overlay import create_volume
from surrogate import Fetcher, Prefetcher, StoreSource

TRACE = Trace(
    service="try",
    volumes={"ram": 1000, "disk0": 70},
    data={"ram": frozenset({5, 6, 7, 900}), "disk0": frozenset({69})},
    touches=(Touch(0.001, "ram", 5, 2), Touch(0.0, "disk0", 69, 1), Touch(0.0, "ram", 8, 1)),
    response=2,
)


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    TRACE.save(tmp_path / "try.json")
    assert Trace.load(tmp_path / "try.json") == TRACE


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_traces_are_whole(path: Path) -> None:
    trace = Trace.load(path)
    assert 0 < trace.response <= len(trace.touches)
    for touch in trace.touches:
        assert touch.first + touch.count <= trace.volumes[touch.volume]
    assert all(max(blocks) < trace.volumes[name] for name, blocks in trace.data.items() if blocks)


@pytest.mark.parametrize("kind", [Fetcher, NearestFirst])
@pytest.mark.parametrize("stream", [True, False])
def test_either_fetcher_brings_what_is_touched(
    tmp_path: Path, kind: type[Fetcher] | type[NearestFirst], stream: bool
) -> None:
    origin = make_origin(tmp_path, TRACE)
    cache = Store.create(tmp_path / "cache")
    fetcher = kind(cache, [StoreSource("media", origin.store)], 8)
    volumes = {name: create_volume(tmp_path, name, root) for name, root in origin.roots.items()}
    ahead = Prefetcher(cache, fetcher, origin.working_set)  # type: ignore[arg-type]
    if stream:
        ahead.start(volumes)
    for touch in TRACE.touches:
        resolve = ahead.resolve if stream else fetcher.resolve
        resolve(volumes[touch.volume], touch.first, touch.count)
    assert volumes["ram"].map.entry(5).state is BlockState.PACKED
    assert volumes["ram"].map.entry(8).state is not BlockState.ABSENT
    assert volumes["disk0"].map.entry(69).state is BlockState.PACKED
    assert volumes["ram"].map.entry(900).state is BlockState.ABSENT
    ahead.join()
    fetcher.close()
    for volume in volumes.values():
        volume.remove()
    origin.media.close()
