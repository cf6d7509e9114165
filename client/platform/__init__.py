# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The device itself: its settings, what it can afford now, and how much leaves it at once.

- settings: client.toml; limit: a part of it; configuration: how commands change it
- pairing: what a grant changes here; preflight: what is missing, all of it at once
- running: which sessions run here, and the way to each
- power: which transfers wait for better times; signal_quality: whether the device is about to leave
- activity_gate: operations first, on the way out; shaper: how fast the rest may leave
"""
