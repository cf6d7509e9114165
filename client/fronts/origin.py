# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The origin of a service in a browser, and the part of an answer that a browser may keep.

The host is SERVICE-MARK.localhost. Cookies do not tell ports of one host apart, so at
127.0.0.1 a browser would send those of other programs to every surrogate, and those of the service
to every program. The mark is secret, so another user's server cannot be at that host. It is the
same in each session, so a browser keeps logins. A browser of this user that comes by another name
is sent to this one. Programs such as curl use any of the names.

An answer of a stranger is provisional until home has given the same one. A browser keeps nothing of
it: it is not stored, sets no cookie, and installs no service worker. A provisional page is in a
sandbox: it has no origin, so its scripts reach no cookie and no storage. docs/security.md has the
rule.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from client.session.answers import Answer
from client.session.session import Session
from client.state.origin_key import origin_key
from replay.adapters import http
from satchel.errors import AccessError, UnavailableError
from wire import LOOPBACK_HOSTS, is_own_user

CONFIRM_SECONDS = 10.0
"""How long an answer that sets a cookie, or that a browser may run, waits for home."""

KEPT_BY_BROWSERS = {
    *("age", "alt-svc", "cache-control", "clear-site-data", "etag", "expires", "last-modified"),
    *("nel", "pragma", "refresh", "report-to", "reporting-endpoints", "service-worker-allowed"),
    "strict-transport-security",
}
"""Headers of a provisional answer that a browser would act upon later."""

CLEAR = '"cache", "cookies", "storage"'

FRAMES = "frame-ancestors 'none'"

SANDBOX = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"

PAGES = ("document", "embed", "frame", "iframe", "object")
"""Values of Sec-Fetch-Dest for what the sandbox holds."""

PASSIVE = ("audio", "font", "image", "manifest", "style", "track", "video")
"""Values of Sec-Fetch-Dest for what a browser shows and never runs."""

_RUNS = re.compile("html|xml|svg|script", re.IGNORECASE)
"""Content types of what a page's script may ask for and put into the page, as htmx does."""


MARK_DIGITS, NAME_LETTERS = 32, 30
"""The parts of a host's first label, which has at most 63 letters (RFC 1035)."""


@dataclass(frozen=True)
class ServiceOrigin:
    """The place of a service in a browser. host: without the port"""

    service: str
    host: str

    @classmethod
    def of(cls, service: str, state: Path) -> ServiceOrigin:
        """state: the client's folder, with the user's key. Raises OSError."""
        key = origin_key(state / "origin-key")
        mark = hmac.new(key, service.encode(), hashlib.sha256).hexdigest()[:MARK_DIGITS]
        return cls(service, f"{service[:NAME_LETTERS]}-{mark}.localhost")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that a request may use."""
        return (*LOOPBACK_HOSTS, f"{self.service}.localhost", self.host)

    def elsewhere(
        self,
        port: int,
        header: Callable[[str], str | None],
        target: str,
        connection: socket.socket,
    ) -> str | None:
        """Return where a browser must go instead; None for one that is right, and for programs.

        header: the value of a header by its name. Raise AccessError for a request that cannot be
        sent elsewhere, and for a browser of another user, who must not learn the name."""
        own = f"{self.host}:{port}"
        if header("sec-fetch-site") is None or (header("host") or "").lower() == own:
            return None
        if header("sec-fetch-mode") != "navigate" or not target.startswith("/"):
            why = "by another name a browser would send cookies of other programs along"
            fix = f"open http://127.0.0.1:{port}/, which leads there"
            raise AccessError(f"this is not the place of {self.service}", why=why, fix=fix)
        if not is_own_user(connection):
            raise AccessError(
                f"only a browser of the user who runs {self.service} is led to it",
                why="its place is secret from other users",
                fix="open it as that user; programs such as curl may use this address",
            )
        return f"http://{own}{target}"


def is_browser(asked: Mapping[str, str]) -> bool:
    """Return whether a browser asks: it always says of which site the page is. Other programs have
    some of the other headers, such as the `fetch` of Node.js."""
    return "sec-fetch-site" in asked


def is_sandboxed(asked: Mapping[str, str], own: str) -> bool:
    """Return whether a page in the sandbox asks. Such a page has no origin, but its Referer names
    its place, and no other site can say that. own: the service's host, with its port."""
    foreign = asked.get("sec-fetch-site") == "cross-site" and asked.get("origin", "null") == "null"
    return foreign and asked.get("referer", "").startswith(f"http://{own}/")


def runs(asked: Mapping[str, str], response: http.HttpResponse) -> bool:
    """Return whether a page with the origin of the service may run the answer."""
    dest = asked.get("sec-fetch-dest", "")
    if asked.get("service-worker") == "script":
        return True
    if asked.get("sec-fetch-site") != "same-origin" or dest in (*PAGES, *PASSIVE):
        return False
    kinds = [value for name, value in response.headers if name.lower() == "content-type"]
    return dest != "empty" or not kinds or any(_RUNS.search(kind) for kind in kinds)


def require_confirmed(session: Session, answer: Answer) -> None:
    """Wait up to CONFIRM_SECONDS for home. Raise UnavailableError if it does not confirm."""
    if not session.confirmed(answer, CONFIRM_SECONDS):
        raise UnavailableError(
            "a browser runs a script only when home has confirmed it",
            why="what it leaves in the browser would outlive a false answer",
            fix="open the page again when home is in reach",
        )


def kept_headers(
    session: Session, answer: Answer, response: http.HttpResponse, asked: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the headers that go to the program. asked: the request's headers by name in small
    letters.

    Waits up to CONFIRM_SECONDS for home if a cookie depends on it, or if a browser may run the
    answer. Raises UnavailableError for a script that home has not confirmed. A long answer does not
    wait: the caller calls `require_confirmed` before its last piece.
    """
    sets = any(name.lower() == "set-cookie" for name, _ in response.headers)
    if runs(asked, response) and not answer.long:
        require_confirmed(session, answer)
    page = asked.get("sec-fetch-dest") in PAGES and not answer.long
    headers = [*response.headers, ("Content-Security-Policy", FRAMES)]
    if session.confirmed(answer, CONFIRM_SECONDS if sets or page else 0.0):
        return headers
    kept = [(n, v) for n, v in headers if n.lower() not in {*KEPT_BY_BROWSERS, "set-cookie"}]
    withheld = [("X-Satchel-Withheld", "Set-Cookie")] if sets else []
    policy = ("Content-Security-Policy", SANDBOX)
    return [*kept, policy, ("Cache-Control", "no-store"), *withheld]


class BrowserCacheReset:
    """Says once after each quarantine that a browser must clear its storage. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cleared = 0
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Whether it is time; the caller does it."""
        with self._lock:
            liars, self._cleared = self._cleared, self._session.tally.quarantined
            return self._cleared > liars
