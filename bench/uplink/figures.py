# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Every figure of uplink: `./scripts/bench uplink`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.harness import Figure
from bench.uplink.batching import batching
from bench.uplink.crawls import crawls
from bench.uplink.entries import entries
from bench.uplink.kept import kept
from bench.uplink.whole import whole

PARTS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "batching": batching,
    "crawls": crawls,
    "entries": entries,
    "kept": kept,
    "whole": whole,
}


def figures() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part(False)


def quick_figures() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part(True)
