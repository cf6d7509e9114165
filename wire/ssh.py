# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A link to another machine: one persistent OpenSSH connection that forwards Unix sockets.

`ssh -M -N` is the master; forwards are added and removed through its control socket, and each
connection to a forwarded socket is one channel in the same TCP connection. OpenSSH gives a channel
a window of 2 MiB: at a round trip of 60 ms a channel carries up to about 33 MB/s.

Channels share one TCP connection in the order in which bytes arrive, so an operation waits behind
the chunks that ssh and the kernel have already taken. Where both happen at once, open two links to
the host, one per Lane: two TCP connections share a bottleneck fairly. A link never connects again
by itself: make a new one.

    CONNECTING --wait_ready--> READY --the connection ends--> BROKEN
         any --close--> CLOSED

Nothing is read from the user's ssh_config (`-F none`): what a link does is written here.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from satchel.errors import (
    NotFoundError,
    SatchelError,
    StateError,
    UnavailableError,
    UnsupportedError,
)
from satchel.paths import SOCKET_PATH_LIMIT
from wire.errors import (
    HostKeyMismatch,
    HostUnreachable,
    LocalProtocolError,
    PeerTimeout,
    WrongKey,
    printable,
)
from wire.messages import check_name
from wire.server import remove_stale_socket

_DESTINATION = re.compile(r"([A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9\[][A-Za-z0-9.:%\[\]_-]*")
_SOCKET = re.compile(r"/[A-Za-z0-9._/+@=-]+")
_CONTROL_SUFFIX = 17
_TAIL = 16384
_OUTPUT_LIMIT = 1 << 20
_CONTROL_SECONDS = 20.0
_END_SECONDS = 5.0

_REFUSED_FIX = (
    "see that its folder exists there, and that sshd has AllowStreamLocalForwarding and "
    "AllowTcpForwarding yes and StreamLocalBindUnlink yes"
)

_GUARD = """exec 3<&0
(read -r _ <&3 || kill $$) >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-"""
"""A shell that becomes ssh, and a child that ends ssh when we die: the pipe from us ends then.
A line through that pipe lets the child go without that."""


class Lane(Enum):
    """What a link is for. Bulk asks routers for throughput, operations for little delay."""

    OPERATIONS = "operations"
    BULK = "bulk"


class LinkState(Enum):
    CONNECTING = "connecting"
    READY = "ready"
    BROKEN = "broken"
    CLOSED = "closed"


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

    def __post_init__(self) -> None:
        check_name(self.name, "host name")
        if not _DESTINATION.fullmatch(self.destination):
            raise LocalProtocolError(f"{self.destination!r} is no destination", fix="user@host")
        if not 0 < self.port < 65536:
            raise LocalProtocolError(f"{self.port} is no port")


