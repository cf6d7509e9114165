# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a source is. The kinds are in `sources`; one suite of tests runs against all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chunkstore import PageRange
from surrogate.fetching.estimate import Prior
from wire import Priority


class Source(Protocol):
    """Anything that can deliver chunks by reference. Thread-safe; trusted by nobody.

    name: what people see, at most one of a name in a fetcher
    prior: what is assumed of it before it has answered
    """

    @property
    def name(self) -> str: ...

    @property
    def prior(self) -> Prior: ...

    def fetch(self, refs: bytes, priority: Priority, silence: float) -> bytes:
        """Pack records of those chunks that it has, in the order asked for.

        Raises SatchelError when it cannot answer now, or says nothing for `silence` seconds.
        """

    def below(self, places: Sequence[PageRange], priority: Priority, silence: float) -> bytes:
        """Pack records of the pages and chunks there that it has, a page before what is below it.

        Raises as `fetch`. A source that cannot look into pages may give the pages alone.
        """

    def renewed(self) -> bool:
        """Whether it is reached by another way since this was asked the last time: what is under
        way is asked for again, and what it failed to answer before was not its fault."""

    def close(self) -> None:
        """Let go of what it holds; a request under way may go on."""
