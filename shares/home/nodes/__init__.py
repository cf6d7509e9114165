# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a share, as home knows them.

- channel: the conversation with a node; session: a node until its lease is over
- detector: decides when a node is lost; grace: the time in which nodes return after a start
"""
