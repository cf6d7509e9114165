# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of shares at surrogates: who may have one, and the sockets at which home meets it.

- grant: the owner's word that the guest of a service, at one surrogate, may use a share there
- edge door: the two sockets of a grant, for the node and for the guest's calls

Modules: grants (on disk), admission (what comes through a node's socket), doors. A surrogate is a
stranger: what it says is checked against the grant each time. docs/shares-edge.md.
"""

from homeserver.edge.doors import EdgeDoors
from homeserver.edge.grants import GrantRegistry, GrantsDamaged, ShareGrant

__all__ = ["EdgeDoors", "GrantRegistry", "GrantsDamaged", "ShareGrant"]
