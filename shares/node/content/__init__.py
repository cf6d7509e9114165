# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The content of the files that a node has open, block by block.

- content: all of it, made of what follows; access: one open file, and what programs want of it
- buffer: where blocks are kept; copies: blocks as a node has them; eviction: what has no room goes
- admission: what home's answer to an open makes of a file; requests: what home is asked for
- sending: what home is sent; write_back: when, if nobody asks; lag: how far home is behind
- windows: what sessions may do by themselves; pages: what the kernel keeps of mapped files
- relaxed: copies that programs take though they may be old; known_files: of what there is content
"""
