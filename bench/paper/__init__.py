# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the paper, on its emulated links: docs/evaluation.md."""

__all__: list[str] = []
