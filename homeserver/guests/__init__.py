# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What services' guests ask for beyond their machines: files of shares, and the outside.

- keepers: guests' calls about files, done once for all replicas; door: where replicas at surrogates
  reach them; shares: what a guest has below /satchel
- egress_doors: where guests' connections to the outside leave home
"""
