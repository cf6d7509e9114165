# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""OpenSSH connections to daemons of other hosts, made again when they break.

A person moves: the connection from the old address hears nothing more, and TCP notices only after
minutes. A link's watcher therefore looks from which address the peer would be reached now, whenever
the kernel tells of another address or route, and twice a second. It connects again as soon as that
is another one, or the connection has ended. The old connection is cut: who waits for an answer over
it is told at once.

A link carries requests. Chunks that a surrogate fetches travel on a link of their own, so that an
operation never waits behind a bulk transfer in one TCP connection's queue.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.errors import SatchelError, StateError, UnavailableError
from wire.errors import PeerTimeout
from wire.http.client import HttpClient
from wire.link.door import API
from wire.link.openssh import Lane, SshHost, answers
from wire.link.peers import Peer
from wire.link.route_watch import RouteWatch
from wire.link.ssh import LinkState, SshLink

if TYPE_CHECKING:
    from flask import Flask

    from wire.http.server import Server

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.5

RETRY_SECONDS = 2.0
"""Between the watcher's attempts to connect to a peer that does not answer."""

KEEP_ALIVE_SECONDS = 9.0

SELDOM_SECONDS = 900.0
"""Likewise, of a link that may stand idle for hours: every beat wakes a mobile's radio. Who asks
over it has a timeout, and has it made anew when that is over."""

SOURCE_THREADS = 16
"""Requests for chunks that are served at once: as many as one surrogate has under way."""

SOURCE_MAX_BODY = 1 << 20

Reached = Callable[[Peer], Peer]
"""From a host of the settings to the same one where it is reached now."""


def as_written(peer: Peer) -> Peer:
    """Return the host as the settings have it."""
    return peer


