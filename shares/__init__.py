# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares: files that several nodes see as one tree, each with the latest write.

- share: a folder of home's that nodes see
- node: one place where files of a share are used: home, the mobile, a guest
- coherence: what makes copies of a block never disagree

Packages: protocol (the coherence of blocks as pure state machines), context (what files are opened
after what), node (a node that acts), home (tree, directory and write log of a share), fuse
(sessions of kernels with a node), mount (a share as a folder), session (file sessions of
applications). docs/shares.md explains all of it.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from shares import context, fuse, home, mount, node, protocol, session
else:
    __getattr__ = deferred(__name__)

__all__ = ["context", "fuse", "home", "mount", "node", "protocol", "session"]
