# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests at a local HTTP port are a web page's of another site: they are refused.

Whatever runs on this device reaches the port, and so does every web page that a browser here shows.
Programs are trusted: they could use `satchel call` as well. Web pages are not:

- A page whose own name was made to point to 127.0.0.1 (DNS rebinding) sends that name as Host:
  refused, only 127.0.0.1, localhost, [::1] and `own` with our port are names of this port.
- A page of another site sends its Origin, or Sec-Fetch-Site says so: refused, whatever the method.
  A link from another site may be followed (a navigation with GET), as on any site.

So no other site's script can call the service, and cross-origin sharing (CORS) is not offered.
"""

from __future__ import annotations

from collections.abc import Callable

from satchel.errors import AccessError

OWN_SITES = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site for our own pages, and for addresses that the person typed. Programs
that are not browsers send none."""


def refuse_other_sites(
    port: int, method: str, header: Callable[[str], str | None], own: str = "localhost"
) -> None:
    """Raises AccessError for a request at that port that a page of another site caused.

    header: the value of a header of the request by its name, None where it has none; of one that is
    there more than once, all its values; own: one more name of this port
    """
    names = _names(port, own)
    _require_host(port, names, header)
    origin, site = header("Origin"), header("Sec-Fetch-Site")
    followed = method == "GET" and header("Sec-Fetch-Mode") == "navigate"
    foreign = origin is not None and origin.lower() not in {f"http://{name}" for name in names}
    if foreign or (site not in OWN_SITES and not followed):
        raise AccessError(
            "a page of another site may not use this service", why=f"it is {origin or site}"[:200]
        )


def refuse_other_pages(port: int, page: int, header: Callable[[str], str | None]) -> None:
    """Raises AccessError for a WebSocket at `port` that no page at the port `page` of this host
    asks for. A browser says which page does, so whoever says nothing is refused as well.

    header: see `refuse_other_sites`
    """
    _require_host(port, _names(port), header)
    origin = header("Origin")
    if (origin or "").lower() not in {f"http://{name}" for name in _names(page)}:
        raise AccessError(
            "a page of another site may not use this WebSocket",
            why=f"it is {origin or 'of no page'}"[:200],
        )


def _names(port: int, *own: str) -> set[str]:
    return {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", *own)}


def _require_host(port: int, names: set[str], header: Callable[[str], str | None]) -> None:
    host = header("Host")
    if (host or "").lower() not in names:
        raise AccessError(
            f"{(host or 'no host')[:80]} is not a name of this port",
            why="a web page may have sent you here",
            fix=f"use http://127.0.0.1:{port}/",
        )
