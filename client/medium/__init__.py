# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The medium in the person's hand, while sessions use it.

- plugged: it comes, and sessions of its services begin
- refreshing: it gets a newer checkpoint of home's; trickle: when a replayed service's come
"""
