# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does with portable media.

- carry: checkpoints out, operations back; unsealed: operations that nobody vouches for
- budget: checkpoints on a medium that is too small; touch_forecast: what of one is worth its room
- rotation: another key; plugged: one comes, is synced and ejected
- care: what a person does with media: find, look at, verify, recover, eject
"""
