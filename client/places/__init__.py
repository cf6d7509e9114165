# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a service's machines are, each over a link that may break.

- place: what feeds, moves and a carried service's session ask of any of them
- home, surrogate: the two kinds; leftovers: replicas that a killed session left at surrogates
- nearby: where a client could go
"""
