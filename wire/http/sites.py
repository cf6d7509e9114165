# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests at a local HTTP port are a web page's of another site: they are refused.

Whatever runs on this device reaches the port, and so does every web page that a browser here shows.
Programs are trusted: they could use `satchel call` as well. Web pages are not:

- A page whose own name was made to point to 127.0.0.1 (DNS rebinding) sends that name as Host:
  refused, only `hosts` with our port are names of this port.
- A page of another site sends its Origin, or Sec-Fetch-Site says so: refused, whatever the method.
  A link from another site may be followed (a navigation with GET), as on any site, but not in a
  frame.

So no other site's script can call the service, and cross-origin sharing (CORS) is not offered.

Cookies do not tell ports of one host apart. So a page with a cookie lives at a host of its own,
RANDOM.localhost: browsers resolve it to this device, and a server at another port of 127.0.0.1,
which may be another user's, does not know the name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from satchel.errors import AccessError

OWN_SITES = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site for our own pages, and for addresses that the person typed. Programs
that are not browsers send none."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names that every program of this device uses for it."""


def unguessable_host() -> str:
    """Return a new name of this device for a browser."""
    return f"{secrets.token_hex(16)}.localhost"


def refuse_other_sites(
    port: int,
    method: str,
    header: Callable[[str], str | None],
    hosts: Iterable[str] = LOOPBACK_HOSTS,
) -> None:
    """Raises AccessError for a request at that port that a page of another site caused.

    header: the value of a header of the request by its name, None where it has none; of one that is
    there more than once, all its values; hosts: the names of this port
    """
    names = {f"{host}:{port}" for host in hosts}
    _require_host(port, names, header)
    origin, site = header("Origin"), header("Sec-Fetch-Site")
    followed = method == "GET" and header("Sec-Fetch-Mode") == "navigate"
    followed = followed and header("Sec-Fetch-Dest") in (None, "document")
    foreign = origin is not None and origin.lower() not in {f"http://{name}" for name in names}
    if foreign or (site not in OWN_SITES and not followed):
        raise AccessError(
            "a page of another site may not use this service", why=f"it is {origin or site}"[:200]
        )


def refuse_other_pages(
    port: int, page: int, host: str, header: Callable[[str], str | None]
) -> None:
    """Raises AccessError for a WebSocket at `port` that no page at the port `page` of `host` asks
    for. A browser says which page does, so whoever says nothing is refused as well.

    header: see `refuse_other_sites`
    """
    _require_host(port, {f"{host}:{port}"}, header)
    origin = header("Origin")
    if (origin or "").lower() != f"http://{host}:{page}":
        raise AccessError(
            "a page of another site may not use this WebSocket",
            why=f"it is {origin or 'of no page'}"[:200],
        )


def _require_host(port: int, names: set[str], header: Callable[[str], str | None]) -> None:
    host = header("Host")
    if (host or "").lower() not in names:
        local = f"127.0.0.1:{port}"
        place = f"http://{local}/" if local in names else "the link that the daemon printed"
        raise AccessError(
            f"{(host or 'no host')[:80]} is not a name of this port",
            why="a web page may have sent you here",
            fix=f"use {place}",
        )
