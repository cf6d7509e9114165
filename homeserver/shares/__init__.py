# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's part of the overlay: the tree that all nodes see, and who has what of it.

Modules: native (system calls), index (file ids), tree (names, attributes, content).
"""

from homeserver.shares.index import ShareIndexDamaged
from homeserver.shares.tree import Tree

__all__ = ["ShareIndexDamaged", "Tree"]
