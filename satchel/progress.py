# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a long step tells a program what it has done, without knowing how that is drawn."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called from the thread that does the work, often: implementations must be cheap.

    done and total are in bytes (or in items where a step counts items); total is 0 while it is
    not known. Where done goes back, another part of the step begins. Raising from it stops the step
    as an interrupt would.
    """

    def __call__(self, done: int, total: int) -> None: ...


def silent(done: int, total: int) -> None:
    """The progress that nobody looks at."""
