# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The OpenSSH connections to home and to surrogates, made again when they break.

A person moves: the connection from the old address hears nothing more, and TCP notices only after
minutes. A watcher therefore looks twice a second from which address a peer would be reached now,
and makes the connection again as soon as that is another one.

A link carries requests. Chunks that a surrogate fetches travel on a link of their own, so that an
operation never waits behind a bulk transfer in one TCP connection's queue.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client.settings import ClientSettings, Peer
from client.sources import Provider, source_app
from satchel.errors import SatchelError
from wire import HttpClient, Lane, Server, SshHost, SshLink, serve

logger = logging.getLogger(__name__)

READ_SECONDS = 60.0

WATCH_SECONDS = 0.5

KEEP_ALIVE_SECONDS = 9.0

SOURCE_THREADS = 4

SOURCE_MAX_BODY = 1 << 20


class Link:
    """One OpenSSH connection to a daemon, and the requests over it. Thread-safe."""

    def __init__(self, name: str, peer: Peer, run: Path, lane: Lane) -> None:
        """Connect. Raises HostUnreachable, WrongKey, HostKeyMismatch."""
        self.name = name
        self._peer = peer
        self._lane = lane
        self._run = run
        self._socket = run / f"{name}.api"
        self._offers: dict[Path, str] = {}
        self._servers: list[Server] = []
        self._lock = threading.Lock()
        self._closed = False
        self._ssh = self._connect()
        self.http = HttpClient(self._socket, peer=name)

    def get_json(self, path: str, *, timeout: float | None = READ_SECONDS) -> Any:
        return self.http.get_json(path, timeout=timeout)

    def get_bytes(self, path: str) -> bytes:
        return self.http.get_bytes(path)

    def post_json(self, path: str, value: Any, *, timeout: float | None = READ_SECONDS) -> Any:
        return self.http.post_json(path, value, timeout=timeout)

    def delete(self, path: str) -> Any:
        return self.http.delete(path)

    def post_bytes(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = READ_SECONDS,
    ) -> bytes:
        return self.http.post_bytes(path, body, headers=headers, timeout=timeout, idempotent=True)

    def offer(self, name: str, provider: Provider, folder: str) -> str:
        """Let the peer fetch chunks from `provider`; the path of the socket there.

        folder: the peer's folder for forwarded sockets
        """
        local = self._run / f"{self.name}.{name}"
        remote = f"{folder}/{socket.gethostname()[:16]}-{id(self) & 0xFFFFFF:x}-{name}"
        app = source_app(provider)
        server = serve(app, local, threads=SOURCE_THREADS, max_body=SOURCE_MAX_BODY)
        with self._lock:
            self._servers.append(server)
            self._offers[local] = remote
            self._ssh.forward_remote(remote, local)
        return remote

    def ensure(self) -> None:
        """Connect again unless the connection is alive. Raises what connecting raises."""
        with self._lock:
            if self._closed or self._ssh.alive():
                return
            self._reconnect()

    def follow(self) -> None:
        """Connect again if the peer is reached from another address than before."""
        with self._lock:
            if self._closed or _address_towards(self._peer) in (None, self._address):
                return
            logger.info("%s: this device has a new address, connecting again", self.name)
            self._reconnect()

    def close(self) -> None:
        """End the connection and what was offered over it; leaves no process and no socket."""
        with self._lock:
            self._closed = True
            self.http.close()
            self._ssh.close()
            for server in self._servers:
                server.close()

    def _reconnect(self) -> None:
        self._ssh.close(gone=True)
        self._ssh = self._connect()

    def _connect(self) -> SshLink:
        self._address = _address_towards(self._peer)
        host = SshHost(
            name=self.name,
            destination=self._peer.destination,
            port=self._peer.port,
            identity=self._peer.identity,
            known_hosts=self._peer.known_hosts,
        )
        return SshLink.open(
            host,
            self._run,
            lane=self._lane,
            forwards_local={self._socket: self._peer.socket},
            forwards_remote={remote: local for local, remote in self._offers.items()},
            keep_alive=KEEP_ALIVE_SECONDS,
        )


class Links:
    """Every link of one program of a client, by name. Thread-safe."""

    def __init__(self, settings: ClientSettings, program: str) -> None:
        """program: names the folder of the links' sockets"""
        self._run = settings.run / "l" / program
        self._run.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="links", daemon=True)
        self._watcher.start()

    def __enter__(self) -> Links:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, name: str, peer: Peer, lane: Lane = Lane.OPERATIONS) -> Link:
        """The link of that name, connected if there is none yet."""
        with self._lock:
            if name not in self._links:
                self._links[name] = Link(name, peer, self._run, lane)
            return self._links[name]

    def drop(self, name: str) -> None:
        """Close a link, if there is one of that name."""
        with self._lock:
            link = self._links.pop(name, None)
        if link:
            link.close()

    def close(self) -> None:
        self._closing.set()
        self._watcher.join()
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link.close()
        shutil.rmtree(self._run, ignore_errors=True)

    def _watch(self) -> None:
        while not self._closing.wait(WATCH_SECONDS):
            with self._lock:
                links = list(self._links.values())
            for link in links:
                try:
                    link.follow()
                except SatchelError as error:
                    logger.info("%s: %s", link.name, error)


def _address_towards(peer: Peer) -> str | None:
    """The address of this device that a connection to `peer` would come from; None: no route."""
    host = peer.destination.rpartition("@")[2]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, peer.port))
        return str(probe.getsockname()[0])
    return None
