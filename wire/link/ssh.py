# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A link to another machine: one `ssh -T` process, at whose other end is a `door`.

All streams of a link are in one channel of one TCP connection. sshd forwards nothing for it and
runs nothing but the door.

Streams share the TCP connection in the order in which bytes arrive, so an operation waits behind
the chunks that ssh and the kernel have already taken. Measured at 1.5 Mb/s with a queue of 100 ms:
3.1 s behind a stream on the same link, 0.09 s on a link of its own; at 20 Mb/s 0.34 and 0.014 s. So
open two links to a host, one per Lane, where both happen at once, and keep few bytes asked for at
a time where one batch of chunks may have to overtake another. A link never connects again by
itself: make a new one.

    CONNECTING --wait_ready--> READY --the connection ends--> BROKEN
         any --close--> CLOSED
"""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from satchel.errors import NotFoundError, SatchelError, StateError, UnavailableError
from satchel.paths import SOCKET_PATH_LIMIT
from satchel.polling import FAST_POLL_SECONDS
from wire.errors import HostUnreachable, RemoteProtocolError, printable
from wire.link.door import connected
from wire.link.liveness import Liveness
from wire.link.multiplex import HELLO_SECONDS, Multiplexer, MuxKind
from wire.link.openssh import (
    Lane,
    SshHost,
    Tail,
    answers,
    end_process,
    failure_of,
    ssh_argv,
    start_ssh,
)
from wire.ports.listening import listen_unix

_SILENT_SECONDS = 2.0
"""A host with which there is no connection after so long is asked whether it answers at all: nobody
waits for one that is silent as long as for one that is slow."""

_OFFER_SECONDS = 20.0
_VERDICT_SECONDS = 0.5
_TOKEN_LENGTH = 16


class LinkState(Enum):
    CONNECTING = "connecting"
    READY = "ready"
    BROKEN = "broken"
    CLOSED = "closed"


class SshLink:
    """One connection to one host. Made by `start` or `open`; any thread may call."""

    def __init__(
        self,
        host: SshHost,
        process: subprocess.Popen[bytes],
        pipe: int,
        keep_alive: float,
        connect_timeout: float,
    ) -> None:
        """Its own from here on: the process, and the descriptor of its standard input and
        output."""
        self.host = host
        self._process = process
        self._state = LinkState.CONNECTING
        self._state_lock = threading.Lock()
        self._closing = threading.Lock()
        self._here: list[Path] = []  # sockets that lead there
        self._offered: dict[str, _Offer] = {}
        self._said = Tail(process)
        self._streams = Multiplexer(
            pipe,
            pipe,
            opens=1,
            connect=self._connected,
            asked=self._answered,
            liveness=Liveness(keep_alive),
            hello_seconds=max(HELLO_SECONDS, connect_timeout),
        )
        self._carrier = threading.Thread(
            target=self._carry, name=f"streams-{host.name}", daemon=True
        )
        self._carrier.start()

    @classmethod
    def start(
        cls,
        host: SshHost,
        *,
        lane: Lane = Lane.OPERATIONS,
        keep_alive: float = 15.0,
        connect_timeout: float = 10.0,
    ) -> SshLink:
        """Start connecting; `wait_ready` says how it went.

        keep_alive: seconds of silence after which the connection is given up. Raises NotFoundError
        for a missing key or known_hosts file, UnsupportedError without ssh.
        """
        _require_keys(host)
        mine, its = socket.socketpair()
        with its:
            try:
                process = start_ssh(ssh_argv(host, lane, connect_timeout), its)
            except BaseException:
                mine.close()
                raise
        return cls(host, process, mine.detach(), keep_alive, connect_timeout)

    @classmethod
    def open(
        cls,
        host: SshHost,
        *,
        lane: Lane = Lane.OPERATIONS,
        keep_alive: float = 15.0,
        timeout: float = 20.0,
    ) -> SshLink:
        """`start` and `wait_ready`."""
        link = cls.start(host, lane=lane, keep_alive=keep_alive, connect_timeout=timeout)
        link.wait_ready(timeout)
        return link

    @property
    def state(self) -> LinkState:
        return self._change()

    def alive(self) -> bool:
        """Whether the connection stands, as far as is known: see `keep_alive`."""
        return self.state is LinkState.READY

    def wait_ready(self, timeout: float) -> None:
        """Return when the connection stands and a door answered.

        Raises WrongKey, HostKeyMismatch, HostUnreachable (also after `timeout` seconds, or a few
        where nothing answers at all); the link is closed then.
        """
        try:
            self._await_door(timeout)
            self._change(LinkState.READY)
        except BaseException:
            self.close(gone=True)
            raise

    def fall_silent(self) -> None:
        """Say nothing any more of one's own accord; the connection stays, if its ends do, and who
        is not there any more is not missed. What is asked still goes: `wake` before."""
        self._streams.fall_silent()

    def wake(self) -> None:
        """Find out, along with what is asked next, whether the connection is still of use: it
        breaks soon where it is not. Harmless where it is not silent."""
        self._streams.wake()

    def reach(self, local: Path, name: str) -> None:
        """Carry connections to the socket `local`, made here with mode 0600, to what the door
        there knows by that name.

        Whether anybody listens there shows with the first connection: it ends. Raises
        ConflictError if somebody answers at `local`, StateError or HostUnreachable if the link is
        not ready.
        """
        self._require_ready()
        self._streams.listen(listen_unix(local), name)
        self._here.append(local)

    def offer(self, sockets: Mapping[str, Path]) -> dict[str, str]:
        """Let the peer reach sockets of this host, each by a token of its own; the paths there, at
        which the door listens until the link ends.

        Raises UnavailableError if the host refuses, StateError or HostUnreachable if the link is
        not ready.
        """
        self._require_ready()
        asked = {token: _Offer(local) for token, local in sockets.items()}
        self._offered |= asked
        for token in asked:
            self._streams.ask(MuxKind.OFFER, token.encode("ascii"))
        deadline = time.monotonic() + _OFFER_SECONDS
        for offer in asked.values():
            while not offer.answered.wait(FAST_POLL_SECONDS):
                self._require_ready()
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{self.host.name}: nothing can be offered there now")
            if not offer.path:
                raise UnavailableError(
                    f"{self.host.name} refuses the offered socket", why=offer.why
                )
        return {token: offer.path for token, offer in asked.items()}

    def close(self, *, gone: bool = False) -> None:
        """End the connection, its process and its sockets on both sides. Never fails.

        The door removes its sockets; it is not waited for where the caller knows that the
        connection is `gone`, as after a move to another network.
        """
        with self._closing:
            if self.state is LinkState.CLOSED:
                return
            self._change(LinkState.CLOSED)
            self._streams.end()
            self._carrier.join()
            end_process(self._process, gone=gone)
            self._said.join()
            for path in self._here:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def __enter__(self) -> SshLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry(self) -> None:
        self._streams.run()
        if self._streams.failure:
            self._process.kill()  # it would wait for who is not there
        self._change()

    def _change(self, to: LinkState | None = None) -> LinkState:
        """The state as it is now, after the step to `to` if there is one from here."""
        with self._state_lock:
            if to is LinkState.CLOSED or (to and self._state is LinkState.CONNECTING):
                self._state = to
            ended = self._process.poll() is not None or not self._carrier.is_alive()
            if self._state is LinkState.READY and ended:
                self._state = LinkState.BROKEN
            return self._state

    def _connected(self, name: str) -> socket.socket:
        """What the door opens: a connection to what was offered, and to nothing else."""
        offer = self._offered.get(name)
        if offer is None:
            raise RemoteProtocolError(f"{self.host.name} asked for a socket that was not offered")
        return connected(offer.local)

    def _answered(self, kind: MuxKind, payload: bytes) -> None:
        token, said = payload[:_TOKEN_LENGTH].decode("ascii", "replace"), payload[_TOKEN_LENGTH:]
        offer = self._offered.get(token)
        if kind is MuxKind.OFFER or offer is None or offer.answered.is_set():
            raise RemoteProtocolError(f"{self.host.name} answered no offer")
        text = said.decode("utf-8", "replace")
        if kind is MuxKind.REFUSED:
            offer.why = printable(text, 200)
        elif text.startswith("/") and len(said) <= SOCKET_PATH_LIMIT and text.isprintable():
            offer.path = text
        else:
            raise RemoteProtocolError(f"{self.host.name} named no path of a socket")
        offer.answered.set()

    def _await_door(self, timeout: float) -> None:
        began = time.monotonic()
        deadline, look_at = began + timeout, began + _SILENT_SECONDS
        place = f"{self.host.destination} port {self.host.port}"
        while not self._streams.agreed.wait(FAST_POLL_SECONDS):
            if time.monotonic() > deadline:
                why = f"{place}: no end in {timeout:.0f} s"
            elif time.monotonic() > look_at:
                look_at = math.inf
                if answers(self.host.destination, self.host.port):
                    continue
                why = f"{place}: nothing answers there"
            else:
                continue
            raise HostUnreachable(f"cannot connect to {self.host.name}", why=why)
        if not self._streams.version:
            raise self._no_door()

    def _no_door(self) -> SatchelError:
        """Why there is no connection: ssh's own word, or that of what runs there instead."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_VERDICT_SECONDS)
        self._said.join(_VERDICT_SECONDS)
        failure = self._streams.failure
        if failure is None and self._process.poll() == _SSH_FAILED:
            return failure_of(self.host, self._said.text())
        said = self._said.text()[-500:] or (failure.why if failure else "")
        return HostUnreachable(
            f"cannot connect to {self.host.name}",
            why=f"no door answers there: {said}",
            fix="its operator puts in force what `sshd-config` of its program prints",
        )

    def _require_ready(self) -> None:
        state = self.state
        if state is LinkState.BROKEN:
            raise self._broken()
        if state is not LinkState.READY:
            raise StateError(f"the link to {self.host.name} is {state.value}", why="not ready")

    def _broken(self) -> SatchelError:
        failure = self._streams.failure
        why = self._said.text()[-500:] or str(failure or "the connection ended")
        return HostUnreachable(f"the link to {self.host.name} broke", why=why, fix="connect again")


class _Offer:
    def __init__(self, local: Path) -> None:
        self.local = local
        self.answered = threading.Event()
        self.path = ""
        self.why = ""


_SSH_FAILED = 255
"""What ssh ends with itself; else it ends with what the door ended with."""


def _require_keys(host: SshHost) -> None:
    for file, fix in (
        (host.identity, "it is the private key that may log in there: ssh-keygen makes one"),
        (host.known_hosts, "it has the hosts' public keys: compare what ssh-keyscan prints"),
    ):
        if not file.exists():
            raise NotFoundError(f"cannot connect to {host.name}", why=f"no file {file}", fix=fix)
