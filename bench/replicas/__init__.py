# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moves of replicas under load, and the replay of a log."""

from bench.replicas.moves import Stage, stage

__all__ = ["Stage", "stage"]
