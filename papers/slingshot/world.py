# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's cache, a client's media and a home, with emulated links in between.

As in a session, the surrogate reaches both through the client: the media over the hotspot's Wi-Fi,
home over that and home's uplink. What carries the bytes here is one TCP connection for each of
HTTP's, in place of SSH's forwarded sockets. What each holds is made up from a recorded trace.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flask import Flask

from chunkstore import Store, TableRoot
from client import ActivityGate, PathRate, media_app, relay_app
from media import Media
from papers.workloads.recording import Trace
from replica import Profile as AccessProfile
from replica import Run, encode_profile, encode_working_set
from satchel.ids import BLOCK_SIZE
from testbed import Host, LinkProfile, Testbed
from wire import ChunkClient, HttpClient, serve

HOTSPOT = "a"
PORT = 7000
SOCKETS = ("h", "hc", "r", "m", "sm", "sh")
THREADS = 16
MAX_BODY = 1 << 20
SEED = 20


@dataclass(frozen=True)
class Origin:
    """What home and the stick hold: volumes by name, a working set, and the profile it is from."""

    store: Store
    media: Media
    roots: dict[str, TableRoot]
    working_set: TableRoot
    profile: TableRoot | None = None


@dataclass(frozen=True)
class World:
    """The sockets at the surrogate that lead to the stick and to home."""

    media: Path
    home: Path


def make_origin(folder: Path, trace: Trace, profile: AccessProfile | None = None) -> Origin:
    """A store and a stick with the volumes of a trace, and the working set of a profile, by default
    that of the trace."""
    store = Store.create(folder / "origin")
    roots = {name: store.import_file(_volume(folder, trace, name)) for name in trace.volumes}

    def content(run: Run) -> bytes:
        return store.read(roots[run.volume], run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

    runs = [Run(t.volume, t.first, t.count) for t in trace.touches]
    parts = profile.foreseen() if profile else [runs]
    blob = store.import_bytes(encode_working_set(parts, content))
    learnt = store.import_bytes(encode_profile(profile)) if profile else None
    (folder / "stick").mkdir()
    media = Media.init(folder / "stick")
    media.add(store, store.reachable([*roots.values(), blob, *([learnt] if learnt else [])]))
    return Origin(store, media, roots, blob, learnt)


def _volume(folder: Path, trace: Trace, name: str) -> Path:
    """A sparse file with content where the trace has it: half of each block is compressible."""
    path = folder / name
    content = random.Random(f"{SEED} {name}")
    with path.open("wb") as file:
        file.truncate(trace.volumes[name] * BLOCK_SIZE)
        for block in sorted(trace.data[name]):
            file.seek(block * BLOCK_SIZE)
            file.write(content.randbytes(BLOCK_SIZE // 2) + b"the other half " * 136 + b"........")
    return path


@contextlib.contextmanager
def world(folder: Path, profile: LinkProfile, origin: Origin) -> Iterator[World]:
    """Links of a profile with the origin behind them. Needs root."""
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(Testbed(profile, hotspots=(HOTSPOT,)))
        client, home = bed.client, bed.host("home")
        surrogate = bed.host(f"surrogate-{HOTSPOT}")
        operations, way = ActivityGate(), PathRate()
        at_home = _serve(stack, folder / "h", _chunks_of(origin.store, operations, way))
        far = _door(stack, home, at_home)
        near_home = _window(stack, folder / "hc", client, far)
        http = stack.enter_context(HttpClient(near_home))
        at_client = _serve(stack, folder / "r", relay_app(ChunkClient(http), operations, way))
        at_stick = _serve(stack, folder / "m", _chunks_of(origin.media, operations, way))
        relay = _door(stack, client, at_client, PORT + 1)
        yield World(
            media=_window(stack, folder / "sm", surrogate, _door(stack, client, at_stick)),
            home=_window(stack, folder / "sh", surrogate, relay),
        )


def _chunks_of(source: Store | Media, operations: ActivityGate, way: PathRate) -> Flask:
    """Serve the chunks of a store or a medium, as the client does for its stick."""
    return media_app(source, operations, way)


def _serve(stack: contextlib.ExitStack, path: Path, app: Flask) -> Path:
    stack.enter_context(serve(app, path, threads=THREADS, max_body=MAX_BODY))
    return path


def _door(
    stack: contextlib.ExitStack, host: Host, target: Path, port: int = PORT
) -> tuple[str, int]:
    """A TCP port of a host that leads to a Unix socket."""
    listener = host.socket(socket.SOCK_STREAM)
    listener.bind((host.address, port))

    def connect() -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(target))
        return end

    stack.callback(_forward(listener, connect))
    return host.address, port


def _window(stack: contextlib.ExitStack, path: Path, host: Host, target: tuple[str, int]) -> Path:
    """A Unix socket that leads to a TCP port which a host reaches."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))

    def connect() -> socket.socket:
        end = host.socket(socket.SOCK_STREAM)
        end.connect(target)
        return end

    stack.callback(_forward(listener, connect))
    return path


def _forward(listener: socket.socket, connect: Callable[[], socket.socket]) -> Callable[[], None]:
    """Carry connections on, in threads; what ends that."""
    listener.listen(64)
    ends: list[socket.socket] = [listener]

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = connect()
            except OSError:
                return
            ends.extend((near, far))
            for source, sink in ((near, far), (far, near)):
                if source.family == socket.AF_INET:
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_carry, args=(source, sink), daemon=True).start()

    def close() -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    threading.Thread(target=accept, daemon=True).start()
    return close


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
