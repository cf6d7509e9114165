# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names below .localhost lead to this device, as in browsers and in curl. glibc asks DNS for them.

httpx2 keeps one jar of cookies for all ports of a host, as RFC 6265 (8.5) says of browsers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import httpx2


class LoopbackTransport(httpx2.BaseTransport):
    """Connects to 127.0.0.1 and leaves the header Host as it is. Each host has its connections."""

    def __init__(self) -> None:
        self._hosts: dict[str, httpx2.HTTPTransport] = defaultdict(httpx2.HTTPTransport)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._hosts[request.url.host].handle_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1"),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    def close(self) -> None:
        for transport in self._hosts.values():
            transport.close()


def client(**options: Any) -> httpx2.Client:
    """Return a browser without scripts and without a screen."""
    return httpx2.Client(transport=LoopbackTransport(), trust_env=False, **options)


def request(method: str, url: str, **options: Any) -> httpx2.Response:
    with client() as made:
        return made.request(method, url, **options)


def get(url: str, **options: Any) -> httpx2.Response:
    return request("GET", url, **options)
