# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Every figure of uplink: `./scripts/bench uplink`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.harness import Figure
from bench.uplink.day import day
from bench.uplink.entries import entries
from bench.uplink.kept import kept

PARTS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "day": day,
    "entries": entries,
    "kept": kept,
}
