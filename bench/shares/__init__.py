# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""OFS's policies, judged by recorded calls of real programs: docs/shares-bench.md."""

__all__: list[str] = []
