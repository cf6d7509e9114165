# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of each request of a program: answered here, held, or forwarded.

The port is this device's alone, and pages of other sites may not use it (wire/http/sites.py). No
target leads out of the folder of its service. Nothing here adds credentials to a request.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from satchel.errors import AccessError, ConflictError, NotFoundError, SatchelError
from satchel.targets import is_plain
from uplink.gateway.accounts import Accounts, account_name
from uplink.gateway.catalog import ServiceCatalog, is_below
from uplink.gateway.flusher import Flusher, held_etag
from uplink.gateway.object_lists import ObjectLists
from uplink.gateway.own_writes import held_headers
from uplink.gateway.programs import Program, Programs
from uplink.gateway.radio_watch import RadioWatch
from uplink.gateway.request_forwarder import RequestForwarder
from uplink.gateway.spool import IncomingBody, Spool, SpoolFull
from uplink.gateway.uplink_request import BadTarget, UplinkRequest, require_inside, service_path
from uplink.policy import (
    CONDITIONS,
    PRECONDITION_FAILED,
    Condition,
    Crawl,
    Crawls,
    Reason,
    RequestKind,
    Upload,
    UploadState,
    allowed_age,
    failed_condition,
    plain,
    read_signature,
)
from wire import (
    Conversations,
    ErrorReport,
    HttpExchange,
    ProgramGone,
    ServiceAnswer,
    ServiceUnreachable,
    refuse_other_sites,
)

logger = logging.getLogger(__name__)

SIGNATURE_MARGIN = 120.0
"""Seconds of a signature that are left for the upload itself."""

_COUNTED = ("requests", "held", "waited", "answered_here", "crawl_requests")
PIECE = 1 << 18
LOCKS = 10_000

_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


