# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The directory of a share: which node has which names, attributes and blocks.

- promises, own_folders: what nodes were told of names; marks: private and immutable files
- locks: locks of programs; coherence: home's machine, acting on the disk and the nodes
- file_attributes, open_files, namespace, allocation: the calls of nodes
- creations: files that nodes have made ahead
"""
