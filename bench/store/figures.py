# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The store beside other tools, and against its goals; each part can be run alone.

Stores are opened as the home server opens its own: what comes in is stored as it is, and compressed
when the store settles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.harness import Figure
from bench.store.beside import settling_figures
from bench.store.checkpoint import checkpoint_figures
from bench.store.faults import fault_figures
from bench.store.imports import import_figures, peer_figures
from bench.store.media import media_figures
from bench.store.rates import hard_disk_figures, rate_figures, stick_figures
from bench.store.reads import read_figures, settled_read_figures
from bench.store.scale import scale_figures
from bench.store.sealed import sealed_figures
from bench.store.space import export_figures, size_figures

PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "import": import_figures,
    "rates": rate_figures,
    "sticks": stick_figures,
    "hard-disk": hard_disk_figures,
    "beside-settling": settling_figures,
    "size": size_figures,
    "export": export_figures,
    "checkpoint": checkpoint_figures,
    "media": media_figures,
    "sealed": sealed_figures,
    "scale": scale_figures,
    "reads": read_figures,
    "settled-reads": settled_read_figures,
    "faults": fault_figures,
    "peers": peer_figures,
}
"""What is measured, in this order; each takes a few minutes, and with small images much less."""
