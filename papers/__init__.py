# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reproductions of the papers that Satchel builds on: papers/README.md.

- paper: a folder here with a README, which compares the paper's figures with ours, and a module
  `figures`, which `./scripts/bench PAPER` runs
- workload: what real guests asked of their volumes, recorded (papers/workloads)
"""

__all__: list[str] = []
