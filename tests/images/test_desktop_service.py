# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guest's half of the desktop, without a desktop."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

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


class Slow:
    """A machine, its screen and its clock: each look takes as long, and the desktop has something
    to do for so many of them."""

    def __init__(self, seconds: float, busy: int) -> None:
        self.now, self.looks = 0.0, 0
        self._seconds, self._busy = seconds, busy

    def monotonic(self) -> float:
        return self.now

    def receive(self, _: float) -> bool:
        self.now += self._seconds
        self.looks += 1
        return False

    def idle(self) -> bool:
        return self.looks > self._busy

    def runs(self) -> list[tuple[int, bytes]]:
        return []


def waited(module: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the desktop rests after an event, and then until it has settled."""
    monkeypatch.setattr(module, "time", slow)
    desktop = object.__new__(module.Desktop)
    desktop._machine = desktop._screen = slow
    desktop._rest(SimpleNamespace(busy=lambda: None))
    desktop._settle()


def test_a_machine_that_stands_still_for_minutes_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = Slow(30.0, busy=100)
    waited(service_module("desktop"), slow, monkeypatch)
    assert slow.looks > 100
    assert capsys.readouterr().err == ""


def test_a_desktop_that_never_settles_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    never = Slow(0.015, busy=1 << 40)
    waited(service_module("desktop"), never, monkeypatch)
    assert never.now < 120
    said = capsys.readouterr().err.splitlines()
    assert said == ["the desktop does not rest", "the desktop does not settle"]


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
