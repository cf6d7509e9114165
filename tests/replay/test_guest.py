# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The agent where it belongs: PID 1 of a machine, on a virtio-serial port."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from replay import AgentChannel, Operation, adapters
from replay.frames import AgentFrame, FrameType
from satchel.ids import OperationNumber
from tests.conftest import requires
from tests.replay.agents import body, http
from tests.replay.guest import machine
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "busybox", "apt-get"),
]

BOOT_SECONDS = 120.0


def count(number: int, seconds: int) -> Operation:
    """Increments the guest's counter at a moment of its own."""
    payload = adapters.http.encode(
        "GET", "/cgi-bin/count", [], b"", number=number, time_ns=0, seed=0
    )
    return Operation(OperationNumber(number), seconds * 10**9, 0, payload)


def counted(channel: AgentChannel, operation: Operation) -> int:
    """What the counter says; checks that the guest saw the operation's moment, as the right user.

    The guest's clock runs on from there: a busy host may take seconds over an operation.
    """
    answer = body(channel.execute(operation, timeout=60).payload)
    additions, clock, user = map(int, answer.split())
    assert 0 <= clock - operation.time_ns // 10**9 < 30
    assert user == 33
    return additions


def half_a_frame_and_gone(port: Path) -> None:
    """What a host leaves that dies while it sends."""
    frame = AgentFrame(FrameType.EXECUTE, id=1, number=1, payload=bytes(50_000)).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(port))
        connection.sendall(frame[:30_000])


def test_the_agent_boots_a_guest_and_executes_operations(short_path: Path) -> None:
    with machine(short_path) as (process, port):
        with AgentChannel.connect(port, timeout=20) as channel:
            assert channel.wait_ready(BOOT_SECONDS).last == 0
            check_the_guest(channel)
            assert counted(channel, count(1, 2_000_000_000)) == 1
            assert counted(channel, count(2, 1_500_000_000)) == 2
            page = body(channel.execute(http(3, "GET", "/index.html")).payload)
            assert page == bytes(range(256)) * (3 << 12)
            assert channel.digest(["/srv"]) != channel.digest(["/www"])

        half_a_frame_and_gone(port)
        with AgentChannel.connect(port) as channel:
            assert channel.hello().last == 3
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(process.pid, signal.SIGCONT)
            assert counted(channel, count(4, 1_600_000_000)) == 3
            assert counted(channel, count(4, 1_600_000_000)) == 3
            send_much(channel)
            kill_the_service(channel)
            channel.run(["sh", "-c", "(busybox sleep 0.3; busybox kill -TERM 1) &"])
        assert process.wait(30) == 0


def check_the_guest(channel: AgentChannel) -> None:
    def output(*argv: str) -> str:
        status, text = channel.run(["busybox", *argv])
        assert status == 0, text
        return text.decode()

    assert output("hostname") == "a-guest\n"
    assert "inet addr:127.0.0.1" in output("ifconfig", "lo")
    mounted = {line.split()[2] for line in output("mount").splitlines()}
    assert {"/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/run", "/tmp"} <= mounted
    assert output("readlink", "/dev/fd") == "/proc/self/fd\n"
    assert output("cat", "/proc/1/comm") == "init\n"


def send_much(channel: AgentChannel) -> None:
    """A request that is refused, but crosses the port whole, with every byte value in it."""
    big = http(5, "GET", "/nothing", bytes(range(256)) * 8192)
    assert b" 404 " in channel.execute(big, timeout=60).payload.split(b"\r\n")[0] + b" "


def kill_the_service(channel: AgentChannel) -> None:
    """It comes back; what it left behind is reaped."""
    channel.run(["busybox", "sh", "-c", "(busybox sleep 0.1 &)"])
    channel.run(["busybox", "killall", "busybox"])
    assert eventually(lambda: channel.hello().restarts)
    status = channel.wait_ready(60)
    assert (status.restarts, status.exit) == (1, "signal 15")
    processes = ["busybox", "ps", "-o", "pid,stat,comm"]
    assert eventually(lambda: b" Z " not in channel.run(processes)[1])