@dataclass(frozen=True)
class Ran:
    """How a remote command ended. Of its output at most 1 MiB each is kept."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class SshLink:
    """One connection to one host. Made by `start` or `open`; any thread may call.

    forwards_local {local: remote}: connections to the local socket are carried to the remote one.
    forwards_remote {remote: local}: the other way round. Sockets have mode 0600.
    """

    def __init__(
        self,
        host: SshHost,
        run_dir: Path,
        process: subprocess.Popen[bytes],
        control: Path,
        wanted: Sequence[_Forward],
    ) -> None:
        self.host = host
        self.run_dir = run_dir
        self._process = process
        self._control = control
        self._wanted = list(wanted)
        self._forwards: list[_Forward] = []
        self._lock = threading.RLock()
        self._state = LinkState.CONNECTING
        self._said = _Tail(process)

    @classmethod
    def start(
        cls,
        host: SshHost,
        run_dir: Path,
        *,
        lane: Lane = Lane.OPERATIONS,
        forwards_local: Mapping[Path, str] | None = None,
        forwards_remote: Mapping[str, Path] | None = None,
        keep_alive: float = 15.0,
        connect_timeout: float = 10.0,
    ) -> SshLink:
        """Start connecting; `wait_ready` says how it went.

        run_dir: where the control socket lies, `NAME-LANE.ctl`; a master that a killed program
        left there is ended. keep_alive: seconds of silence after which the connection is given
        up. Raises NotFoundError for a missing key or known_hosts file, UnsupportedError without
        ssh.
        """
        for file in (host.identity, host.known_hosts):
            if not file.exists():
                raise NotFoundError(f"cannot connect to {host.name}", why=f"no file {file}")
        wanted = [_local(str(k), v) for k, v in (forwards_local or {}).items()]
        wanted += [_remote(k, str(v)) for k, v in (forwards_remote or {}).items()]
        control = run_dir / f"{host.name}-{lane.value}.ctl"
        if len(os.fsencode(control)) + _CONTROL_SUFFIX > SOCKET_PATH_LIMIT:
            raise LocalProtocolError(f"{run_dir} is too long for a control socket")
        _end_leftover(control)
        argv = _master_argv(host, control, lane, keep_alive, connect_timeout)
        return cls(host, run_dir, _popen(argv), control, wanted)

    @classmethod
    def open(
        cls,
        host: SshHost,
        run_dir: Path,
        *,
        lane: Lane = Lane.OPERATIONS,
        forwards_local: Mapping[Path, str] | None = None,
        forwards_remote: Mapping[str, Path] | None = None,
        keep_alive: float = 15.0,
        timeout: float = 20.0,
    ) -> SshLink:
        """`start` and `wait_ready`."""
        link = cls.start(
            host,
            run_dir,
            lane=lane,
            forwards_local=forwards_local,
            forwards_remote=forwards_remote,
            keep_alive=keep_alive,
            connect_timeout=timeout,
        )
        link.wait_ready(timeout)
        return link

    @property
    def state(self) -> LinkState:
        with self._lock:
            if self._state is LinkState.READY and self._process.poll() is not None:
                self._state = LinkState.BROKEN
            return self._state

    def alive(self) -> bool:
        """Whether the connection stands, as far as ssh knows: see `keep_alive`."""
        return self.state is LinkState.READY

    def wait_ready(self, timeout: float) -> None:
        """Return when the connection stands and the forwards given to `start` are there.

        Raises WrongKey, HostKeyMismatch, HostUnreachable (also after `timeout` seconds), or what
        `forward_local` and `forward_remote` raise; the link is closed then.
        """
        try:
            self._await_control(timeout)
            with self._lock:
                if self._state is LinkState.CONNECTING:
                    self._state = LinkState.READY
            while self._wanted:
                self._add(self._wanted.pop(0))
        except BaseException:
            self.close()
            raise

    def forward_local(self, local: Path, remote: str) -> None:
        """Carry connections to the socket `local`, made here, to the socket `remote` there.

        Whether anybody listens there shows with the first connection. Raises ConflictError if
        somebody answers at `local`, StateError or HostUnreachable if the link is not ready.
        """
        self._add(_local(str(local), remote))

    def forward_remote(self, remote: str, local: Path) -> None:
        """Carry connections to the socket `remote`, made there, to the socket `local` here.

        A socket that lies at `remote` is replaced where sshd has StreamLocalBindUnlink on. Raises
        UnavailableError if the host refuses, StateError or HostUnreachable if the link is not
        ready.
        """
        self._add(_remote(remote, str(local)))

    def cancel_local(self, local: Path) -> None:
        """Remove a forward and its socket; connections that are open go on. NotFoundError."""
        self._cancel("-L", str(local))

    def cancel_remote(self, remote: str) -> None:
        """Remove a forward and its socket there; connections that are open go on. NotFoundError."""
        self._cancel("-R", remote)

    def run(self, argv: Sequence[str], timeout: float = 30.0) -> Ran:
        """Run a command there to its end, whatever its exit code, without input.

        Raises PeerTimeout (the command may go on there), HostUnreachable, StateError.
        """
        self._require_ready()
        options = ["-T", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR"]
        command = shlex.join(argv)
        ran = _run(["ssh", *self._through(), *options, self.host.destination, command], timeout)
        if ran.exit_code == 255 and not self.alive():
            raise self._broken()
        return ran

    def close(self, *, gone: bool = False) -> None:
        """End the connection, its process and its sockets on both sides. Never fails.

        The remote sockets are removed if the host answers within 5 s; it is not asked where the
        caller knows that the connection is `gone`, as after a move to another network.
        """
        with self._lock:
            if self._state is LinkState.CLOSED:
                return
            if not gone:
                self._remove_remote()
            self._state = LinkState.CLOSED
            _end_process(self._process)
            self._said.join()
            for path in [self._control, *(Path(f.listen) for f in self._forwards if f.is_local)]:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            self._forwards.clear()

    def __enter__(self) -> SshLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await_control(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._control.exists():
            if self._process.poll() is not None:
                self._said.join()
                raise _failure(self.host, self._said.text())
            if time.monotonic() > deadline:
                raise HostUnreachable(
                    f"cannot connect to {self.host.name}",
                    why=f"{self.host.destination} port {self.host.port}: no end in {timeout:.0f} s",
                )
            time.sleep(0.01)

    def _add(self, forward: _Forward) -> None:
        with self._lock:
            self._require_ready()
            if forward.is_local:
                remove_stale_socket(Path(forward.listen))
            self._control_command("forward", forward)
            self._forwards.append(forward)

    def _cancel(self, flag: str, listen: str) -> None:
        with self._lock:
            found = [f for f in self._forwards if (f.flag, f.listen) == (flag, listen)]
            if not found:
                raise NotFoundError(f"{self.host.name} has no forward {flag} {listen}")
            self._require_ready()
            self._control_command("cancel", found[0])
            if found[0].is_local:
                Path(listen).unlink(missing_ok=True)
            else:
                self.run(["rm", "-f", "--", listen], _END_SECONDS)
            self._forwards.remove(found[0])

    def _remove_remote(self) -> None:
        paths = [f.listen for f in self._forwards if not f.is_local]
        if paths and self.alive():
            with contextlib.suppress(SatchelError):
                self.run(["rm", "-f", "--", *paths], _END_SECONDS)

    def _control_command(self, command: str, forward: _Forward) -> None:
        argv = ["ssh", *self._through(), "-O", command, *forward.argv(), self.host.destination]
        ran = _run(argv, _CONTROL_SECONDS)
        if ran.exit_code == 0:
            return
        if not self.alive():
            raise self._broken()
        said = printable(ran.stderr.decode("utf-8", "replace").strip(), 500)
        why = " ".join(filter(None, [said, self._said.text()[-500:]]))
        fix = "" if forward.is_local else _REFUSED_FIX
        what = f"{self.host.name}: cannot {command} {forward.flag} {forward.listen}"
        raise UnavailableError(what, why=why, fix=fix)

    def _through(self) -> list[str]:
        return ["-F", "none", "-S", str(self._control)]

    def _require_ready(self) -> None:
        state = self.state
        if state is LinkState.BROKEN:
            raise self._broken()
        if state is not LinkState.READY:
            raise StateError(f"the link to {self.host.name} is {state.value}", why="not ready")

    def _broken(self) -> SatchelError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        why = self._said.text()[-500:] or "the connection ended"
        return HostUnreachable(f"the link to {self.host.name} broke", why=why, fix="connect again")


@dataclass(frozen=True)
class _Forward:
    flag: str
    listen: str
    target: str

    @property
    def is_local(self) -> bool:
        return self.flag == "-L"

    def argv(self) -> list[str]:
        return [self.flag, f"{self.listen}:{self.target}"]


def _local(local: str, remote: str) -> _Forward:
    return _Forward("-L", _socket_path(local), _socket_path(remote))


def _remote(remote: str, local: str) -> _Forward:
    return _Forward("-R", _socket_path(remote), _socket_path(local))


def _socket_path(path: str) -> str:
    """ssh gives a meaning to ':', '%', '$' and '\\' in such a path: refused rather than escaped."""
    if not _SOCKET.fullmatch(path) or len(path) > SOCKET_PATH_LIMIT:
        raise LocalProtocolError(
            f"{path[:120]!r} cannot be forwarded",
            why=f"not absolute, longer than {SOCKET_PATH_LIMIT} or with special characters",
        )
    return path


class _Tail:
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

    def join(self) -> None:
        self._thread.join(_END_SECONDS)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            while piece := os.read(stream.fileno(), 4096):
                with self._lock:
                    self._bytes += piece
                    del self._bytes[:-_TAIL]


def _master_argv(
    host: SshHost, control: Path, lane: Lane, keep_alive: float, connect_timeout: float
) -> list[str]:
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
        "ServerAliveInterval": str(max(1, round(keep_alive / 3))),
        "ServerAliveCountMax": "3",
        "ExitOnForwardFailure": "yes",
        "StreamLocalBindUnlink": "yes",
        "ControlPersist": "no",
        "Compression": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "IPQoS": "af21" if lane is Lane.OPERATIONS else "cs1",
        "LogLevel": "ERROR",
    }
    argv = ["ssh", "-F", "none", "-M", "-N", "-T", "-S", str(control), "-p", str(host.port)]
    for option in (*host.options, *(f"{key}={value}" for key, value in options.items())):
        argv += ["-o", option]
    return [*argv, host.destination]


def _popen(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """ssh, ended when this program dies; with its own session a Ctrl-C does not reach it."""
    if shutil.which(argv[0]) is None:
        raise UnsupportedError("no ssh", fix="install openssh-client")
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )


def _failure(host: SshHost, said: str) -> SatchelError:
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


def _run(argv: Sequence[str], timeout: float) -> Ran:
    """Run a local command to its end. Raises PeerTimeout after killing it.

    The master holds the pipes too and closes them when the remote command ends, so after a
    timeout they are left, not read to their end.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )
    deadline = time.monotonic() + timeout
    with process, selectors.DefaultSelector() as selector:
        try:
            kept = [_watch(selector, stream) for stream in (process.stdout, process.stderr)]
            while selector.get_map():
                _drain(selector, deadline - time.monotonic())
            process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise PeerTimeout(f"{argv[-1]}: no end in {timeout:g} s") from error
        finally:
            process.kill()
    return Ran(process.returncode, *map(bytes, kept))


def _watch(selector: selectors.BaseSelector, stream: IO[bytes] | None) -> bytearray:
    kept = bytearray()
    assert stream is not None
    selector.register(stream, selectors.EVENT_READ, kept)
    return kept


def _drain(selector: selectors.BaseSelector, seconds: float) -> None:
    """Read what is there, or wait for it. Raises TimeoutError."""
    ready = selector.select(max(0.0, seconds))
    if not ready:
        raise TimeoutError
    for key, _ in ready:
        piece = os.read(key.fd, 65536)
        key.data.extend(piece[: max(0, _OUTPUT_LIMIT - len(key.data))])
        if not piece:
            selector.unregister(key.fileobj)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as guard:
        guard.write(b"\n")
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_leftover(control: Path) -> None:
    if control.exists():
        with contextlib.suppress(PeerTimeout):
            _run(["ssh", "-F", "none", "-S", str(control), "-O", "exit", "leftover"], _END_SECONDS)
        control.unlink(missing_ok=True)
