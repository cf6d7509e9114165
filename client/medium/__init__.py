# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The medium in the person's hand, while sessions use it.

- plugged: it comes, and sessions of its services begin; sticks: all media of one session
- trickle: newer checkpoints of a replayed service come onto it; fetching: from home
"""
