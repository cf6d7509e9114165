# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of chunks with a will of their own, over a real store."""

import threading
from collections.abc import Callable

from chunkstore import Store, split_refs
from satchel.errors import UnavailableError

Spoil = Callable[[bytes], bytes]


def flipped(records: bytes) -> bytes:
    """Records of which the last byte, a byte of a chunk's content, is another one."""
    return records[:-1] + bytes([records[-1] ^ 1]) if records else records


class StoreSource:
    """What is in `store`, as this source tells it. asked: the requests, in references.

    dead: it does not answer. spoil: what it makes of an answer. silent: it hangs until that is set.
    """

    def __init__(self, name: str, store: Store, spoil: Spoil = lambda records: records) -> None:
        self.name = name
        self.store = store
        self.spoil = spoil
        self.dead = False
        self.silent: threading.Event | None = None
        self.asked: list[int] = []

    def fetch(self, refs: bytes, silence: float) -> bytes:
        self.asked.append(len(split_refs(refs)))
        if self.silent:
            self.silent.wait(30)
        if self.dead:
            raise UnavailableError(f"{self.name} is dead")
        return self.spoil(self.store.records(refs))
