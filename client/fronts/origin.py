# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The origin of a replayed service in a browser, and the parts of an answer that a browser keeps.

The origin is SERVICE.localhost:PORT, over HTTP. Cookies do not tell ports of one host apart, so at
127.0.0.1 a browser would send cookies of other programs to every surrogate. The client sends a
browser that comes there by another name to this one. Other programs use either name.

An answer of a stranger is provisional until home has given the same one. A browser keeps nothing of
it: it is not stored, sets no cookie, and installs no service worker. A provisional page is in a
sandbox: it has no origin, so its scripts reach no cookie and no storage. docs/security.md has the
rule.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

from client.session.answers import Answer
from client.session.session import Session
from replay.adapters import http
from satchel.errors import AccessError, UnavailableError

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


def host_of(service: str, port: int) -> str:
    """The name of a service's origin, with its port."""
    return f"{service}.localhost:{port}"


def is_browser(asked: Mapping[str, str]) -> bool:
    """Return whether a browser asks: it always says of which site the page is. Other programs have
    some of the other headers, such as the `fetch` of Node.js."""
    return "sec-fetch-site" in asked


def elsewhere(service: str, port: int, asked: dict[str, str], target: str) -> str | None:
    """Return the URL to which a browser is sent instead, or None for one that is right and for
    other programs.

    asked: headers by name in small letters. Raises AccessError for a request that cannot be sent
    elsewhere.
    """
    mode, own = asked.get("sec-fetch-mode"), host_of(service, port)
    if not is_browser(asked) or asked.get("host", "").lower() == own:
        return None
    if mode != "navigate" or not target.startswith("/"):
        why = "by another name a browser would send cookies of other programs along"
        raise AccessError(f"this is not the place of {service}", why=why, fix=f"open http://{own}/")
    return f"http://{own}{target}"


def is_sandboxed(asked: Mapping[str, str], own: str) -> bool:
    """Return whether a page in the sandbox asks. Such a page has no origin, but its Referer names
    its place, and no other site can say that. own: the service's origin, as `host_of` has it."""
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
