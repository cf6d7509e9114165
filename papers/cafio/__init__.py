# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""CAFIO: its cache as printed, and the launches of its evaluation."""

__all__: list[str] = []
