# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant of a surrogate takes more than its part, while another one's operations are answered.

The daemon is a process of its own, so that what the attacker's programs take of this one's memory
and interpreter does not count.
"""

import contextlib
import json
import multiprocessing
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import CapacityError, IntegrityError, SatchelError, UsageError
from tests.attacks.conftest import read_status
from tests.scripted import operation
from tests.surrogate.conftest import EXECUTED
from tests.waiting import eventually
from wire import HttpClient

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
NESTED = b"[" + b"[]," * (8 << 20) + b"1]"
"""Parsed, it takes 25 times its size."""


@dataclass
class Hotspot:
    """The daemon, and what it said."""

    pid: int
    victim: Path
    greedy: Path
    replica: str
    request: dict[str, Any]
    temporary: Path
    number: int = EXECUTED

    def peak(self) -> int:
        """Bytes of memory that the daemon has had at most."""
        return read_status(self.pid, "VmHWM") << 10

    def operations(self, client: HttpClient, count: int) -> list[float]:
        """Seconds of each of the victim's next operations."""
        times = []
        for _ in range(count):
            self.number += 1
            began = time.perf_counter()
            body = operation(self.number).encode()
            client.post_bytes(f"/v1/replicas/{self.replica}/operations", body)
            times.append(time.perf_counter() - began)
        return times


