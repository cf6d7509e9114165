# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program at a kernel of Jupyter, over its WebSocket: `kernel_client.py PORT`, run by Debian's
Python, which has the package websocket-client.

It starts a kernel, has it count, and prints what the kernel prints. For a line on standard input it
interrupts the kernel, asks it over the same WebSocket how far it has counted, prints `kept N`,
and ends.
"""

import json
import sys
import threading
import urllib.request
import uuid
from http.cookiejar import CookieJar
from typing import Any

import websocket  # type: ignore[import-not-found,import-untyped,unused-ignore]

COUNT = """
import time
number = 0
while True:
    number += 1
    print(number, flush=True)
    time.sleep(0.2)
"""


class Server:
    """Jupyter's, with the cookie against forged requests that a browser would have."""

    def __init__(self, port: int) -> None:
        self.at = f"127.0.0.1:{port}"
        self._cookies = CookieJar()
        processor = urllib.request.HTTPCookieProcessor(self._cookies)
        self._opener = urllib.request.build_opener(processor)
        self._opener.open(f"http://{self.at}/tree", timeout=300).read()

    def post(self, path: str) -> Any:
        token = next(cookie.value for cookie in self._cookies if cookie.name == "_xsrf")
        headers = {"X-XSRFToken": str(token), "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.at}{path}", b"{}", headers)
        text = self._opener.open(request, timeout=300).read()
        return json.loads(text) if text else None


class Kernel:
    """One that was started, and the one WebSocket to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.id = server.post("/api/kernels")["id"]
        self._session = uuid.uuid4().hex
        path = f"/api/kernels/{self.id}/channels?session_id={self._session}"
        self._socket = websocket.create_connection(f"ws://{server.at}{path}", timeout=300)

    def run(self, code: str) -> None:
        """Print what it prints, until it has run."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "person",
            "session": self._session,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        request = {"header": header, "content": content, "parent_header": {}, "metadata": {}}
        self._socket.send(json.dumps(request | {"channel": "shell", "buffers": []}))
        while True:
            message = json.loads(self._socket.recv())
            if message["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            if message["msg_type"] == "stream":
                print(message["content"]["text"], end="", flush=True)
            if message["msg_type"] == "execute_reply":
                return

    def interrupt(self) -> None:
        self._server.post(f"/api/kernels/{self.id}/interrupt")


def main() -> None:
    kernel = Kernel(Server(int(sys.argv[1])))

    def interrupt_when_told() -> None:
        sys.stdin.readline()
        kernel.interrupt()

    threading.Thread(target=interrupt_when_told, daemon=True).start()
    kernel.run(COUNT)
    kernel.run("print('kept', number)")


if __name__ == "__main__":
    main()
