# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""S3's lists of objects, kept for `fresh` seconds, and whole trees of them for programs that crawl.

Only for keys of which we have the secret: who asks must have signed the request, as the service
does not look at it, and the question for a whole tree is signed here.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from urllib.parse import quote

from satchel.errors import SatchelError
from uplink.gateway.accounts import Account
from uplink.gateway.request_forwarder import Listing, RequestForwarder
from uplink.gateway.trees import LISTING_LIMIT
from uplink.gateway.uplink_request import UplinkRequest
from uplink.policy import (
    BadObjectList,
    Crawl,
    FolderQuestion,
    folder_lists,
    plain,
    read_folder_question,
    read_objects,
    signed_headers,
)
from wire import ServiceUnreachable

logger = logging.getLogger(__name__)

TREES = 256
"""Of how many it is known when they were asked for last."""

PAGES = 100
"""Of a tree; a larger one is left to the program's own questions."""

_ETAG = re.compile(rb"<(?:\w+:)?ETag>(?:&quot;|&#34;|\")?([0-9A-Za-z-]+)")

FORM = [("Content-Type", "application/xml")]


class ObjectLists:
    """See the module. Any thread."""

    def __init__(self, forwarding: RequestForwarder) -> None:
        self._forwarding = forwarding
        self._listings = forwarding.listings
        self._guard = threading.Lock()
        self._trees: OrderedDict[tuple[str, ...], float] = OrderedDict()  # when they were asked for

    def folder(self, asked: UplinkRequest) -> str | None:
        """That a request is for, as a path; None where it is for none."""
        question = read_folder_question(asked.path)
        return None if question is None else question.folder

    def answer(self, asked: UplinkRequest, crawl: Crawl | None) -> bool:
        """Answer a question for a list. Whether the service was asked. crawl: that of which it is a
        part. Raises as `RequestForwarder.forward` does."""
        account, question = asked.trusted, read_folder_question(asked.path)
        if account is None or question is None:
            self._forwarding.forward(asked)
            return True
        fresh = self._forwarding.crawl_fresh(asked, crawl)
        key = _key(asked, account, question, question.folder)
        listing = self._listings.find(key, fresh)
        if listing is not None:
            asked.exchange.answer(listing.status, listing.headers, listing.body)
            return False
        if crawl and fresh > 0 and asked.description.deltas == "tree":
            whole = question.of(crawl.root)
            asks = self._first_in(crawl, (*key[:2], crawl.root))
            if asks and self._ask_for_tree(asked, account, whole):
                listing = self._listings.find(key, fresh)
        listing = listing or self._ask(asked, key)
        asked.exchange.answer(listing.status, listing.headers, listing.body)
        return True

    def _first_in(self, crawl: Crawl, tree: tuple[str, ...]) -> bool:
        """Whether that tree is asked for now: once in a crawl. What it did not tell, as it is too
        large or was changed, the program asks by itself."""
        with self._guard:
            now = time.monotonic()
            before = self._trees.pop(tree, -math.inf)
            asks = before < now - crawl.seconds
            self._trees[tree] = now if asks else before
            if len(self._trees) > TREES:
                self._trees.popitem(last=False)
        return asks

    def _ask(self, asked: UplinkRequest, key: tuple[str, ...]) -> Listing:
        changes = self._listings.changes(key[0], key[1])
        with asked.upstream.ask("GET", asked.path, asked.sent_headers(), host=asked.host) as answer:
            headers = asked.answer_headers(answer.headers)
            bare = [(k, v) for k, v in headers if k.lower() != "content-encoding"]
            listing = Listing(answer.status, bare, answer.whole(LISTING_LIMIT), time.time())
        if listing.status == 200:
            self._listings.keep(key, listing, changes)
            with contextlib.suppress(BadObjectList):
                page = read_objects(listing.body, encoded=b"<EncodingType>url<" in listing.body)
                self._told(asked, page.objects)
        return listing

    def _told(self, asked: UplinkRequest, objects: Iterable[tuple[str, bytes]]) -> None:
        """The service has listed objects: ask it again for those that differ from kept ones."""
        place = asked.path.partition("?")[0].rstrip("/")
        tags = {f"{place}/{quote(key)}": _ETAG.search(text) for key, text in objects}
        files = {plain(path): (f'"{tag[1].decode()}"', None) for path, tag in tags.items() if tag}
        self._forwarding.told(asked, files)

    def _ask_for_tree(
        self, asked: UplinkRequest, account: Account, question: FolderQuestion
    ) -> bool:
        """Keep the lists of all folders below that one, as they are now. Whether it was told."""
        changes = self._listings.changes(asked.service, account.name)
        try:
            told = self._tree(asked, account, question)
        except ServiceUnreachable:
            raise
        except SatchelError as error:
            logger.warning("no list of %s of %s: %s", question.folder, asked.service, error)
            return False
        if told is None:
            return False
        self._forwarding.trees += 1
        now = time.time()
        for prefix, body in told.items():
            folder = f"{question.bucket}/{prefix}".rstrip("/")
            listing = Listing(200, FORM, body, now)
            self._listings.keep(_key(asked, account, question, folder), listing, changes)
        return True

    def _tree(
        self, asked: UplinkRequest, account: Account, question: FolderQuestion
    ) -> dict[str, bytes] | None:
        """Raises BadObjectList, ServiceUnreachable."""
        objects: list[tuple[str, bytes]] = []
        token = ""
        assert asked.signature is not None
        place = asked.path.partition("?")[0]
        for _ in range(PAGES):
            path = f"{place}?{question.tree(token)}"
            target = asked.upstream.base + path
            headers = signed_headers(
                asked.signature, account.secret, target, asked.host, time.time()
            )
            headers["Accept-Encoding"] = "gzip"
            with asked.upstream.ask("GET", path, headers.items(), host=asked.host) as answer:
                if answer.status != 200:
                    return None
                page = read_objects(answer.whole(LISTING_LIMIT), encoded=question.encoded)
            objects += page.objects
            self._told(asked, page.objects)
            if not (token := page.token):
                return folder_lists(question, page.name, objects)
        return None


def _key(
    asked: UplinkRequest, account: Account, question: FolderQuestion, folder: str
) -> tuple[str, ...]:
    """Of a list that is kept."""
    form = repr((question.encoded, question.most, question.rest))
    return asked.service, account.name, folder, "s3", hashlib.sha256(form.encode()).hexdigest()
