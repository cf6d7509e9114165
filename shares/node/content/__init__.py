# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The content of the files that a node has open, block by block.

- content: accesses of programs, and home's messages; it makes the other parts
- file_table: opens, requests for blocks, and writing back
- copies: the blocks as programs, sessions and home may use them
- pages: blocks of mapped files in the kernel
- holdings: the state, its lock, and content on its way home; lag: how far home is behind
- access: an open file, and one access of a program; buffer: the content of blocks on disk
"""
