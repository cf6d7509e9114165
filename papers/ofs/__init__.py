# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""OFS: its policies on recorded calls of real programs, and its photo application."""

__all__: list[str] = []
