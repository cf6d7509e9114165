# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The origin of a replayed service in a browser, and what of an answer a browser may keep.

The origin is SERVICE.localhost:PORT, over HTTP. Cookies do not tell ports of one host apart, so at
127.0.0.1 a browser would send those of other programs along, to every surrogate. A browser that
comes there by another name is sent to this one. Programs that are no browsers use either.

What a stranger has answered and home has not is provisional. A browser keeps nothing of it: it is
not stored, sets no cookie, and installs no service worker. docs/security.md has the rule.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from client.session.answers import Answer
from client.session.session import Session
from replay.adapters import http
from satchel.errors import AccessError, UnavailableError

CONFIRM_SECONDS = 10.0
"""How long an answer that sets a cookie, or is a service worker, waits for home."""

KEPT_BY_BROWSERS = {
    *("age", "alt-svc", "cache-control", "clear-site-data", "etag", "expires", "last-modified"),
    *("nel", "pragma", "refresh", "report-to", "reporting-endpoints", "service-worker-allowed"),
    "strict-transport-security",
}
"""Headers of a provisional answer that a browser would act upon later."""

CLEAR = '"cache", "cookies", "storage"'

FRAMES = "frame-ancestors 'none'"


def host_of(service: str, port: int) -> str:
    """The name of a service's origin, with its port."""
    return f"{service}.localhost:{port}"


def is_browser(asked: Mapping[str, str]) -> bool:
    """Return whether a browser asks: it always says of which site the page is. Other programs have
    some of the other headers, such as the `fetch` of Node.js."""
    return "sec-fetch-site" in asked


def elsewhere(service: str, port: int, asked: dict[str, str], target: str) -> str | None:
    """Where a browser is to go instead; None for one that is right, and for other programs.

    asked: headers by name in small letters. Raises AccessError for what cannot be sent elsewhere.
    """
    mode, own = asked.get("sec-fetch-mode"), host_of(service, port)
    if not is_browser(asked) or asked.get("host", "").lower() == own:
        return None
    if mode != "navigate" or not target.startswith("/"):
        why = "by another name a browser would send cookies of other programs along"
        raise AccessError(f"this is not the place of {service}", why=why, fix=f"open http://{own}/")
    return f"http://{own}{target}"


def kept_headers(
    session: Session, answer: Answer, response: http.HttpResponse, *, worker: bool
) -> list[tuple[str, str]]:
    """The headers that go to the program. worker: a browser asks for a service worker's script.

    Waits up to CONFIRM_SECONDS for home where a cookie depends on it. Raises UnavailableError for a
    service worker that home has not confirmed.
    """
    matters = worker or any(name.lower() == "set-cookie" for name, _ in response.headers)
    confirmed = session.confirmed(answer, CONFIRM_SECONDS if matters else 0.0)
    headers = [*response.headers, ("Content-Security-Policy", FRAMES)]
    if confirmed:
        return headers
    if worker:
        raise UnavailableError(
            "a service worker is installed only when home has confirmed its script",
            why="it would outlive a false answer",
            fix="open the page again when home is in reach",
        )
    kept = [(n, v) for n, v in headers if n.lower() not in {*KEPT_BY_BROWSERS, "set-cookie"}]
    left_out = len(kept) < len(headers) and matters
    withheld = [("X-Satchel-Withheld", "Set-Cookie")] if left_out else []
    return [*kept, ("Cache-Control", "no-store"), *withheld]


class BrowserCacheReset:
    """Says once after each quarantine that a browser is to clear what it has kept. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cleared = 0
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Whether it is time; the caller does it."""
        with self._lock:
            liars, self._cleared = self._cleared, self._session.tally.quarantined
            return self._cleared > liars
