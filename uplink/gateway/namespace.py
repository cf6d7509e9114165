# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One program in namespaces of its own, whose connections all come here (`satchel uplink run
--namespace`).

In its network namespace there is nothing but the loopback interface. The kernel redirects each TCP
connection that is not meant for that to a listener of ours, and names are answered by us. A
connection with a service of the settings goes to the daemon, which ends its TLS by a certificate of
this run's authority. Any other one is tunnelled, byte for byte, and the daemon is told only how
much crossed the link. So is one with a service whose certificate the program does not take.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from satchel.errors import UnsupportedError
from uplink.gateway import inside
from uplink.gateway.authority import BUNDLE, SYSTEM_STORE, VARIABLES, RunAuthority
from uplink.gateway.entries import hand_over
from uplink.gateway.resolver import DnsResolver
from uplink.gateway.tunnel import tunnel
from wire import Acceptor

CONNECT_SECONDS = 20.0
SETUP_SECONDS = 20.0
REPORT_SECONDS = 0.5

Report = Callable[[float, int, int], None]
"""Told of seconds until now in which bytes went up and down past uplink."""

_ORIGINAL = struct.Struct(">HH4s8x")
_SO_ORIGINAL_DST = 80


def run_in_namespace(
    words: Iterable[str],
    environment: Mapping[str, str],
    urls: Iterable[str],
    entries: Path,
    report: Report,
) -> int:
    """Run the program until it ends; its exit code as a shell has it. urls: of the services;
    entries: the daemon's socket. Raises UnsupportedError where there are no such namespaces here,
    OSError."""
    services = {place: secure for place, secure in map(_place, urls)}
    secure = [host for (host, _), is_secure in services.items() if is_secure]
    authority = RunAuthority(secure) if secure else None
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-run-")))
        mounts, more = _prepare(folder, authority)
        ours, theirs = socket.socketpair()
        stack.callback(ours.close)
        program = _start(words, {**environment, **more}, mounts, theirs)
        ours.settimeout(SETUP_SECONDS)
        message, (listener, names), _, _ = _received(ours, program)
        resolver = DnsResolver(socket.socket(fileno=names))
        stack.callback(resolver.close)
        past = _BypassMeter(report)
        stack.callback(past.close)
        ways = _Ways(services, authority, resolver, entries, program.pid, past)
        acceptor = Acceptor(socket.socket(fileno=listener), ways.adopt, "uplink way in")
        acceptor.start()
        stack.callback(acceptor.close)
        with _signals_for(program):
            ours.sendall(message[:1])
            code = program.wait()
        return code if code >= 0 else 128 - code


def _place(url: str) -> tuple[tuple[str, int], bool]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return (parts.hostname or "", parts.port or (443 if secure else 80)), secure


def _prepare(
    folder: Path, authority: RunAuthority | None
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Files of the run; where they are mounted, and what the environment says of them."""
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n::1 localhost\n")
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    places = [(folder / name, Path("/etc") / name) for name in _FILES]
    for source, _ in places:
        source.chmod(0o644)
    more = {}
    if authority is not None:
        store = folder / "certificates"
        authority.make_store(store)
        places.append((store, SYSTEM_STORE))
        seen = SYSTEM_STORE if SYSTEM_STORE.is_dir() else store
        more = dict.fromkeys(VARIABLES, str(seen / BUNDLE)) | {"SSL_CERT_DIR": str(seen)}
    return [(str(source), str(place)) for source, place in places if place.exists()], more


_FILES = ("resolv.conf", "hosts", "nsswitch.conf")


def _start(
    words: Iterable[str],
    environment: Mapping[str, str],
    mounts: list[tuple[str, str]],
    channel: socket.socket,
) -> subprocess.Popen[bytes]:
    """Closes the channel, which the program's beginning has then."""
    user, group = os.geteuid(), os.getegid()
    order = {
        "channel": channel.fileno(),
        "mounts": mounts,
        "account": [user, group] if user else None,
        "words": list(words),
    }
    unshare = ["unshare", "--net", "--mount", "--propagation", "private"]
    unshare += ["--user", "--map-root-user"] if user else []
    python = [sys.executable, "-I", "-S", inside.__file__, json.dumps(order)]
    with channel:
        try:
            return subprocess.Popen(
                [*unshare, "--", *python], env=environment, pass_fds=[channel.fileno()]
            )
        except FileNotFoundError as error:
            raise UnsupportedError("cannot make namespaces", why=str(error)) from error


def _received(
    ours: socket.socket, program: subprocess.Popen[bytes]
) -> tuple[bytes, list[int], int, object]:
    try:
        found = socket.recv_fds(ours, 16, 2)
        if len(found[1]) == 2:
            return found
        why = "what it says is above"
    except OSError as error:
        why = str(error)
    program.kill()
    program.wait()
    raise UnsupportedError(
        "cannot make namespaces for the program",
        why=why,
        fix="allow user namespaces, install nftables and iproute2, or leave --namespace out",
    )


@contextlib.contextmanager
def _signals_for(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """The program decides what ends it; the terminal tells it by itself."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGQUIT: signal.signal(signal.SIGQUIT, signal.SIG_IGN),
    }
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, lambda it, _: program.send_signal(it))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _BypassMeter:
    """Adds up what goes past uplink, and reports it while there is any."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._guard = threading.Lock()
        self._up = self._down = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="uplink past", daemon=True)
        self._thread.start()

    def counted(self, up: int, down: int) -> None:
        with self._guard:
            self._up += up
            self._down += down

    def close(self) -> None:
        """What was counted last is reported still."""
        self._ended.set()
        self._thread.join()

    def _tell(self) -> None:
        last, ended = time.monotonic(), False
        while not ended:
            ended = self._ended.wait(REPORT_SECONDS)
            with self._guard:
                up, down, self._up, self._down = self._up, self._down, 0, 0
            now = time.monotonic()
            if up or down:
                self._report(now - last, up, down)
            last = now


class _Ways:
    """Which way each connection goes. Any thread."""

    def __init__(
        self,
        services: Mapping[tuple[str, int], bool],
        authority: RunAuthority | None,
        resolver: DnsResolver,
        entries: Path,
        pid: int,
        past: _BypassMeter,
    ) -> None:
        self._services, self._authority = services, authority
        self._resolver, self._entries, self._pid, self._past = resolver, entries, pid, past
        self._pinned: set[tuple[str, int]] = set()

    def adopt(self, connection: socket.socket) -> None:
        threading.Thread(target=self._lead, args=(connection,), daemon=True).start()

    def _lead(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            original = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, _ORIGINAL.size)
            _, port, packed = _ORIGINAL.unpack(original)
            place = self._resolver.name(socket.inet_ntoa(packed)), port
            if place in self._services and place not in self._pinned:
                self._hand_over(connection, place)
            else:
                self._tunnel(connection, place)

    def _hand_over(self, connection: socket.socket, place: tuple[str, int]) -> None:
        host, port = place
        secure = self._services[place]
        with contextlib.ExitStack() as stack:
            pem = None
            if secure:
                assert self._authority is not None
                pem = self._authority.open_pem(host)
                stack.callback(os.close, pem)
            usual = port == (443 if secure else 80)
            authority = host if usual else f"{host}:{port}"
            if not hand_over(self._entries, connection, authority, self._pid, pem):
                self._pinned.add(place)

    def _tunnel(self, connection: socket.socket, place: tuple[str, int]) -> None:
        """A program whose server cannot be reached has its connection cut, not ended."""
        try:
            server = socket.create_connection(place, CONNECT_SECONDS)
        except OSError:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise
        server.settimeout(None)
        tunnel(connection, server, self._past.counted)
