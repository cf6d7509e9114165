# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that go to their service, or are answered from what is kept of its answers."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from uplink.gateway.accounts import Account
from uplink.gateway.file_cache import CachedFile, FileCache, ToldFiles
from uplink.gateway.own_writes import FORM, give_file, list_held, read_held
from uplink.gateway.spool import Spool
from uplink.gateway.trees import LISTING_LIMIT, Trees
from uplink.gateway.uplink_request import UplinkRequest
from uplink.policy import (
    CONDITIONS,
    BadDavXml,
    CacheFreshness,
    Crawl,
    RequestKind,
    Upload,
    allowed_age,
    ask_for_etags,
    freshness,
    plain,
    read_listing,
    rewrite_hrefs,
    split_tree,
)
from wire import ServiceAnswer

QUESTION_LIMIT = 1 << 20
CONDITION_LIMIT = 8 << 10
CRAWL_SECONDS = 60.0
"""For which a crawl is answered from what it was told at its beginning."""

Headers = list[tuple[str, str]]

LISTINGS_BYTES = 16 << 20
"""Of lists that are kept, in memory."""


@dataclass(frozen=True)
class Listing:
    """An answer to a question for properties, with addresses as programs know them."""

    status: int
    headers: Headers
    body: bytes
    confirmed: float = 0.0