@contextlib.contextmanager
def daemon(folder: Path, honest: list[str], hostile: list[str]) -> Iterator[dict[str, Any]]:
    """Run `tests.attacks.hotspot` there. Yield its first line, and its process number."""
    argv = [sys.executable, "-m", "tests.attacks.hotspot", str(folder)]
    with subprocess.Popen(
        [*argv, ",".join(honest), ",".join(hostile)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        yield json.loads(process.stdout.readline()) | {"pid": process.pid}
        process.stdin.close()
        assert process.wait(120) == 0


@pytest.fixture
def hotspot(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hotspot]:
    temporary = short_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with daemon(short_path, ["victim"], ["greedy"]) as said:
        doors = said["doors"]
        yield Hotspot(
            said["pid"],
            Path(doors["victim"]),
            Path(doors["greedy"]),
            said["replicas"]["victim"],
            said["requests"]["greedy"],
            temporary,
        )


def head(path: str, size: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: s\r\nContent-Length: {size}\r\n\r\n".encode()


def begun(door: Path, data: bytes) -> socket.socket:
    """Make a connection to that tenant's socket, and send that alone."""
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sender.settimeout(5.0)
    sender.connect(str(door))
    with contextlib.suppress(OSError):
        sender.sendall(data)
    return sender


def filled(folder: Path) -> int:
    """Bytes of the temporary files of processes there, unlinked ones included."""
    return sum(path.stat().st_size for path in folder.glob("*") if path.is_file())


@pytest.mark.parametrize(
    "path", ["/v1/replicas", "/v1/fits", "/v1/staged", "/v1/replicas/r/digest"]
)
def test_large_json_is_refused_by_its_head(hotspot: Hotspot, path: str) -> None:
    before = hotspot.peak()
    with HttpClient(hotspot.greedy) as client, pytest.raises(UsageError):
        client.request("POST", path, body=NESTED, headers=JSON)
    with HttpClient(hotspot.greedy) as client, pytest.raises(UsageError):
        client.request("POST", path, body=NESTED)  # which does not say that it is JSON
    assert hotspot.peak() - before < 64 * MIB


def test_unfinished_bodies_count_against_a_quota(hotspot: Hotspot) -> None:
    path = "/v1/replicas/r/operations"
    pieces = [begun(hotspot.greedy, head(path, 100 * MIB) + bytes(MIB)) for _ in range(6)]
    try:
        answers = []
        for sender in pieces:
            sender.settimeout(2.0)
            with contextlib.suppress(TimeoutError, ConnectionError):
                answers.append(sender.recv(64).split(b" ")[1])
        assert answers == [b"507"] * 4  # two of them fit into 256 MiB
    finally:
        for sender in pieces:
            sender.close()
    with HttpClient(hotspot.greedy) as client, pytest.raises(SatchelError) as caught:
        client.post_bytes(path, bytes(200 * MIB))  # what was given up counts no more
    assert not isinstance(caught.value, CapacityError)


def test_its_waits_hold_its_threads_alone(hotspot: Hotspot) -> None:
    request = hotspot.request | {"standby": True}
    with HttpClient(hotspot.greedy) as greedy:
        greedy.post_json("/v1/replicas", request)
    line = f"GET /v1/replicas/{request['replica']}?wait=60 HTTP/1.1\r\nHost: s\r\n\r\n".encode()
    waits = [begun(hotspot.greedy, line) for _ in range(24)]
    try:
        with HttpClient(hotspot.victim) as victim:
            hotspot.operations(victim, 20)
        for sender in waits:
            sender.setblocking(False)
            with pytest.raises(BlockingIOError):
                sender.recv(1)  # it waits all the same
    finally:
        for sender in waits:
            sender.close()


def test_it_has_no_more_machines_than_its_cap_and_hears_which(hotspot: Hotspot) -> None:
    with HttpClient(hotspot.greedy) as greedy:
        with pytest.raises(CapacityError) as caught:
            for number in range(128):
                greedy.post_json("/v1/replicas", hotspot.request | {"replica": f"m{number}"})
        assert number == 8
        assert "no more than 8 replicas" in str(caught.value)
        assert "tenant.replicas" in str(caught.value)
        assert "end one of your replicas" in str(caught.value)
        assert len(greedy.get_json("/v1/status")["replicas"]) == 8
    with HttpClient(hotspot.victim) as victim:
        hotspot.operations(victim, 20)


def bomb(blocks: int, repeat: int) -> bytes:
    """A delta of zeros over the first blocks of RAM, each so often."""
    count, header = repeat, "<4sBBHIQ"
    runs = struct.pack("<BIH", 0, 0, blocks) * count
    packer = zlib.compressobj(1)
    body = b"".join(packer.compress(bytes(blocks << 12)) for _ in range(count)) + packer.flush()
    return struct.pack(header, b"SATD", 1, 1, 0, count, 0) + b"\x03ram" + runs + body


def test_a_delta_that_unpacks_to_a_thousand_times_its_size(hotspot: Hotspot) -> None:
    """400 MiB of the same blocks, again and again: to a machine that stands by."""
    request = hotspot.request | {"standby": True}
    path = f"/v1/replicas/{request['replica']}"
    with HttpClient(hotspot.greedy) as greedy:
        greedy.post_json("/v1/replicas", request)
        data = bomb(256, 400)
        assert len(data) < 4 * MIB
        assert eventually(lambda: takes(greedy, f"{path}/more", bomb(16, 1)))
        before = hotspot.peak()
        with pytest.raises(IntegrityError, match="not a delta"):
            greedy.post_bytes(f"{path}/more", data)
        assert hotspot.peak() - before < 64 * MIB
    with HttpClient(hotspot.victim) as victim:
        hotspot.operations(victim, 20)


def takes(client: HttpClient, path: str, data: bytes) -> bool:
    with contextlib.suppress(SatchelError):
        client.post_bytes(path, data)
        return True
    return False


def attack(hotspot: Hotspot, over: Event) -> None:
    """All of it, again and again until it is over; in a process of its own."""

    def again(do: Callable[[HttpClient], object]) -> None:
        while not over.is_set():
            with contextlib.suppress(SatchelError, OSError), HttpClient(hotspot.greedy) as client:
                do(client)
            over.wait(0.01)

    def hold() -> None:
        path = f"/v1/replicas/{hotspot.request['replica']}"
        wait = f"GET {path}?wait=60 HTTP/1.1\r\nHost: s\r\n\r\n".encode()
        part = head(f"{path}/operations", 32 * MIB) + bytes(MIB)
        held = [begun(hotspot.greedy, data) for data in [wait] * 16 + [part] * 16]
        over.wait()
        for sender in held:
            sender.close()

    number = iter(range(1 << 30))
    deeds: list[Callable[[HttpClient], object]] = [
        lambda c: c.request("POST", "/v1/fits", body=NESTED, headers=JSON),
        lambda c: c.post_json("/v1/replicas", hotspot.request | {"replica": f"m{next(number)}"}),
        lambda c: c.post_json("/v1/staged", hotspot.request | {"replica": f"s{next(number)}"}),
        lambda c: c.post_bytes("/v1/chunks", bytes(range(52)) * 4096),
        lambda c: c.get_json("/v1/status"),
    ]
    threads = [threading.Thread(target=again, args=(deed,)) for deed in deeds]
    threads.append(threading.Thread(target=hold))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.nightly
def test_with_all_of_that_the_other_one_is_served(hotspot: Hotspot) -> None:
    """The goal: the 99th percentile at most twice the idle one's, 256 MiB more of memory."""
    ratios = []
    processes = multiprocessing.get_context("fork")
    with HttpClient(hotspot.victim) as victim:
        hotspot.operations(victim, 200)
        before = hotspot.peak()
        for _ in range(3):
            idle = hotspot.operations(victim, 1000)
            over = processes.Event()
            attacker = processes.Process(target=attack, args=(hotspot, over))
            attacker.start()
            try:
                time.sleep(2.0)
                under = hotspot.operations(victim, 1000)
            finally:
                over.set()
                attacker.join(90.0)
            ratios.append(percentile(under) / percentile(idle))
            print(f"p99 idle {percentile(idle):.4f} s, under attack {percentile(under):.4f} s")
    grown = (hotspot.peak() - before) / MIB
    print(f"ratio of p99 {statistics.median(ratios):.2f}, daemon {grown:+.0f} MiB")
    assert grown < 256


def percentile(times: list[float]) -> float:
    """The 99th."""
    return sorted(times)[len(times) * 99 // 100]