class Gateway:
    """See the module. `adopt` takes a connection; each has a thread."""

    def __init__(
        self,
        catalog: ServiceCatalog,
        accounts: Accounts,
        spool: Spool,
        forwarding: RequestForwarder,
        flusher: Flusher,
        radio: RadioWatch,
        programs: Programs,
    ) -> None:
        self._catalog, self._accounts, self._spool = catalog, accounts, spool
        self._forwarding, self._flusher, self._radio = forwarding, flusher, radio
        self._programs, self._object_lists = programs, ObjectLists(forwarding)
        self._known: WeakKeyDictionary[socket.socket, Program] = WeakKeyDictionary()
        self._conversations = Conversations(self._answer)
        self._guard = threading.Lock()
        self._crawls = Crawls()
        self._locks: dict[tuple[str, str], None] = {}
        self.counts = dict.fromkeys(_COUNTED, 0)

    def adopt(self, connection: socket.socket) -> None:
        """Serve it, in a thread of its own."""
        self._conversations.adopt(connection)

    def enter(self, connection: socket.socket, authority: str, pid: int) -> int:
        """Serve, in this thread, what the process meant to be a connection with the service at the
        authority. How many requests came."""
        self._known[connection] = self._programs.of(pid)
        return self._conversations.converse(connection, authority)

    def close(self) -> None:
        """Cut every connection."""
        self._conversations.close()

    def _answer(self, exchange: HttpExchange) -> None:
        self._count("requests")
        try:
            _refuse_other_sites(exchange)
            self._dispatch(self._asked(exchange))
        except ProgramGone:
            raise
        except (AccessError, BadTarget, NotFoundError) as error:
            _say(exchange, ErrorReport.of(error).status, str(error))
        except ServiceUnreachable as error:
            _say(exchange, 502, str(error))
        except (SatchelError, OSError) as error:
            logger.warning("%s %s: %s", exchange.method, exchange.target, error)
            _say(exchange, 503, str(error))

    def _asked(self, exchange: HttpExchange) -> UplinkRequest:
        """Raises NoSuchService."""
        authority, within = exchange.authority, True
        path, mark, query = exchange.path.partition("?")
        signed = read_signature(exchange.named) is not None
        path = exchange.path if signed else service_path(path) + mark + query
        if authority is None or _HOST.fullmatch(authority):
            service = re.split(r"[/?]", path.lstrip("/"), maxsplit=1)[0]
            path, prefix = "/" + path.lstrip("/"), f"/{service}"
            upstream = self._catalog.upstream(service)
        else:
            service = self._catalog.at(authority, path)
            upstream = self._catalog.upstream(service)
            within, prefix = is_below(path, upstream.base), upstream.base
        if signed:
            require_inside(path, prefix if within else "")
        described = self._catalog.description(service)
        name = account_name(exchange.named) if within else None
        rest = path.removeprefix(prefix) if within else path
        return UplinkRequest(
            exchange=exchange,
            service=service,
            path=rest if rest.startswith("/") else "/" + rest,
            upstream=upstream if within else upstream.at_origin(),
            description=described,
            kind=described.kind(exchange.method, exchange.named, query)
            if within
            else RequestKind.CHANGE,
            account=None if name is None else self._accounts.get(service, name),
            program=lambda: self._program(exchange),
            prefix=prefix if within else "",
            helped=self._catalog.helped(service),
        )

    def _program(self, exchange: HttpExchange) -> Program:
        """The same for all requests of a connection."""
        with self._guard:
            known = self._known.get(exchange.connection)
        if known is None:
            known = self._programs.at(exchange.connection)
            with self._guard:
                self._known[exchange.connection] = known
        return known

    def _dispatch(self, asked: UplinkRequest) -> None:
        reads = asked.kind in (RequestKind.READ, RequestKind.LISTING)
        if reads and allowed_age(asked.exchange.named, 1.0) <= 0 and asked.trusted is not None:
            self._flush_near(asked, [asked.path])  # then the service answers
        if asked.kind is RequestKind.READ:
            went = self._forwarding.read(asked)
        elif asked.kind is RequestKind.LISTING and asked.description.listing == "webdav":
            folder = plain(asked.path) if asked.exchange.named.get("depth") == "1" else None
            went = self._forwarding.list_properties(asked, self._crawl(asked, folder))
        elif asked.kind is RequestKind.LISTING and asked.description.listing == "s3":
            lists = self._object_lists
            went = lists.answer(asked, self._crawl(asked, lists.folder(asked)))
        elif asked.kind is RequestKind.UPLOAD and (condition := self._holdable(asked)) is not None:
            went = self._hold(asked, condition)
        else:
            with self._waited(asked):
                self._change(asked)
            went = True
        if went:
            self._flusher.awake()
        else:
            self._count("answered_here")

    def _crawl(self, asked: UplinkRequest, folder: str | None) -> Crawl | None:
        """That of which the request for a folder is a part; None where it is of none."""
        if folder is None or not (program := asked.program()).pid:
            return None
        whose = (program.name, asked.service, asked.account and asked.account.name)
        with self._guard:
            now = time.monotonic()
            crawl = self._crawls.asked((program.pid, *whose), folder, now, whose)
        if crawl is not None:
            self._count("crawl_requests")
        return crawl

    def _holdable(self, asked: UplinkRequest) -> Condition | None:
        """Return the condition of the flush; None for an upload that cannot wait."""
        account, size = asked.trusted, asked.exchange.size
        if account is None or size is None or not asked.program().automatic or "?" in asked.path:
            return None
        if asked.signature is not None or not asked.description.steps:
            return None
        if not is_plain(asked.path) or self._is_locked(asked):
            return None
        held = self._spool.pending_at(asked.service, account.name, asked.path)
        with account.guard:
            condition = account.knowledge.condition(asked.path)
        if held is not None:
            condition = held.condition if held.state is UploadState.HELD else None
        if condition is None:
            return None
        named, etag = asked.exchange.named, held_etag(held) if held else condition.etag
        dated = "if-unmodified-since" in named and not held  # of a date that we do not know
        modified = held.accepted if held else None
        agrees = failed_condition("PUT", named, etag, modified) is None and not dated
        return condition if agrees else None

    def _hold(self, asked: UplinkRequest, condition: Condition) -> bool:
        """Take the body, make it durable, say that it is done. Whether the service was asked."""
        exchange, account = asked.exchange, asked.trusted
        size, awake = exchange.size or 0, self._radio.awake()
        assert account is not None
        headers = tuple(held_headers(exchange.named, exchange.headers))
        try:
            with self._spool.receive(size) as incoming:
                for piece in exchange.body():
                    incoming.write(piece)
                replaces = self._spool.pending_at(asked.service, account.name, asked.path)
                try:
                    upload = self._spool.hold(
                        incoming, service=asked.service, account=account.name, path=asked.path,
                        headers=headers, condition=condition, now=time.time(),
                    )  # fmt: skip
                except (OSError, ConflictError) as error:
                    logger.warning("%s goes at once: %s", asked.path, error)
                    self._change(asked, _pieces(self._spool, incoming))
                    return True
        except (SpoolFull, OSError) as error:
            if exchange.answered or exchange.body_begun:
                raise
            logger.warning("%s goes at once: %s", asked.path, error)
            self._flusher.flush(Reason.ROOM, wait=0)
            self._change(asked)
            return True
        self._forwarding.listings.forget(asked.service, account.name)
        self._count("held")
        exchange.answer(204 if condition.etag or replaces else 201)
        self._flusher.accepted(upload, awake=awake)
        return False

    @contextlib.contextmanager
    def _waited(self, asked: UplinkRequest) -> Iterator[None]:
        """An upload that cannot be held may wait for others before the block. Its program waits,
        too, and so it does for no longer than its signature and its description say."""
        seconds = asked.description.waits
        if asked.signature is not None:
            seconds = min(seconds, asked.signature.left(time.time()) - SIGNATURE_MARGIN)
        now = asked.kind is not RequestKind.UPLOAD or seconds <= 0 or self._radio.awake()
        if now or not asked.program().automatic:
            yield
            return
        self._count("waited")
        self._flusher.wait(asked.exchange.size or 0, seconds)
        self._radio.flushing(True)
        try:
            yield
        finally:
            self._radio.flushing(False)

    def _change(self, asked: UplinkRequest, body: Iterable[bytes] | None = None) -> None:
        """Forward it behind the uploads that come before it. Raises ConflictError where these do
        not come through."""
        if body is None and self._refuses(asked):
            asked.exchange.answer(412)
            return
        account, paths = asked.account, [asked.path.partition("?")[0]]
        if asked.destination:
            paths.append(asked.destination)
        named, method = asked.exchange.named, asked.exchange.method
        waits = method != "UNLOCK" and not (method == "LOCK" and "if" in named)
        waits = waits and account is not None and asked.kind is not RequestKind.READ
        if waits and self._flush_near(asked, paths):
            raise ConflictError(
                f"{method} {asked.path} cannot go before an upload that waits",
                fix="see `satchel uplink status`",
            )
        try:
            answer = self._forwarding.forward(asked, body)
        except BaseException:
            self._changed(asked, paths, None)
            raise
        self._changed(asked, paths, answer)

    def _refuses(self, asked: UplinkRequest) -> bool:
        """Whether a condition of the request fails for the file that is held. The service has it
        under another etag, so it could not tell."""
        account, exchange = asked.trusted, asked.exchange
        if account is None or not CONDITIONS & exchange.named.keys():
            return False
        held = self._spool.pending_at(asked.service, account.name, asked.path.partition("?")[0])
        if held is None:
            return False
        tag = held_etag(held)
        failed = failed_condition(exchange.method, exchange.named, tag, held.accepted)
        return failed == PRECONDITION_FAILED

    def _changed(
        self, asked: UplinkRequest, paths: list[str], answer: ServiceAnswer | None
    ) -> None:
        """Note the effects of a change. answer: None if its outcome is unknown"""
        account, method = asked.account, asked.exchange.method
        if answer is not None and answer.status < 300 and method in ("LOCK", "UNLOCK", "DELETE"):
            self._note_lock(asked.service, plain(paths[0]), locked=method == "LOCK")
        if account is None or method in _SAFE:
            return
        for path in paths:
            self._forwarding.changed(asked.service, account.name, path)
        with account.guard:
            came = answer is not None and answer.status < 300
            if came and method == "PUT" and answer is not None:
                account.knowledge.file(paths[0], answer.named.get("etag", ""))
            elif came and method == "MKCOL":
                account.knowledge.folder(paths[0])
            elif came and method == "DELETE":
                account.knowledge.absent(paths[0])
            elif answer is not None and 400 <= answer.status < 500:
                account.knowledge.doubt(paths[0])
            else:
                for path in paths:
                    account.knowledge.forget(path)

    def _note_lock(self, service: str, path: str, *, locked: bool) -> None:
        """A lock may end by itself. Uploads go at once then, too, as long as the daemon runs."""
        with self._guard:
            self._locks.pop((service, path), None)
            if locked:
                self._locks[service, path] = None
                while len(self._locks) > LOCKS:
                    del self._locks[next(iter(self._locks))]

    def _is_locked(self, asked: UplinkRequest) -> bool:
        """Whether a program has locked the path or a folder around it: only the service can say
        whether an upload is allowed."""
        with self._guard:
            found = [path for service, path in self._locks if service == asked.service]
        return any(is_below(plain(asked.path), path) for path in found)

    def _flush_near(self, asked: UplinkRequest, paths: list[str]) -> bool:
        """Send uploads of those paths, and around them. Whether some wait still."""
        if self._near(asked, paths):
            self._flusher.flush(Reason.ORDER)
            return bool(self._near(asked, paths))
        return False

    def _near(self, asked: UplinkRequest, paths: list[str]) -> list[Upload]:
        assert asked.account is not None
        return [
            upload
            for path in paths
            for upload in self._spool.pending_near(asked.service, asked.account.name, path)
        ]

    def _count(self, what: str) -> None:
        with self._guard:
            self.counts[what] += 1


_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT", "SEARCH", "TRACE"})


def _refuse_other_sites(exchange: HttpExchange) -> None:
    """Raises AccessError for a page of another site, and for a host that is not this port. A
    program that knows the service's own address talks with that."""
    authority = exchange.authority
    if exchange.entered or (authority is not None and not _HOST.fullmatch(authority)):
        return
    named = exchange.named if authority is None else exchange.named | {"host": authority}
    port = exchange.connection.getsockname()[1]
    refuse_other_sites(port, exchange.method, lambda name: named.get(name.lower()))


def _pieces(spool: Spool, incoming: IncomingBody) -> Iterator[bytes]:
    """Yield the content of a body that could not be held."""
    with spool.path_of(incoming).open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _say(exchange: HttpExchange, status: int, text: str) -> None:
    """Unless an answer has begun, whose connection is then closed."""
    if exchange.answered:
        raise ProgramGone(text)
    body = f"satchel uplink: {text}\n".encode()
    exchange.answer(status, [("Content-Type", "text/plain; charset=utf-8")], body)
