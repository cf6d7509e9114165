# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a host for Prometheus, as of the moment when it asks.

They are of all replicas since the daemon began, those included that have ended. Of the sources,
those of the host are named, and `media` and `home` of any client's; what else a client may have
called a source is `other`, so that strangers cannot make up series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from surrogate.fetching import STALL_BOUNDS, FetchTally
from surrogate.host import Host
from wire import CacheNumbers

COUNTS = {
    "requests": "Requests that sources answered.",
    "chunks": "Chunks that came with the answers.",
    "bytes": "Bytes of the answers.",
    "seconds": "Seconds of all requests together, which overlap.",
    "overdue": "Requests whose chunks were asked for elsewhere before they came.",
}


FORESIGHT = {
    "touched": "Blocks that the machines here have touched.",
    "foreseen": "Blocks that were brought ahead of the machines here.",
    "used": "Blocks that were, and were touched: the precision of foreseen, the recall of touched.",
}


CACHE_BYTES = {
    "limit": "Bytes that the chunk cache may have.",
    "size": "Bytes that the chunk cache has.",
}

CACHE_COUNTS = {
    "misses": "Chunks that were not here when a machine touched them first.",
    "evicted": "Chunks that the cache gave up.",
    "unkept": "Blocks that machines got without their being kept: the disk is full.",
}


class HostCollector(Collector):
    """What a registry asks for a host's numbers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def collect(self) -> Iterable[Metric]:
        status = self._host.status()
        yield from _fetching(self._host.tally)
        states = Counter(replica.state for replica in status.replicas)
        replicas = GaugeMetricFamily("satchel_replicas", "Replicas here.", labels=["state"])
        for state, count in states.items():
            replicas.add_metric([state], count)
        yield replicas
        foresight = self._host.foresight
        for name, what in FORESIGHT.items():
            value = getattr(foresight, name)
            yield CounterMetricFamily(f"satchel_{name}_blocks", what, value=value)
        for kind, space in (("memory", status.memory), ("disk", status.disk)):
            what = f"Bytes of {kind} that are free for replicas."
            yield GaugeMetricFamily(f"satchel_{kind}_free_bytes", what, value=space.free)
        yield from _cache(self._host.cache)
        yield CounterMetricFamily(
            "satchel_collisions",
            "Chunks that came and have the SHA-1 of another chunk in the cache.",
            value=self._host.store.collisions,
        )


def _cache(counts: CacheNumbers) -> Iterable[Metric]:
    for name, what in CACHE_BYTES.items():
        value = getattr(counts, name)
        yield GaugeMetricFamily(f"satchel_cache_{name}_bytes", what, value=value)
    for name, what in CACHE_COUNTS.items():
        yield CounterMetricFamily(f"satchel_cache_{name}", what, value=getattr(counts, name))
    what = "Whether running replicas need more of the cache than its limit."
    yield GaugeMetricFamily("satchel_cache_crowded", what, value=counts.crowded)
    what = "Chunks in the cache, by queue: what is high is given up last."
    chunks = GaugeMetricFamily("satchel_cache_chunks", what, labels=["queue"])
    what = "Chunks that were here when a machine touched them first, by their queue then."
    hits = CounterMetricFamily("satchel_cache_hits", what, labels=["queue"])
    for family, numbers in ((chunks, counts.chunks), (hits, counts.hits)):
        for queue, number in numbers.items():
            family.add_metric([queue], number)
        yield family


def _fetching(tally: FetchTally) -> Iterable[Metric]:
    counts = tally.counts()
    for name, what in COUNTS.items():
        family = CounterMetricFamily(f"satchel_fetch_{name}", what, labels=["source", "priority"])
        for (source, priority), count in counts.items():
            family.add_metric([source, priority.value], getattr(count, name))
        yield family
    faults = CounterMetricFamily(
        "satchel_source_faults", "Requests without an answer and bad chunks.", labels=["source"]
    )
    for source, number in tally.faults().items():
        faults.add_metric([source], number)
    yield faults
    stalls = tally.stalls()
    sums = list(accumulate(stalls.histogram))
    bounds = [*(str(bound) for bound in STALL_BOUNDS), "+Inf"]
    yield HistogramMetricFamily(
        "satchel_stall_seconds",
        "How long machines stood still for blocks, a miss each.",
        buckets=list(zip(bounds, sums, strict=True)),
        sum_value=stalls.seconds,
    )
