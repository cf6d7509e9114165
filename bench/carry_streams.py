# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""100 MB through a stream, by the real agent, door, OpenSSH and front, and through `ssh -L`.

The agent is a process of this host: what is measured is what streams cost, not what an emulated
guest does. Both ways have the same server, the same sshd and no link but loopback, alternately.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Figure, figure
from client import Served, TcpPort
from replay import AgentChannel, StreamRelay, agent_program
from replica import StreamDoor
from testbed import Sshd, plain_door
from wire import Identity, Links

SIZE = 100_000_000
ROUNDS = 3
GOAL = 0.8
PATIENCE_SECONDS = 60.0

SERVER = f"""
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
data = bytes(range(256)) * 256
def serve(connection):
    left = {SIZE}
    with connection:
        while left > 0:
            connection.sendall(data[:left])
            left -= len(data)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def streaming(quick: bool = False) -> Iterator[Figure]:
    """Bytes a second of both."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-")))
        server = _process(stack, [sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        key = Identity.create(folder / "key")
        forwards = ["DisableForwarding no"]  # for the other way
        sshd = Sshd.start(
            folder / "sshd", authorized=[key.public], door=plain_door(folder), options=forwards
        )
        stack.callback(sshd.stop)
        ways = {
            "a stream": _stream(stack, folder, sshd, key, port),
            "ssh -L": _forward(stack, folder, sshd, key, port),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(1 if quick else ROUNDS):
            for name, local in ways.items():
                seconds[name].append(_download(local))
        rates = {name: SIZE / 1e6 / statistics.median(taken) for name, taken in seconds.items()}
        yield figure("100 MB through ssh -L", rates["ssh -L"], "MB/s")
        against = ("ssh -L", rates["ssh -L"])
        yield figure(
            "100 MB through a stream", rates["a stream"], "MB/s", against=against, at_least=GOAL
        )


def _process(stack: contextlib.ExitStack, argv: list[str], **how: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(argv, **how)  # type: ignore[call-overload]
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process  # type: ignore[no-any-return]


def _stream(stack: contextlib.ExitStack, folder: Path, sshd: Sshd, key: Identity, port: int) -> int:
    """The local port of a front whose streams end at the server."""
    description = folder / "service"
    description.write_text(f"command=exec sleep 1000\nstreams={port}\n")
    options = {"--listen": "agent", "--streams": "streams", "--config": "service"}
    words = [word for name, file in options.items() for word in (name, str(folder / file))]
    _process(stack, [str(agent_program()), "--no-init", *words])
    agent = stack.enter_context(AgentChannel.connect(folder / "agent"))
    agent.hello()
    door = StreamDoor(folder / "door", folder / "streams", agent.attach_streams)
    stack.callback(door.close)
    links = stack.enter_context(Links(folder / "l"))
    peer = sshd.peer("there", key.path, folder / "known_hosts")
    link = links.open("there", peer)
    relay = StreamRelay("bench")
    stack.callback(relay.close)
    carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    carrier.connect(bytes(link.reach(door.path.name)))
    relay.attach(carrier)
    front = TcpPort(relay, Served("tcp", port, 0))
    stack.callback(front.close)
    return front.port


def _forward(
    stack: contextlib.ExitStack, folder: Path, sshd: Sshd, key: Identity, port: int
) -> int:
    """The local port that ssh forwards to the server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        local = int(probe.getsockname()[1])
    peer = sshd.peer("there", key.path, folder / "known_hosts")
    files = ["-i", str(key.path), "-o", f"UserKnownHostsFile={peer.known_hosts}"]
    forward = ["-N", "-L", f"127.0.0.1:{local}:127.0.0.1:{port}", "-p", str(peer.port)]
    _process(
        stack, ["ssh", "-F", "none", *files, "-o", "BatchMode=yes", *forward, peer.destination]
    )
    _until(lambda: _download(local) > 0)
    return local


def _download(port: int) -> float:
    """The seconds that it takes."""
    began, left, room = time.monotonic(), SIZE, bytearray(1 << 18)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        while left and (count := connection.recv_into(room)):
            left -= count
    if left:
        raise OSError(f"{left} bytes did not come")
    return time.monotonic() - began


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if done():
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
