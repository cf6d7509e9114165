# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares: files that several nodes see as one tree, each with the latest write.

- share: a folder of home's that nodes see
- node: one place where files of a share are used: home, the mobile, a guest
- coherence: what makes copies of a block never disagree

Packages: coherence (the protocol, pure), nodes (a node that acts), fuse (sessions of kernels with a
node), mounts (a share as a folder). docs/shares.md tells the whole.
"""

from shares import coherence, fuse, mounts, nodes

__all__ = ["coherence", "fuse", "mounts", "nodes"]
