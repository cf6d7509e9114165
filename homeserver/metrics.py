# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's numbers for Prometheus: its services, its store, and how far its shares are behind."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from homeserver.home import Home
from homeserver.shares import Shares

OPERATIONS = {
    "logged": "The last operation that home has on disk.",
    "executed": "The last operation that home's replica has executed.",
}

BEHIND = {
    "bytes": "Bytes that a node would have to fetch again.",
    "seconds": "For how long at most a node has been behind.",
}


class HomeCollector(Collector):
    """What a registry asks for home's numbers."""

    def __init__(self, home: Home, shares: Shares) -> None:
        self._home, self._shares = home, shares

    def collect(self) -> Iterable[Metric]:
        yield from self._services()
        yield from self._store()
        yield from self._behind()

    def _services(self) -> Iterable[Metric]:
        views = self._home.views()
        what = "Services, by the state of home's replica."
        services = GaugeMetricFamily("satchel_home_services", what, labels=["state"])
        for state, count in Counter(view.state for view in views).items():
            services.add_metric([state], count)
        yield services
        for kind, what in OPERATIONS.items():
            name = f"satchel_home_{kind}_operation"
            family = GaugeMetricFamily(name, what, labels=["service"])
            for view in views:
                family.add_metric([view.name], getattr(view, f"last_{kind}"))
            yield family

    def _store(self) -> Iterable[Metric]:
        store = self._home.store
        what = "Bytes of the store's packs."
        yield GaugeMetricFamily("satchel_home_store_bytes", what, value=store.pack_bytes)
        free = shutil.disk_usage(store.path).free
        what = "Bytes that the disk of the store has left."
        yield GaugeMetricFamily("satchel_home_disk_free_bytes", what, value=free)

    def _behind(self) -> Iterable[Metric]:
        labels = ["share", "node"]
        found = {
            kind: GaugeMetricFamily(f"satchel_home_share_behind_{kind}", what, labels=labels)
            for kind, what in BEHIND.items()
        }
        what = "Nodes of a share that home hears of, itself included."
        nodes = GaugeMetricFamily("satchel_home_share_nodes", what, labels=["share"])
        for share, rows in self._shares.nodes().items():
            nodes.add_metric([share], sum(row["connected"] for row in rows))
            for kind, family in found.items():
                for name in {row["name"] for row in rows}:  # two nodes may be called the same
                    worst = max(row[f"behind_{kind}"] for row in rows if row["name"] == name)
                    family.add_metric([share, name], worst)
        yield nodes
        yield from found.values()
