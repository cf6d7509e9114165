# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How OpenSSH's client is started, watched, ended and understood. A link is made of it (`ssh`).

Nothing is read from the user's ssh_config (`-F none`): what a link does is written here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from satchel.errors import SatchelError, UnsupportedError
from wire.errors import (
    HostKeyMismatch,
    HostUnreachable,
    LocalProtocolError,
    WrongKey,
    printable,
)
from wire.link.peers import Peer, host_in
from wire.messages import check_name

END_SECONDS = 5.0
"""How long what ssh wrote is waited for."""

KILL_SECONDS = 1.0
"""How long ssh may take to end before it is killed: with a host that went silent it waits for
that."""

ANSWER_SECONDS = 2.0
"""How long a host's kernel may take to answer: a lost packet is sent again after one second."""

_DESTINATION = re.compile(r"([A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9\[][A-Za-z0-9.:%\[\]_-]*")
_TAIL = 16384

DOOR = "door"
"""What ssh asks the host to run."""


class Lane(Enum):
    """What a link is for. Bulk asks routers for throughput, operations for little delay."""

    OPERATIONS = "operations"
    BULK = "bulk"


@dataclass(frozen=True)
class SshHost:
    """How to reach a host, and how it proves to be that host.

    destination: `user@host` or `host`. identity: our private key file; known_hosts: the file with
    the host's public key. options: ssh options "Key=Value" that go before ours, so they win.
    """

    name: str
    destination: str
    identity: Path
    known_hosts: Path
    port: int = 22
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, peer: Peer) -> SshHost:
        """The host that settings name so."""
        return cls(name, peer.destination, peer.identity, peer.known_hosts, peer.port, peer.options)

    def __post_init__(self) -> None:
        check_name(self.name, "host name")
        if not _DESTINATION.fullmatch(self.destination):
            what = f"{self.destination!r} is no destination of {self.name}"
            raise LocalProtocolError(what, fix="set it in the settings, as user@host")
        if not 0 < self.port < 65536:
            raise LocalProtocolError(f"{self.port} is no port")


class Tail:
    """The end of what a process wrote to stderr, read by a thread until the process ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._bytes = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._thread.start()

    def text(self) -> str:
        with self._lock:
            text = bytes(self._bytes).decode("utf-8", "replace")
        return printable(
            " ".join(line.strip() for line in text.splitlines() if line.strip()), _TAIL
        )

    def join(self, seconds: float = END_SECONDS) -> None:
        self._thread.join(seconds)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            while piece := os.read(stream.fileno(), 4096):
                with self._lock:
                    self._bytes += piece
                    del self._bytes[:-_TAIL]


def ssh_argv(host: SshHost, lane: Lane, connect_timeout: float) -> list[str]:
    """The client's command line. What it asks to run there is a word: sshd runs the door, whatever
    is asked for. It says nothing of its own accord: keep-alives are the link's (`liveness`)."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": f'"{host.known_hosts}"',
        "GlobalKnownHostsFile": "none",
        "UpdateHostKeys": "no",
        "IdentitiesOnly": "yes",
        "IdentityFile": f'"{host.identity}"',
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": str(max(1, round(connect_timeout))),
        "ServerAliveInterval": "0",
        "TCPKeepAlive": "no",
        "ClearAllForwardings": "yes",
        "ControlMaster": "no",
        "Compression": "no",
        "EscapeChar": "none",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "IPQoS": "af21" if lane is Lane.OPERATIONS else "cs1",
        "LogLevel": "ERROR",
    }
    argv = ["ssh", "-F", "none", "-T", "-p", str(host.port)]
    for option in (*host.options, *(f"{key}={value}" for key, value in options.items())):
        argv += ["-o", option]
    return [*argv, host.destination, DOOR]


def start_ssh(argv: Sequence[str], pipe: socket.socket) -> subprocess.Popen[bytes]:
    """ssh, with that for its standard input and output. It ends when the other end of the pipe is
    closed, as by our death; with its own session a Ctrl-C does not reach it."""
    if shutil.which(argv[0]) is None:
        raise UnsupportedError("no ssh", fix="install openssh-client")
    return subprocess.Popen(
        argv,
        stdin=pipe.fileno(),
        stdout=pipe.fileno(),
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )


def answers(destination: str, port: int) -> bool:
    """Whether anything answers at that host, if only with a refusal, within ANSWER_SECONDS. Its
    kernel does that however busy its programs are, so a host that does not is off or out of reach.
    """
    try:
        socket.create_connection((host_in(destination), port), ANSWER_SECONDS).close()
    except TimeoutError:
        return False
    except OSError:
        return True  # refused, or a reason that ssh will say
    return True


def failure_of(host: SshHost, said: str) -> SatchelError:
    """The typed error for what ssh wrote before it ended."""
    what = f"cannot connect to {host.name}"
    place = f"{host.destination} port {host.port}"
    if "HOST IDENTIFICATION HAS CHANGED" in said:
        return HostKeyMismatch(
            what,
            why=f"{place} shows another host key than {host.known_hosts} has: another machine "
            "answers there, or it was installed anew",
            fix="if you are sure that it is the same host, replace its line in that file",
        )
    if "host key is known" in said or "Host key verification failed" in said:
        return HostKeyMismatch(
            what,
            why=f"{host.known_hosts} has no key for {place}",
            fix="ask its operator for the host's public key and add it to that file",
        )
    if "Permission denied" in said or "Too many authentication failures" in said:
        return WrongKey(
            what,
            why=f"{place} does not accept the key {host.identity}: {said[-300:]}",
            fix="have its public key added to authorized_keys there",
        )
    return HostUnreachable(what, why=f"{place}: {said[-500:] or 'ssh ended without a word'}")


def end_process(process: subprocess.Popen[bytes], *, gone: bool = False) -> None:
    """Wait until ssh, whose pipe is closed, has ended; then have it end. gone: it has nobody to
    take leave of, and is not waited for."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.0 if gone else KILL_SECONDS)
    process.kill()
    process.wait()
