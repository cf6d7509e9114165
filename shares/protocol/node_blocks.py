# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node knows of a block that it has or had (Paiker et al., Section 3.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class Block:
    """The first five, and `location` below, are the paper's.

    valid: the content here may be read, until `expires`
    shared: others may have copies; valid and not shared: this node is the owner
    expires: on the node's clock, in seconds; inf: until it is invalidated
    overwritten: writes after the first one since this node became the owner
    threshold: at how many overwrites the content was wanted elsewhere the last time; None: unknown

    version: of the content here, 0 where there is none. dirty: home does not have what was written
    here since that version. mine: something was written here since content last came from home.
    wanted: others had copies when this node became the owner. untouched: not written since then.
    pushed: this node pushed it last. relearns: that was too early, and nobody has asked for it
    since. used: read here since the content came. unread: how many
    updates in a row were not read. fetching, owning: the number of such requests under way.
    logging: writes that home has not confirmed yet; nobody reads the block until it has. given: the
    number of the message that took what was written here to home, while nobody knows whether it
    came there; 0: there is none. grant: under which the content was written here. hollow: granted
    without content, to be overwritten.
    """

    valid: bool = False
    shared: bool = True
    expires: float = inf
    overwritten: int = 0
    threshold: int | None = None
    version: int = 0
    dirty: bool = False
    mine: bool = False
    wanted: bool = False
    untouched: bool = True
    pushed: bool = False
    relearns: bool = False
    used: bool = False
    unread: int = 0
    updated: bool = False
    fetching: int = 0
    owning: int = 0
    logging: int = 0
    given: int = 0
    grant: int = 0
    hollow: bool = False

    @property
    def owned(self) -> bool:
        return self.valid and not self.shared

    @property
    def lends(self) -> bool:
        """Whether it is written here again and again while others read it: then, with relaxation,
        who reads it gets a copy that grows old by itself."""
        return self.owned and self.dirty and self.wanted

    @property
    def blank(self) -> bool:
        """Whether it is as one of which nothing was ever known: a copy that was given up."""
        busy = self.fetching or self.owning or self.logging or self.given
        written = self.dirty or self.mine
        learnt = self.threshold is not None or self.pushed or self.relearns
        return not (self.valid or busy or written or learnt or self.hollow or self.unread)

    @property
    def location(self) -> str:
        """Where the latest content is, as far as this node can know."""
        if self.owned:
            return "here"
        return "here and at home" if self.valid else "elsewhere"

    def learnt(self) -> Block:
        """A record of nothing but how often it is overwritten."""
        return Block(
            threshold=self.threshold,
            overwritten=self.overwritten,
            untouched=self.untouched,
            pushed=self.pushed,
            relearns=self.relearns,
        )

    def came(self, version: int, fresh: bool) -> None:
        """Home has said that this is its version; fresh: and what its content is."""
        self.version = version
        self.given = 0
        if fresh:
            self.mine = self.used = self.updated = False
