# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share on home's disk.

- system_calls: system calls that the standard library lacks; index: file ids
- tree: names, attributes and content, on a folder; block_store: blocks and the write log
- write_log: content of blocks that other nodes own; group_commit: its answers, when it is durable
- grants: the numbers under which nodes wrote what home has
"""