class Link:
    """One OpenSSH connection to a daemon, and the requests over it. Thread-safe.

    http: the daemon; its calls raise UnavailableError while the connection does not stand
    """

    def __init__(
        self,
        name: str,
        peer: Peer,
        run: Path,
        lane: Lane,
        stream: str = API,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        reached: Reached = as_written,
    ) -> None:
        """Begin to watch; `connect` says whether it works. run: the folder of its sockets; stream:
        what `http` asks there; keep_alive: seconds of silence after which it is given up; reached:
        asked at each attempt, returns at once"""
        self._keep_alive, self._reached_at = keep_alive, reached
        self.name = name
        self._peer = self._at = peer
        self._lane = lane
        self._run = run
        self._socket = run / f"{name}.api"
        self._servers: list[Server] = []
        self._reached = {self._socket: stream}  # sockets here, and the streams that they lead to
        self._lent: dict[str, Path] = {}  # sockets here that the peer reaches, by token
        self._connecting = threading.Lock()
        self._ssh: SshLink | None = None
        self._route = _Route(peer)
        self._wanted = self._resting = False
        self._closing = threading.Event()
        self._attention = threading.Event()
        self.http = HttpClient(self._socket, peer=name)
        self._watcher = threading.Thread(target=self._watch, name=f"link-{name}", daemon=True)
        self._watcher.start()

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known: nobody looks while it rests."""
        return self._ssh is not None and self._ssh.alive()

    @property
    def resting(self) -> bool:
        """Whether nothing is said over it until somebody wants it: see `rest`."""
        return self._resting

    @property
    def lost_seconds(self) -> float:
        """Seconds without an answer after which what runs at the peer is given up."""
        return self._peer.lost_seconds

    @property
    def socket(self) -> Path:
        """Where the daemon is reached on this host, while the connection stands."""
        return self._socket

    def answers(self) -> bool:
        """Whether anything answers at the peer's host, looked at now, in 2 s at most: for who would
        wait for it otherwise, as a connection to a host that went silent stands for a while."""
        return answers(self._at.destination, self._at.port)

    def stands(self, timeout: float) -> bool:
        """Whether the connection stands, as far as anybody knows. One that is being made, as after
        a walk, is waited for, in seconds."""
        if self._connecting.acquire(timeout=timeout):
            self._connecting.release()
        return self.alive

    def connect(self) -> None:
        """Have a connection from where this device is now. Raises HostUnreachable, WrongKey,
        HostKeyMismatch."""
        with self._connecting:
            self._have(moved=self._route.has_changed())

    def post_json(self, path: str, body: Any, *, timeout: float) -> Any:
        """Post what may be done twice: again, over a new connection, where there is none any more,
        as after a walk. Raises what the daemon raises, and as `connect` and a request do."""
        try:
            return self.http.post_json(path, body, timeout=timeout)
        except PeerTimeout:
            raise
        except UnavailableError:
            self.connect()
            return self.http.post_json(path, body, timeout=timeout)

    def want(self) -> None:
        """Have a connection soon, or whenever it can be had. Returns at once, never fails."""
        self._wanted = True
        self.look()

    def look(self) -> None:
        """Look now whether the connection is still of use. Returns at once, never fails."""
        self._attention.set()

    def rest(self) -> None:
        """Say nothing until somebody wants the connection again (`connect`, `want`). It stays,
        where nobody on the way forgets it; what is reached and lent stays known."""
        with self._connecting:
            self._wanted, self._resting = False, True
            self.http.drop_idle()
            if self._ssh:
                self._ssh.fall_silent()

    def cut(self) -> None:
        """End the connection until somebody wants one again; what is reached and lent stays known.
        Who waits for an answer is told."""
        with self._connecting:
            self._wanted = False
            if self._ssh:
                self._ssh.close()

    def offer(self, name: str, app: Flask) -> str:
        """Let the peer ask `app` for chunks, for as long as the link is open; the path of the
        socket there. As `lend`."""
        from wire.http.server import serve  # most commands offer nothing

        with self._connecting:
            self._require_connection(name)
            local = self._run / f"{self.name}.{name}"
            server = serve(app, local, threads=SOURCE_THREADS, max_body=SOURCE_MAX_BODY)
            try:
                path = self._lend(local)
            except BaseException:
                server.close(grace=0.0)
                raise
            self._servers.append(server)
            return path

    def reach(self, stream: str) -> Path:
        """A Unix socket on this host, at which a stream of the peer's host is reached while the
        connection stands. `connect` and `want` say when that is.

        stream: its name, to which nobody need listen there yet
        """
        word = hashlib.sha256(stream.encode()).hexdigest()[:8]
        local = self._run / f"{self.name}.{word}"
        with self._connecting:
            if self._closing.is_set():
                raise StateError(f"the link to {self.name} is closed")
            if local not in self._reached:
                self._reached[local] = stream
                if self.alive and self._ssh:
                    self._ssh.reach(local, stream)
        return local

    def lend(self, name: str, local: Path) -> str:
        """Let the peer reach a Unix socket of this host, whoever listens there, for as long as the
        link is open; the path of the socket there, in a folder of the door's.

        name: for messages. Raises StateError without a connection, UnavailableError where the peer
        refuses.
        """
        with self._connecting:
            self._require_connection(name)
            return self._lend(local)

    def close(self, *, gone: bool = False) -> None:
        """End the connection and what was offered over it; leaves no process and no socket.

        A thread that is connecting gets a StateError, one that waits for an answer an
        UnavailableError. gone: the peer does not answer, and is not asked to put anything away.
        """
        self._closing.set()
        self._attention.set()
        self.http.close()
        if self._ssh:
            self._ssh.close(gone=gone)
        self._watcher.join()
        with self._connecting:
            if self._ssh:
                self._ssh.close()
            servers, self._servers = self._servers, []
        for server in servers:
            server.close(grace=0.0)

    def _require_connection(self, name: str) -> None:
        if self._closing.is_set() or self._ssh is None:
            raise StateError(f"cannot offer {name} to {self.name}", why="not connected")

    def _lend(self, local: Path) -> str:
        assert self._ssh is not None
        token = secrets.token_hex(8)
        path = self._ssh.offer({token: local})[token]
        self._lent[token] = local
        return path

    def _have(self, *, moved: bool) -> None:
        """A connection that says beats: the one that there is, or a new one."""
        if self.alive and not moved and self._ssh:
            if self._resting:
                self._ssh.wake()
            self._wanted, self._resting = True, False
        else:
            self._connect()

    def _connect(self) -> None:
        self._wanted, self._resting = True, False
        if self._ssh:
            self._ssh.close(gone=True)
        at = self._reached_at(self._peer)
        if at != self._at:
            self._at, self._route = at, _Route(at)
        self._route.learn()
        host = SshHost.of(self.name, at)
        self._ssh = SshLink.start(
            host,
            lane=self._lane,
            keep_alive=self._keep_alive,
            connect_timeout=self._peer.connect_seconds,
        )
        if self._closing.is_set():
            self._ssh.close()
            raise StateError(f"the link to {self.name} is closed")
        self._ssh.wait_ready(self._peer.connect_seconds)
        try:
            for local, stream in self._reached.items():
                self._ssh.reach(local, stream)
            self._ssh.offer(self._lent)
        except BaseException:
            self._ssh.close()
            raise

    def _watch(self) -> None:
        pause, said = WATCH_SECONDS, ""
        while not self._closing.is_set():
            self._attention.wait(pause)
            self._attention.clear()
            try:
                self._look()
                pause, said = WATCH_SECONDS, ""
            except SatchelError as error:
                pause = RETRY_SECONDS
                if str(error) != said:
                    logger.info("%s: %s", self.name, error)
                said = str(error)

    def _look(self) -> None:
        """Connect if that is wanted and the connection that there is, if any, is of no use."""
        ssh = self._ssh
        if ssh and ssh.state is LinkState.CONNECTING and self._route.has_changed():
            ssh.close(gone=True)  # whoever waits for it would wait in vain
        if not self._wanted:
            return
        with self._connecting:
            moved = self._route.has_changed()
            if self._closing.is_set() or (self.alive and not moved and not self._resting):
                return
            if ssh and (moved or not self.alive):
                cause = "this device has a new address" if moved else "the connection has ended"
                logger.info("%s: %s, connecting again", self.name, cause)
            self._have(moved=moved)


class Links:
    """Every link of one program, by name. Thread-safe."""

    def __init__(
        self,
        run: Path,
        *,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        reached: Reached = as_written,
    ) -> None:
        """run: the folder of the links' sockets, which is this object's alone; keep_alive, reached:
        see Link"""
        self._run, self._keep_alive, self._reached = run, keep_alive, reached
        self._run.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._routes = RouteWatch(self._look)

    def __enter__(self) -> Links:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(
        self, name: str, peer: Peer, lane: Lane = Lane.OPERATIONS, *, stream: str = API
    ) -> Link:
        """The link of that name, made if there is none; connected or not. stream: see Link."""
        with self._lock:
            if name not in self._links:
                more = (stream, self._keep_alive, self._reached)
                self._links[name] = Link(name, peer, self._run, lane, *more)
            return self._links[name]

    def open(self, name: str, peer: Peer, lane: Lane = Lane.OPERATIONS) -> Link:
        """The same, connected. Raises HostUnreachable, WrongKey, HostKeyMismatch."""
        link = self.get(name, peer, lane)
        link.connect()
        return link

    def drop(self, name: str, *, gone: bool = False) -> None:
        """Close a link, if there is one of that name. gone: see Link."""
        with self._lock:
            link = self._links.pop(name, None)
        if link:
            link.close(gone=gone)

    def close(self) -> None:
        """Close every link, all at once."""
        self._routes.close()
        with self._lock:
            links, self._links = self._links, {}
        closers = [threading.Thread(target=link.close) for link in links.values()]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        shutil.rmtree(self._run, ignore_errors=True)

    def _look(self) -> None:
        with self._lock:
            links = list(self._links.values())
        for link in links:
            link.look()


class _Route:
    """From which address of this device a peer is reached."""

    def __init__(self, peer: Peer) -> None:
        self._host = peer.host
        self._port = peer.port
        self._peer: Any = None
        self._family = socket.AF_INET
        self._address: str | None = None

    def learn(self) -> None:
        """Note it, at the moment of connecting. Asks the resolver once, not at every look."""
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
            self._family, self._peer = found[0], found[4]
        self._address = self._now()

    def has_changed(self) -> bool:
        """Whether it is another one now. Without any route it has not changed."""
        return self._now() not in (None, self._address)

    def _now(self) -> str | None:
        if self._peer is None:
            return None
        with (
            contextlib.suppress(OSError),
            socket.socket(self._family, socket.SOCK_DGRAM) as probe,
        ):
            probe.connect(self._peer)
            return str(probe.getsockname()[0])
        return None
