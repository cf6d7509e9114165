# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mirrors of trees at one service, and what has changed in them since the mobile last asked.

A service need not know of deltas: home crawls all of it, wired, and compares.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from satchel.errors import NotFoundError, UnavailableError
from uplink.policy import DavQuestion, TreeSync
from wire import Credentials, Upstream

LISTING_LIMIT = 64 << 20
TREES = 64
"""Of one service; the one that was asked for longest ago is forgotten."""


class NoSuchTree(NotFoundError):
    """Home has no such mirror."""


@dataclass
class _Tree:
    sync: TreeSync
    guard: threading.Lock = field(default_factory=threading.Lock)


class HomeTrees:
    """Those of one service. Any thread."""

    def __init__(self, upstream: Upstream, credentials: Credentials, hint: str) -> None:
        """hint: see `TreeSync`"""
        self._upstream, self._credentials, self._hint = upstream, credentials, hint
        self._guard = threading.Lock()
        self._trees: OrderedDict[str, _Tree] = OrderedDict()

    def begin(self, root: str, question: bytes) -> bytes:
        """A new mirror: all that is in it, as an answer to `sync_question`. Raises
        ServiceUnreachable, NoTree, BadDavXml, TreeTooLarge."""
        sync = TreeSync(self._upstream.above(root), question, self._hint, thorough=True)
        name, tree = secrets.token_hex(8), _Tree(sync)
        answer = self._refreshed(name, tree, 0)
        with self._guard:
            self._trees[name] = tree
            while len(self._trees) > TREES:
                self._trees.popitem(last=False)
        return answer

    def since(self, name: str, state: int) -> bytes:
        """What is another than in that state. Raises NoSuchTree, and as `begin` does; the mirror is
        gone then."""
        with self._guard:
            tree = self._trees.get(name)
            if tree is not None:
                self._trees.move_to_end(name)
        if tree is None or state > tree.sync.mirror.state:
            raise NoSuchTree(f"there is no mirror {name}", fix="begin another one")
        try:
            return self._refreshed(name, tree, state)
        except BaseException:
            with self._guard:
                self._trees.pop(name, None)
            raise

    def _refreshed(self, name: str, tree: _Tree, state: int) -> bytes:
        with tree.guard:
            if not tree.sync.refresh(self._ask):
                raise UnavailableError("the service does not list its content")
            mirror = tree.sync.mirror
            return mirror.since(state, f"{name}.{mirror.state}")

    def _ask(self, question: DavQuestion) -> tuple[int, bytes]:
        headers = {
            "Authorization": self._credentials.authorization,
            "Accept-Encoding": "gzip",
            "Depth": question.depth,
            "Content-Type": "application/xml; charset=utf-8",
        }
        path, body = self._upstream.below(question.path) + "/", question.body
        pieces = [body] if body else None
        with self._upstream.ask(
            question.method, path, headers.items(), pieces, len(body)
        ) as answer:
            return answer.status, answer.whole(LISTING_LIMIT)
