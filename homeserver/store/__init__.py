# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Care of home's store.

- upkeep: what commands and the daemon do with it; settling: it gets smaller in the background
- hurt: what lacks chunks; repair: taking these from others
"""
