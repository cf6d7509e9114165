# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that sends the bytes of a test."""

import base64
import http.client
import socket
from dataclasses import dataclass, field

from tests.uplink.gateway.site import PASSWORD, USER

BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass
class PlainAnswer:
    """An answer. headers: by names in lower case; closes: whether the connection ended"""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    closes: bool = False


class Program:
    """A connection to a port, made again when the server has ended it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, method: str, target: str, *lines: str, body: bytes | None = None) -> PlainAnswer:
        """A request with credentials and a length, and its answer."""
        length = [] if body is None else [f"Content-Length: {len(body)}"]
        own = [f"Host: 127.0.0.1:{self.port}", f"Authorization: {BASIC}", *length, *lines]
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *own, "", ""]).encode()
        return self.say(head + (body or b""), method)

    def say(self, data: bytes, method: str = "GET") -> PlainAnswer:
        """Any bytes, and the answer; of status 0 if the connection ends."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), 60)
        self._socket.sendall(data)
        answer = http.client.HTTPResponse(self._socket, method=method)
        try:
            answer.begin()
            said = PlainAnswer(answer.status, body=answer.read())
        except (http.client.HTTPException, ConnectionError):
            self.close()
            return PlainAnswer(0)
        said.headers = {name.lower(): value for name, value in answer.getheaders()}
        said.closes = said.headers.get("connection", "").lower() == "close"
        if said.closes:
            self.close()
        return said