class Listings:
    """Lists that were answered of late, each for `fresh` seconds, for the account that asked. What
    changes anything of the account through us forgets all of them. Any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], Listing] = OrderedDict()
        self._changes: dict[tuple[str, str], int] = {}
        self.hits = 0

    def find(self, key: tuple[str, ...], fresh: float) -> Listing | None:
        with self._guard:
            found = self._kept.get(key)
            if found and freshness(found.confirmed, time.time(), fresh) is CacheFreshness.FRESH:
                self.hits += 1
                return found
            return None

    def changes(self, service: str, account: str) -> int:
        """Goes up with each change of the account."""
        with self._guard:
            return self._changes.get((service, account), 0)

    def keep(self, key: tuple[str, ...], listing: Listing, changes: int) -> None:
        """changes: as they were before the service was asked"""
        with self._guard:
            if self._changes.get((key[0], key[1]), 0) != changes:
                return
            self._kept[key] = listing
            self._kept.move_to_end(key)
            while sum(len(each.body) for each in self._kept.values()) > LISTINGS_BYTES:
                self._kept.popitem(last=False)

    def forget(self, service: str, account: str) -> None:
        with self._guard:
            self._changes[service, account] = self._changes.get((service, account), 0) + 1
            for key in [key for key in self._kept if key[:2] == (service, account)]:
                del self._kept[key]


class RequestForwarder:
    """See the module. Any thread."""

    def __init__(self, spool: Spool, cache: FileCache, trees: Trees) -> None:
        self._spool, self._cache = spool, cache
        self._trees = trees
        self.listings = Listings()
        self.trees = 0

    def changed(self, service: str, account: str, path: str) -> None:
        """Something was changed through us: whoever asks next is told so."""
        self.listings.forget(service, account)
        self._cache.expire(service, account, path)

    def forward(self, asked: UplinkRequest, body: Iterable[bytes] | None = None) -> ServiceAnswer:
        """Pass the request on and the answer back; its head. body: of the request, where it was
        read already. Raises ServiceUnreachable, ProgramGone, BadDavXml."""
        exchange, size = asked.exchange, asked.exchange.size
        pieces = body if body is not None else exchange.body() if size != 0 else None
        if exchange.method in ("POST", "PUT") and pieces is None:
            pieces = []
        sent, reads = asked.sent_headers(), exchange.method in ("GET", "HEAD")
        if not reads and asked.signature is None:
            sent = [(k, v) for k, v in sent if k.lower() != "accept-encoding"]
            sent.append(("Accept-Encoding", "gzip"))
        with asked.upstream.ask(
            exchange.method, asked.path, sent, pieces, size, asked.host
        ) as answer:
            self._learn(asked, answer)
            headers = asked.answer_headers(answer.headers)
            if not reads and "xml" in answer.named.get("content-type", ""):
                text = rewrite_hrefs(answer.whole(LISTING_LIMIT), asked.to_local)
                exchange.answer(answer.status, _without_encoding(headers), text)
            else:
                exchange.answer(answer.status, headers, answer.body)
            return answer

    def read(self, asked: UplinkRequest) -> bool:
        """Answer GET or HEAD. Whether the service was asked. Raises as `forward` does."""
        exchange, account = asked.exchange, asked.trusted
        held = self._held(asked, account)
        if held is not None:
            read_held(exchange, held, self._spool.body(held))
            return False
        named, fresh = exchange.named, allowed_age(exchange.named, asked.description.fresh)
        if account is None and asked.signature is not None:
            account, fresh = asked.account, 0.0  # the service says to each whether it may have it
        own = CONDITIONS & named.keys()
        if account is None or (own and asked.signature is not None):
            self.forward(asked)
            return True
        found = self._cache.find(asked.service, account.name, asked.path, named, fresh)
        if found is not None and found[1] is CacheFreshness.FRESH:
            self._cache.hits += 1
            self._give(asked, found[0])
            return False
        kept = found[0] if found else None
        same = not own or (
            kept is None or self._asked_headers(asked).get("if-none-match") == kept.etag
        )
        unusual = "range" in named or "no-store" in named.get("cache-control", "").lower()
        if exchange.method == "HEAD" or unusual or not same or own - {"if-none-match"}:
            self.forward(asked)
            return True
        self._ask_for_file(asked, account, kept)
        return True

    def crawl_fresh(self, asked: UplinkRequest, crawl: Crawl | None) -> float:
        """Seconds for which a list is taken for true: in a crawl since it began."""
        fresh = allowed_age(asked.exchange.named, asked.description.fresh)
        if crawl is None or fresh <= 0:
            return fresh
        return max(fresh, min(crawl.seconds, CRAWL_SECONDS))

    def list_properties(self, asked: UplinkRequest, crawl: Crawl | None = None) -> bool:
        """Answer a question for properties. Whether the service was asked. crawl: that of
        which the question is a part; it sees the tree as it was when it began, or later. Raises as
        `forward` does."""
        exchange, account = asked.exchange, asked.trusted
        question = exchange.whole_body(QUESTION_LIMIT)
        if question is None:
            exchange.answer(413)
            return False
        depth = exchange.named.get("depth", "")
        held = self._held(asked, account)
        if held is not None and account is not None:
            body = list_held(None, question, asked.path, [held], asked.prefix)
            exchange.answer(207, [("Content-Type", FORM)], body)
            return False
        digest = hashlib.sha256(question).hexdigest()
        name = account.name if account else ""
        key = (asked.service, name, plain(asked.path), depth, digest)
        changes = self.listings.changes(asked.service, name)
        fresh = self.crawl_fresh(asked, crawl)
        listing = self.listings.find(key, fresh) if account else None
        there = listing is not None
        if listing is None and account is not None and crawl is not None:
            self._ask_for_tree(asked, account, crawl.root, question, digest)
            listing = self.listings.find(key, fresh)
        if listing is None:
            listing = self._ask_for_listing(asked, question)
            if asked.trusted is not None and listing.status == 207:
                self.listings.keep((key[0], asked.trusted.name, *key[2:]), listing, changes)
        body = listing.body
        near = self._near(asked) if depth == "1" and listing.status == 207 else []
        if near:
            body = list_held(body, question, asked.path, near, asked.prefix)
        exchange.answer(listing.status, listing.headers, body)
        return not there

    def _near(self, asked: UplinkRequest) -> list[Upload]:
        account = asked.trusted
        if account is None:
            return []
        return self._spool.pending_near(asked.service, account.name, asked.path)

    def _held(self, asked: UplinkRequest, account: Account | None) -> Upload | None:
        if account is None:
            return None
        path = asked.path.partition("?")[0]
        return self._spool.pending_at(asked.service, account.name, path)

    def _give(self, asked: UplinkRequest, kept: CachedFile) -> None:
        """Answer GET or HEAD with a kept file."""
        headers = [(k, v) for k, v in kept.headers if k.lower() != "age"]
        headers.append(("Age", str(max(0, int(time.time() - kept.confirmed)))))
        named = self._asked_headers(asked)
        give_file(asked.exchange, named, headers, kept.size, lambda: self._cache.body(kept))

    def _asked_headers(self, asked: UplinkRequest) -> dict[str, str]:
        """Return the request's headers by name, with the etags of the service."""
        return asked.exchange.named | {
            name.lower(): value
            for name, value in asked.sent_headers()
            if name.lower() in CONDITIONS and len(value) < CONDITION_LIMIT
        }

    def _ask_for_file(
        self, asked: UplinkRequest, account: Account, kept: CachedFile | None
    ) -> None:
        exchange = asked.exchange
        headers = asked.sent_headers()
        if kept is not None:
            headers = [(k, v) for k, v in headers if not k.lower().startswith("if-")]
            headers.append(("If-None-Match", kept.etag))
        with asked.upstream.ask("GET", asked.path, headers, host=asked.host) as answer:
            self._learn(asked, answer)
            if kept is not None and answer.status == 304:
                for _ in answer.body:
                    pass
                self._cache.confirm(kept)
                self._give(asked, kept)
                return
            self._cache.misses += 1
            found = asked.answer_headers(answer.headers)
            body = self._cache.keep(
                asked.service, account.name, asked.path, exchange.named,
                (answer.status, found), answer.body,
            )  # fmt: skip
            exchange.answer(answer.status, found, body)

    def _ask_for_listing(self, asked: UplinkRequest, question: bytes) -> Listing:
        exchange = asked.exchange
        headers = [(k, v) for k, v in asked.sent_headers() if k.lower() != "accept-encoding"]
        headers.append(("Accept-Encoding", "gzip"))
        asks = ask_for_etags(question)
        with asked.upstream.ask(
            exchange.method, asked.path, headers, [asks] if asks else None, len(asks)
        ) as answer:
            body = rewrite_hrefs(answer.whole(LISTING_LIMIT), asked.to_local)
            self._learn(asked, answer)
            if answer.status == 207 and asked.account is not None:
                depth = exchange.named.get("depth", "")
                self._learn_listing(asked, body, asked.path.partition("?")[0], depth)
            found = _without_encoding(asked.answer_headers(answer.headers))
            return Listing(answer.status, found, body, time.time())

    def _ask_for_tree(
        self, asked: UplinkRequest, account: Account, root: str, question: bytes, digest: str
    ) -> None:
        """All folders below the root, as they are now; each is kept as if it had been asked for."""
        if allowed_age(asked.exchange.named, asked.description.fresh) <= 0:
            return
        changes = self.listings.changes(asked.service, account.name)
        body = self._trees.whole(asked, root, question)
        if body is None:
            return
        now = time.time()
        self.trees += 1
        prefix = plain(asked.prefix)
        for local, listing in split_tree(rewrite_hrefs(body, asked.to_local)).items():
            path = local.removeprefix(prefix)
            key = (asked.service, account.name, path, "1", digest)
            self.listings.keep(key, Listing(207, [("Content-Type", FORM)], listing, now), changes)
            self._learn_listing(asked, listing, path, "1")

    def _learn(self, asked: UplinkRequest, answer: ServiceAnswer) -> None:
        """What an answer's head says of the credentials, and of the file."""
        account, status = asked.account, answer.status
        if account is None:
            return
        account.answered(asked.authorization, status)
        path = asked.path.partition("?")[0]
        with account.guard:
            if asked.kind in (RequestKind.READ, RequestKind.LISTING) and status == 404:
                account.knowledge.absent(path)
            elif asked.kind is RequestKind.READ and status == 200 and "etag" in answer.named:
                known = account.knowledge.at(path)
                if known is not None and known.etag not in ("", answer.named["etag"]):
                    self.listings.forget(asked.service, account.name)  # they have another file
                account.knowledge.file(path, answer.named["etag"])

    def _learn_listing(self, asked: UplinkRequest, body: bytes, path: str, depth: str) -> None:
        try:
            entries = read_listing(body)
        except BadDavXml:
            return
        found = [
            type(entry)(entry.path.removeprefix(asked.prefix), entry.folder, entry.etag, entry.size)
            for entry in entries
        ]
        assert asked.account is not None
        files = {plain(each.path): (each.etag, each.size) for each in found if not each.folder}
        self.told(asked, files)
        with asked.account.guard:
            asked.account.knowledge.listed(path, depth, found)

    def told(self, asked: UplinkRequest, files: ToldFiles) -> None:
        """The service has listed files: see `FileCache.listed`."""
        assert asked.account is not None
        self._cache.listed(asked.service, asked.account.name, files)


def _without_encoding(headers: Headers) -> Headers:
    return [(k, v) for k, v in headers if k.lower() != "content-encoding"]
