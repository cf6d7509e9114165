# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk store beside other tools, and its limits: docs/chunkstore.md."""

__all__: list[str] = []
