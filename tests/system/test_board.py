# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The board of docs/grafana shows numbers that home and surrogates serve, by labels they have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from homeserver.metrics import HomeCollector
from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from surrogate.metrics import HostCollector
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.surrogate.conftest import Site
from wire import metrics_app, serve

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")

BOARD = Path(__file__).parents[2] / "docs" / "grafana" / "satchel.json"

OF_PROMETHEUS = {"instance"}
"""Labels that Prometheus adds."""

Served = dict[str, set[str]]


def scraped(socket: Path) -> Served:
    """The labels of each series, by its name, as Prometheus reads them."""
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(socket))) as client:
        answer = client.get("http://daemon/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found: Served = defaultdict(set)
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    """By a home and a surrogate that both have run a machine."""
    for name in ("s", "h"):
        (short_path / name).mkdir()
    with closing(Site(short_path / "s")) as site:
        site.create("r1")
        site.host.tally.fault("media", OSError("pulled out"))
        place = short_path / "s.sock"
        with serve(metrics_app(HostCollector(site.host)), place, threads=1, max_body=1024):
            found = scraped(place)
    bench = Bench(short_path / "h")
    settings = bench.settings
    shelf = ShareRegistry(settings.shares)
    bench.running()
    with (
        closing(bench.home),
        closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares,
    ):
        shares.add(ShareRecord(name="papers", path=str(short_path)))
        place = short_path / "h.sock"
        collector = HomeCollector(bench.home, shares)
        with serve(metrics_app(collector), place, threads=1, max_body=1024):
            found |= scraped(place)
    yield found


def queries() -> list[tuple[str, str]]:
    """Of each panel, what it asks and how it labels that."""
    board: dict[str, Any] = json.loads(BOARD.read_text())
    found = [
        (target["expr"], target["legendFormat"])
        for panel in board["panels"]
        for target in panel["targets"]
    ]
    assert len(found) >= len(board["panels"]) > 10
    return found


def test_every_panel_shows_what_is_served_by_labels_that_it_has(served: Served) -> None:
    for expression, legend in queries():
        names = set(re.findall(r"satchel_\w+", expression))
        assert names
        assert names <= served.keys(), expression
        labels = {label for name in names for label in served[name]} | OF_PROMETHEUS
        wanted = set(re.findall(r"\{\{(\w+)\}\}", legend))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            wanted |= {label.strip() for label in group.split(",")}
        assert wanted <= labels, expression


def test_every_number_of_homes_is_on_the_board(served: Served) -> None:
    shown = {name for query, _ in queries() for name in re.findall(r"satchel_\w+", query)}
    assert {name for name in served if name.startswith("satchel_home_")} <= shown


def test_panels_do_not_lie_over_each_other() -> None:
    places = [panel["gridPos"] for panel in json.loads(BOARD.read_text())["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
