# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""100 MB through a stream, by the real agent, door, OpenSSH and front, and through `ssh -L`.

The agent is a process of this host: what is measured is what streams cost, not what an emulated
guest does. Both ways have the same server, the same sshd and the same link, alternately: the Wi-Fi
of today, and loopback, where nothing but processors limits either.

    python -m bench.carry_streams FOLDER DESTINATION PORT SERVER ROUNDS

is the client's end, which prints the seconds of each way as JSON.
"""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import processors
from bench.harness import Figure, figure
from client import Served, TcpPort
from replay import AgentChannel, StreamRelay, agent_program
from replica import StreamDoor
from testbed import TODAY, Sshd, plain_door
from wire import Identity, Links, Peer

SIZE = 100_000_000
ROUNDS = 3
GOAL = 0.8
STREAM, FORWARD = "a stream", "ssh -L"
SSH_PORT = 2222
KEY, KNOWN_HOSTS, DOOR = "key", "known_hosts", "door"
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
    """Bytes a second of both, over each link."""
    rounds = 1 if quick else ROUNDS
    with processors.apart(TODAY) as bed:
        there = bed.host("surrogate-a")
        seconds = _downloads(rounds, there.prefix, bed.client.prefix, there.address)
        yield from _rates(f"the Wi-Fi of {TODAY.name}", seconds, GOAL)
    yield from _rates("loopback", _downloads(rounds), None)


def _rates(link: str, seconds: dict[str, list[float]], goal: float | None) -> Iterator[Figure]:
    rates = {name: SIZE / 1e6 / statistics.median(taken) for name, taken in seconds.items()}
    yield figure(f"100 MB over {link}, {FORWARD}", rates[FORWARD], "MB/s")
    against = (FORWARD, rates[FORWARD])
    what = f"100 MB over {link}, {STREAM}"
    yield figure(what, rates[STREAM], "MB/s", against=against, at_least=goal)


def _downloads(
    rounds: int, there: Sequence[str] = (), here: Sequence[str] = (), address: str = "127.0.0.1"
) -> dict[str, list[float]]:
    """The seconds of each way. there, here: what to write before commands of the server's host and
    of the client's; address: of the server's host"""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-")))
        server = _process(stack, [*there, sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        key = Identity.create(folder / KEY)
        sshd = Sshd.start(
            folder / "sshd",
            authorized=[key.public],
            address=address,
            port=SSH_PORT if there else 0,
            prefix=there,
            door=plain_door(folder),
            options=["DisableForwarding no"],  # for the other way
        )
        stack.callback(sshd.stop)
        peer = sshd.peer("there", key.path, folder / KNOWN_HOSTS)
        _serve(stack, folder, there, port)
        argv = [*here, sys.executable, "-m", "bench.carry_streams", str(folder)]
        argv += [peer.destination, str(peer.port), str(port), str(rounds)]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, list[float]] = json.loads(done.stdout)
        return found


def _process(
    stack: contextlib.ExitStack, argv: Sequence[str], **how: int
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(argv, **how)  # type: ignore[call-overload]
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process  # type: ignore[no-any-return]


def _serve(stack: contextlib.ExitStack, folder: Path, there: Sequence[str], port: int) -> None:
    """A stream door whose streams end at the server."""
    description = folder / "service"
    description.write_text(f"command=exec sleep 1000\nstreams={port}\n")
    options = {"--listen": "agent", "--streams": "streams", "--config": "service"}
    words = [word for name, file in options.items() for word in (name, str(folder / file))]
    _process(stack, [*there, str(agent_program()), "--no-init", *words])
    agent = stack.enter_context(AgentChannel.connect(folder / "agent"))
    agent.hello()
    door = StreamDoor(folder / DOOR, folder / "streams", agent.attach_streams)
    stack.callback(door.close)


def client(folder: Path, destination: str, ssh_port: int, server: int, rounds: int) -> None:
    """The client's end: downloads by each way, alternately. server: its port there"""
    peer = Peer(destination, ssh_port, folder / KEY, folder / KNOWN_HOSTS)
    with contextlib.ExitStack() as stack:
        ways = {
            STREAM: _stream(stack, folder, peer, server),
            FORWARD: _forward(stack, peer, server),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, local in ways.items():
                seconds[name].append(_download(local))
    print(json.dumps(seconds))


def _stream(stack: contextlib.ExitStack, folder: Path, peer: Peer, server: int) -> int:
    """The local port of a front whose streams end at the server."""
    links = stack.enter_context(Links(folder / "l"))
    relay = StreamRelay("bench")
    stack.callback(relay.close)
    carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    carrier.connect(bytes(links.open("there", peer).reach(DOOR)))
    relay.attach(carrier)
    front = TcpPort(relay, Served("tcp", server, 0))
    stack.callback(front.close)
    return front.port


def _forward(stack: contextlib.ExitStack, peer: Peer, server: int) -> int:
    """The local port that ssh forwards to the server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        local = int(probe.getsockname()[1])
    files = ["-i", str(peer.identity), "-o", f"UserKnownHostsFile={peer.known_hosts}"]
    forward = ["-N", "-L", f"127.0.0.1:{local}:127.0.0.1:{server}", "-p", str(peer.port)]
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


if __name__ == "__main__":
    client(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]))
