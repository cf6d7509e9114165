# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""MEFS: files at the edge, and moves of file sessions."""

__all__: list[str] = []
