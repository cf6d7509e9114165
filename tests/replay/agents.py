# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guest agent as an ordinary process of the host, and operations for it."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replay import AgentChannel, Operation, adapters, agent_program
from satchel.ids import OperationNumber

SERVICE = Path(__file__).with_name("service.py")
TIME = 1_700_000_000 * 10**9


@dataclass
class RunningAgent:
    """An agent, the socket on which it takes hosts one after the other, its service's port."""

    process: subprocess.Popen[bytes]
    socket: Path
    port: int

    def connect(self) -> AgentChannel:
        return AgentChannel.connect(self.socket)


@contextmanager
def running_agent(
    folder: Path, command: str | None = None, more: Sequence[str | Path] = (), **config: str
) -> Iterator[RunningAgent]:
    """An agent with the test service, or with another command, in which $PORT is its port. more:
    arguments of the agent's."""
    port = free_port()
    state = folder / "state"
    default = f"exec {sys.executable} {SERVICE} $PORT {state}"
    lines = {
        "command": (command or default).replace("$PORT", str(port)),
        "port": str(port),
        **config,
    }
    description = folder / "service"
    description.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    path = folder / "agent"
    argv: list[str | Path] = [
        agent_program(),
        "--no-init",
        "--listen",
        path,
        "--config",
        description,
        *more,
    ]
    with subprocess.Popen(argv) as process:
        try:
            yield RunningAgent(process, path, port)
        finally:
            process.terminate()


_GIVEN: set[int] = set()
"""Ports that this run has taken: who gets one listens there only later."""


def free_port() -> int:
    """A TCP port that nobody listens on, below those that connections get by themselves."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        start = 1024 + probe.getsockname()[1] % (ephemeral - 2048)
    for port in range(start, ephemeral):
        with socket.socket() as probe:
            if port not in _GIVEN and probe.connect_ex(("127.0.0.1", port)) != 0:
                _GIVEN.add(port)
                return port
    raise AssertionError("every port is taken")


def http(number: int, method: str, target: str, body: bytes = b"") -> Operation:
    """An operation on the test service. Everything about it follows from its number."""
    time_ns, seed = TIME + number * 10**9, number * 7
    payload = adapters.http.encode(
        method, target, [], body, number=number, time_ns=time_ns, seed=seed
    )
    return Operation(OperationNumber(number), time_ns, seed, payload)


def body(raw: bytes) -> bytes:
    """The body of a raw response."""
    return raw.partition(b"\r\n\r\n")[2]
