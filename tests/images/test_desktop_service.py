# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guest's half of the desktop, without a desktop."""

import socket
import struct
import threading
import time
from collections.abc import Callable

from replay.adapters import rfb
from tests.images.guest_code import service_module
from tests.replay.agents import free_port


class Still:
    """A desktop whose answers are large."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def execute(self, events: bytes, *, whole: bool, early: Callable[[bytes], None]) -> bytes:
        self.batches.append(events)
        time.sleep(0.05)
        return bytes(32 << 20)


def connected(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 60)
        except ConnectionRefusedError:
            time.sleep(0.01)


def test_an_answer_that_nobody_takes_does_not_end_the_desktop() -> None:
    desktop, port = Still(), free_port()
    argv = (desktop, port)
    threading.Thread(target=service_module("desktop").serve, args=argv, daemon=True).start()
    for number in (1, 2):
        with connected(port) as connection:
            connection.sendall(rfb.encode(rfb.key(number, down=True), whole=False))
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if number == 2:
                assert connection.recv(1)
    assert desktop.batches == [rfb.key(1, down=True), rfb.key(2, down=True)]
