# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of the store: `./scripts/bench store`. Each part can be run alone.

Stores are opened as the home server opens its own: an import stores chunks as they are, and the
store compresses them later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.harness import Figure
from bench.store.imports import import_figures
from bench.store.rates import rate_figures, stick_figures
from bench.store.sealed import sealed_figures

PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "import": import_figures,
    "rates": rate_figures,
    "sticks": stick_figures,
    "sealed": sealed_figures,
}
"""The parts in the order in which they run. Each takes a few minutes; `--quick` takes less."""
