# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The monitor's connection, with somebody at the other end who does not behave."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypervisor.qemu.qmp import Monitor, MonitorGone, MonitorRefused
from hypervisor.qemu.stream import listening

GREETING = b'{"QMP": {"version": {"qemu": {"micro": 0}}, "capabilities": []}}\r\n'
AGREED: dict[str, Any] = {"return": {}}


@pytest.fixture
def serve(short_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts a server that gives one of the given answers to each question that it hears."""
    threads: list[threading.Thread] = []

    def start(greeting: bytes, *answers: dict[str, Any]) -> Path:
        ready = threading.Event()

        def run() -> None:
            with listening(short_path / "monitor") as server:
                ready.set()
                connection, _ = server.accept()
                with connection:
                    connection.sendall(greeting)
                    for answer in answers:
                        question = json.loads(connection.recv(4096))
                        same = {"id": question["id"]} if "id" in question else {}
                        connection.sendall(json.dumps(answer | same).encode() + b"\r\n")
                    while answers and connection.recv(4096):
                        pass

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        ready.wait()
        return short_path / "monitor"

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def ignore(name: str, data: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize("greeting", [b"", b"garbage\r\n", b'{"QMP": 1}\r\n', b"[]\r\n"])
def test_a_greeting_that_is_none(serve: Callable[..., Path], greeting: bytes) -> None:
    with pytest.raises(MonitorGone):
        Monitor(serve(greeting), ignore)


def test_nobody_listens(short_path: Path) -> None:
    with pytest.raises(MonitorGone):
        Monitor(short_path / "none", ignore)


def test_a_refusal_carries_the_reason(serve: Callable[..., Path]) -> None:
    refusal = {"error": {"class": "GenericError", "desc": "not now"}}
    monitor = Monitor(serve(GREETING, AGREED, refusal), ignore)
    with pytest.raises(MonitorRefused, match="QEMU did not do cont: not now"):
        monitor.execute("cont")
    monitor.close()


def test_an_answer_that_does_not_come(serve: Callable[..., Path]) -> None:
    monitor = Monitor(serve(GREETING, AGREED), ignore)
    with pytest.raises(MonitorGone, match=r"no answer within 0\.2 s"):
        monitor.execute("stop", seconds=0.2)
    monitor.close()


def test_close_ends_a_command_of_another_thread(serve: Callable[..., Path]) -> None:
    monitor = Monitor(serve(GREETING, AGREED), ignore)
    timer = threading.Timer(0.2, monitor.close)
    timer.start()
    with pytest.raises(MonitorGone):
        monitor.execute("stop", seconds=30)
    timer.join()
    with pytest.raises(MonitorGone, match="closed"):
        monitor.execute("stop")
    monitor.close()


def test_events_arrive(serve: Callable[..., Path]) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    there = threading.Event()

    def note(name: str, data: dict[str, Any]) -> None:
        seen.append((name, data))
        there.set()

    event = {"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 2}}
    monitor = Monitor(serve(GREETING, AGREED, event), note)
    with contextlib.suppress(MonitorGone):
        monitor.execute("stop", seconds=0.5)
    assert there.wait(60)
    assert seen == [("STOP", {})]
    monitor.close()
