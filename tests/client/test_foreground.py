# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps off the uplink while an operation is on its way, and what does not."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import foreground
from client.foreground import Foreground
from client.sources import relay_app
from tests.waiting import eventually
from wire import Priority


class Asked:
    """A home that notes how urgent what it was asked for is."""

    def __init__(self) -> None:
        self.priorities: list[Priority] = []

    def fetch(self, refs: bytes, priority: Priority) -> bytes:
        self.priorities.append(priority)
        return b""

    below = fetch


def test_what_is_fetched_ahead_waits_for_the_operation_and_a_miss_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 3600.0)
    operations, home = Foreground(), Asked()
    http = relay_app(home, operations).test_client()  # type: ignore[arg-type]

    def ask(priority: Priority) -> int:
        headers = {"Satchel-Priority": priority.value}
        return http.post("/v1/chunks", data=b"", headers=headers).status_code

    with ThreadPoolExecutor() as pool:
        with operations.operation(), operations.operation():
            ahead = [pool.submit(ask, p) for p in (Priority.PREFETCH, Priority.BACKGROUND)]
            assert ask(Priority.DEMAND) == 200
            assert home.priorities == [Priority.DEMAND]
            assert not any(call.done() for call in ahead)
        assert [call.result() for call in ahead] == [200, 200]
    assert len(home.priorities) == 3


def test_nothing_gives_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 0.01)
    operations = Foreground()
    with operations.operation():
        operations.give_way(Priority.BACKGROUND)


def test_an_operation_that_is_computed_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 0.0)
    operations = Foreground()
    with operations.operation():
        monkeypatch.setattr(foreground, "YIELD_SECONDS", 3600.0)
        operations.give_way(Priority.PREFETCH)


def test_an_operation_that_fails_holds_up_nothing() -> None:
    operations = Foreground()
    with pytest.raises(ValueError, match="it failed"), operations.operation():
        raise ValueError("it failed")
    waiting = threading.Thread(target=operations.give_way, args=(Priority.PREFETCH,))
    waiting.start()
    assert eventually(lambda: not waiting.is_alive())
