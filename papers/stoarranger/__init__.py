# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""StoArranger: batches of uploads."""

__all__: list[str] = []
