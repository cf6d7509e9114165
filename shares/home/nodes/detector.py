# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When home goes on without a node (MEFS, Section IV.B, Restore).

A program that knows more of its nodes gives `Shares` another detector, for example one that asks
the network that they are in.
"""

from __future__ import annotations

from typing import Protocol

MARGIN = 1.25
"""Home waits so much longer than a node until the node's lease is over."""


class Suspect(Protocol):
    """What a detector may know of a node."""

    @property
    def name(self) -> str: ...
    def over(self, silence: float) -> str | None:
        """Why it is not waited for any more; None: it has been heard within `silence` seconds, has
        not left and its conversation is well. How long home itself takes counts for nothing."""
        ...


class FaultDetector(Protocol):
    """Asked four times a second about each node, on one thread, with the share's lock held."""

    def over(self, node: Suspect, lease: float) -> str | None:
        """Why home goes on without the node, for people to read; None: it does not.

        lease: seconds for which the node uses strong copies without being answered. A detector that
        ends a node within a lease lets two nodes believe that they own the same block: it has to
        know that the node is dead."""
        ...


class LeaseDetector:
    """The one that ships: a node is lost when nothing was heard of it for MARGIN leases."""

    def over(self, node: Suspect, lease: float) -> str | None:
        return node.over(lease * MARGIN)


LEASES = LeaseDetector()
