# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program's request at a service, and its addresses as the service has them.

A program knows `http://127.0.0.1:8034/cloud/a.txt`, the service `https://cloud.example/dav/a.txt`.
Both are the path `/a.txt` below the service `cloud`. A program that came by `satchel uplink run
--namespace` knows the service's own addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from satchel.errors import UsageError
from satchel.targets import leads_up, leaves, without_dots
from uplink.gateway.accounts import Account
from uplink.gateway.programs import Program
from uplink.policy import Description, RequestKind, Signature, read_signature, verified
from wire import HttpExchange, Upstream


@dataclass(frozen=True)
class UplinkRequest:
    """path: below the service, percent-encoded, with its query; account: None where it cannot be
    told whose the request is; program: that asks, which takes a look through the processes; helped:
    whether home helps with the service; prefix: of the program's addresses, before the path"""

    exchange: HttpExchange
    service: str
    path: str
    upstream: Upstream
    description: Description
    kind: RequestKind
    account: Account | None
    program: Callable[[], Program]
    prefix: str
    helped: bool = False

    @property
    def authorization(self) -> str:
        return self.exchange.named.get("authorization", "")

    @cached_property
    def signature(self) -> Signature | None:
        """Of a request that has to stay as it is."""
        return read_signature(self.exchange.named)

    @property
    def host(self) -> str:
        """That a signature covers; empty where it is the service's."""
        return self.exchange.named.get("host", "") if self.signature else ""

    @cached_property
    def trusted(self) -> Account | None:
        """The account, if what is kept or held for it may be given to this request."""
        account, exchange = self.account, self.exchange
        if account is not None and (signature := self.signature) is not None:
            secret = account.secret
            told = (exchange.method, exchange.path, exchange.named)
            return account if secret and verified(signature, secret, *told) else None
        return account if account is not None and account.accepts(self.authorization) else None

    @property
    def destination(self) -> str | None:
        """The path that MOVE and COPY name."""
        address = self.exchange.named.get("destination")
        path = _path_of(address) if address else ""
        return path.removeprefix(self.prefix) if path.startswith(self.prefix + "/") else None

    def to_local(self, address: str) -> str:
        """An address of the service, as the program has to ask for it; others as they are."""
        bare, base = address.removeprefix(self.upstream.origin), self.upstream.base
        if bare == base or bare.startswith(base + "/"):
            return self.prefix + bare.removeprefix(base)
        return address

    def sent_headers(self) -> list[tuple[str, str]]:
        """The request's headers with addresses and etags as the service has them; those of a
        signed one as they are."""
        if self.signature is not None:
            return list(self.exchange.headers)
        aliases = dict(self.account.aliases) if self.account else {}
        found = []
        for name, given in self.exchange.headers:
            value = given
            if name.lower() == "destination":
                value = _upstream_address(self, value)
            elif name.lower() in ("if", "if-match", "if-none-match"):
                for ours, theirs in aliases.items():
                    value = value.replace(ours, theirs)
                value = _TAG.sub(lambda tag: f"<{_upstream_address(self, tag[1])}>", value)
            found.append((name, value))
        return found

    def answer_headers(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The service's headers with addresses as the program knows them."""
        host = self.exchange.named.get("host", "127.0.0.1")
        found = []
        for name, value in headers:
            if name.lower() in ("location", "content-location") and "://" in value:
                local = self.to_local(value)
                found.append(
                    (name, value if local == value else f"{self.exchange.scheme}://{host}{local}")
                )
            elif name.lower() in ("location", "content-location"):
                found.append((name, self.to_local(value)))
            elif name.lower() != "strict-transport-security":
                found.append((name, value))
        return found


_TAG = re.compile(r"<([^<>]*)>")


class BadTarget(UsageError):
    """A request names something outside of every service."""


def service_path(path: str) -> str:
    """Return the path of a target without `.` and `..`. Raises BadTarget if a server could still
    find some in it."""
    found = without_dots(path)
    if leads_up(found):
        raise BadTarget("the target leads out of its folder", why="it has .. in it")
    return found


def require_inside(path: str, prefix: str) -> None:
    """Raise BadTarget if a server could read a path that has to stay as it is, since it is signed,
    as one outside of its service."""
    if leaves(path.partition("?")[0], prefix):
        raise BadTarget("the target leads out of its folder", why="it has .. in it")


def _path_of(address: str) -> str:
    """Return the path of an address in a header. Raises BadTarget as `service_path` does."""
    path = urlsplit(address).path
    if leads_up(path):
        raise BadTarget(f"{address[:80]} leads out of its folder", why="it has .. in it")
    return path


def _upstream_address(asked: UplinkRequest, address: str) -> str:
    """An address of ours as the service has it; others, as tokens of locks, as they are."""
    path = _path_of(address) if "://" in address else address
    if path != asked.prefix and not path.startswith(asked.prefix + "/"):
        return address
    return asked.upstream.origin + asked.upstream.base + path.removeprefix(asked.prefix)
