# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""MEFS's evaluation: `./scripts/bench mefs`, papers/mefs/README.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench import Figure
from papers.mefs.edge import edge_figures
from papers.mefs.faces import face_figures
from papers.mefs.machine_moves import machine_move_figures

PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "edge": edge_figures,
    "moves": machine_move_figures,
    "faces": face_figures,
}
