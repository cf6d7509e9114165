# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Measured figures, against goals and against peers in the same run: `./scripts/bench NAME`.

- figure: one measured number, with a comparison, a goal and whether the goal is met
- bench: a module with a generator `figures()`. `./scripts/bench` takes the names in BENCHES of
  harness.py. Each backs a line of README.md or docs/figures.md. Reproductions of papers are in
  papers/
- part: some of a bench's figures, which `./scripts/bench NAME.PART` measures alone
- contestant: one of several ways to do the same, measured alternately

The first line of standard output is about the host (`bench/host.py`): it has the key `host`.
Each figure is one JSON line after it, as soon as it is known.
"""

from bench.harness import Figure, figure

__all__ = ["Figure", "figure"]
