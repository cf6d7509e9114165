# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mirrors of the trees that programs crawl: a crawl costs what has changed since the one before."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from satchel.errors import SatchelError
from uplink.gateway.home_help import HelpedTree, HomeHelp
from uplink.gateway.uplink_request import UplinkRequest
from uplink.policy import DavQuestion, Mirror, TreeSync, ask_for_etags
from wire import ServiceUnreachable

logger = logging.getLogger(__name__)

LISTING_LIMIT = 64 << 20
TREES = 32
"""Mirrors that are kept, in memory; the one that was used longest ago goes first."""

QUIET_SECONDS = 60.0


@dataclass
class _Tree:
    """sync: with the service; helped: with home; each is None before the first refresh, and after
    one that failed. begun: of the last good refresh; quiet: until when nothing is asked, after one
    that failed; both of time.monotonic(). mute: the service does not tell"""

    sync: TreeSync | None = None
    helped: HelpedTree | None = None
    begun: float = 0.0
    quiet: float = 0.0
    mute: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)


class Trees:
    """See the module. Any thread."""

    def __init__(self, home: HomeHelp | None = None) -> None:
        """home: helps with services that say so"""
        self._home = home
        self.helped = 0
        self._guard = threading.Lock()
        self._trees: OrderedDict[tuple[str, ...], _Tree] = OrderedDict()

    def whole(self, asked: UplinkRequest, root: str, question: bytes) -> bytes | None:
        """The list of the tree as it is now, as the service has its addresses; None where the
        service does not tell. root: as `plain` has it. Raises ServiceUnreachable."""
        assert asked.account is not None
        digest = hashlib.sha256(question).hexdigest()
        key = (asked.service, asked.account.name, root, digest, asked.description.deltas)
        now = time.monotonic()
        tree = self._get(key)
        with tree.guard:
            if tree.begun < now and self._ask_home(tree, asked, root, question):
                tree.begun = time.monotonic()
            if tree.helped is not None:
                return tree.helped.mirror.whole()
            if tree.begun < now and now >= tree.quiet and not tree.mute:
                self._refresh(tree, asked, root, question)
            if tree.mute or tree.sync is None:
                return None
            return tree.sync.mirror.whole()

    def _ask_home(self, tree: _Tree, asked: UplinkRequest, root: str, question: bytes) -> bool:
        """Whether home has told what the service has now."""
        helped, tree.helped = tree.helped, None
        user = asked.account.user if asked.account else None
        if self._home is None or not asked.helped or user is None or not self._home.there:
            return False
        helped = helped or HelpedTree(Mirror(asked.upstream.above(root)))
        try:
            self._home.refresh(helped, asked.service, user, root, ask_for_etags(question))
        except SatchelError as error:
            logger.warning("home does not help with %s: %s", asked.service, error)
            self._home.failed(error)
            return False
        tree.helped = helped
        self.helped += 1
        return True

    def _get(self, key: tuple[str, ...]) -> _Tree:
        with self._guard:
            tree = self._trees.setdefault(key, _Tree())
            self._trees.move_to_end(key)
            if len(self._trees) > TREES:
                self._trees.popitem(last=False)
            return tree

    def _refresh(self, tree: _Tree, asked: UplinkRequest, root: str, question: bytes) -> None:
        now = time.monotonic()
        sync, tree.sync = tree.sync, None
        if sync is None:
            hint = asked.description.deltas
            sync = TreeSync(asked.upstream.above(root), question, hint, thorough=False)
        try:
            tree.mute = not sync.refresh(lambda each: _ask(asked, each))
            tree.sync, tree.begun = sync, now
        except ServiceUnreachable:
            raise
        except SatchelError as error:
            tree.quiet = time.monotonic() + QUIET_SECONDS
            logger.warning("no mirror of %s of %s: %s", root, asked.service, error)


def _ask(asked: UplinkRequest, question: DavQuestion) -> tuple[int, bytes]:
    dropped = ("accept-encoding", "depth", "content-type")
    headers = [(k, v) for k, v in asked.sent_headers() if k.lower() not in dropped]
    headers += [("Accept-Encoding", "gzip"), ("Depth", question.depth)]
    headers.append(("Content-Type", "application/xml; charset=utf-8"))
    path, body = asked.upstream.below(question.path) + "/", question.body
    pieces = [body] if body else None
    with asked.upstream.ask(question.method, path, headers, pieces, len(body)) as answer:
        return answer.status, answer.whole(LISTING_LIMIT)
