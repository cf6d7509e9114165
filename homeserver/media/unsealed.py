# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is done with operations on a medium that nobody vouches for. Apart from what does it, as
commands that ask a daemon name it."""

from __future__ import annotations

import enum

from satchel.errors import UsageError


class UnsealedPolicy(enum.Enum):
    """What home does with operations on a medium that lack the seal of the service's key."""

    REFUSE = "refuse"
    """They stay where they are, and OperationsDoubtful says so."""
    ACCEPT = "accept"
    """They are the owner's: home executes them."""
    DROP = "drop"
    """They leave the medium for a log beside home's, with all that follows them. So do operations
    that part from home's log."""

    @classmethod
    def of(cls, word: str) -> UnsealedPolicy:
        """Raises UsageError."""
        try:
            return cls(word)
        except ValueError:
            known = ", ".join(one.value for one in cls)
            raise UsageError(
                f"{word!r} is not a way to treat doubtful operations", why=known
            ) from None
