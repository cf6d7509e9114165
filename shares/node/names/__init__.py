# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names and attributes that a node remembers, until home calls it back.

- names: what is remembered, and how long; marks: whether it was changed while somebody looked
- local_creations: files that a node makes before home hears of it
- last_names: under which name a program came to a file
"""
