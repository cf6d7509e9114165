# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine will need, fetched before it asks.

- staging: for a machine that nobody has asked for yet
- prefetcher: a checkpoint's working set, ahead of the machine; names: the part that names blocks
- readahead: what a machine will touch next, as its profile says; window: how much of it
- table_pages: those above what a machine has written, for whoever freezes it
"""
