# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A link to another machine: one persistent OpenSSH connection that forwards Unix sockets.

`ssh -M -N` is the master; forwards are added and removed through its control socket, and each
connection to a forwarded socket is one channel in the same TCP connection. OpenSSH gives a channel
a window of 2 MiB: at a round trip of 60 ms a channel carries up to about 33 MB/s.

Channels share one TCP connection in the order in which bytes arrive, so an operation waits behind
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
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from satchel.errors import NotFoundError, SatchelError, StateError, UnavailableError
from satchel.paths import SOCKET_PATH_LIMIT
from wire.errors import HostUnreachable, LocalProtocolError, PeerTimeout, printable
from wire.listening import remove_stale_socket
from wire.openssh import (
    END_SECONDS,
    Lane,
    Ran,
    SshHost,
    Tail,
    answers,
    end_process,
    failure_of,
    master_argv,
    run_bounded,
    start_master,
)

_SOCKET = re.compile(r"/[A-Za-z0-9._/+@=-]+")
_CONTROL_SUFFIX = 17  # what ssh appends to the name while it makes the control socket
_CONTROL_SECONDS = 20.0
_VERDICT_SECONDS = 0.5

_SILENT_SECONDS = 2.0
"""A host with which there is no connection after so long is asked whether it answers at all: nobody
waits for one that is silent as long as for one that is slow."""

_REFUSED_FIX = (
    "see that its folder exists there, and that sshd has AllowStreamLocalForwarding and "
    "AllowTcpForwarding yes and StreamLocalBindUnlink yes"
)


class LinkState(Enum):
    CONNECTING = "connecting"
    READY = "ready"
    BROKEN = "broken"
    CLOSED = "closed"


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
        self._local: list[Path] = []  # sockets of forwards, here and there
        self._remote: list[str] = []
        self._state = LinkState.CONNECTING
        self._state_lock = threading.Lock()
        self._forwarding = threading.Lock()
        self._closing = threading.Lock()
        self._said = Tail(process)
        self._quickener = threading.Thread(target=self._quicken, name="ssh-quicken", daemon=True)

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
        _require_keys(host)
        wanted = [_local(str(k), v) for k, v in (forwards_local or {}).items()]
        wanted += [_remote(k, str(v)) for k, v in (forwards_remote or {}).items()]
        control = run_dir / f"{host.name}-{lane.value}.ctl"
        if len(os.fsencode(control)) + _CONTROL_SUFFIX > SOCKET_PATH_LIMIT:
            raise LocalProtocolError(f"{run_dir} is too long for a control socket")
        _end_leftover(control)
        argv = master_argv(host, control, lane, keep_alive, connect_timeout)
        return cls(host, run_dir, start_master(argv), control, wanted)

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
        return self._change()

    def alive(self) -> bool:
        """Whether the connection stands, as far as ssh knows: see `keep_alive`."""
        return self.state is LinkState.READY

    def wait_ready(self, timeout: float) -> None:
        """Return when the connection stands and the forwards given to `start` are there.

        Raises WrongKey, HostKeyMismatch, HostUnreachable (also after `timeout` seconds, or a few
        where nothing answers at all), or what `forward_local` and `forward_remote` raise; the link
        is closed then.
        """
        try:
            self._await_control(timeout)
            self._change(LinkState.READY)
            self._add(*self._wanted)
            self._quickener.start()
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

    def run(self, argv: Sequence[str], timeout: float = 30.0) -> Ran:
        """Run a command there to its end, whatever its exit code, without input.

        Raises PeerTimeout (the command may go on there), HostUnreachable, StateError.
        """
        self._require_ready()
        options = ["-T", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR"]
        command = shlex.join(argv)
        ran = run_bounded(
            ["ssh", *self._through(), *options, self.host.destination, command], timeout
        )
        if ran.exit_code == 255 and self._ends_within(_VERDICT_SECONDS):
            raise self._broken()
        return ran

    def close(self, *, gone: bool = False) -> None:
        """End the connection, its process and its sockets on both sides. Never fails.

        A forward that another thread is making is waited for. The remote sockets are removed if
        the host answers within 5 s; it is not asked where the caller knows that the connection is
        `gone`, as after a move to another network.
        """
        with self._closing:
            if self.state is LinkState.CLOSED:
                return
            if self.alive() and not gone:
                with self._forwarding:  # one that is being made would be missed
                    self._remove_remote()
                    self._change(LinkState.CLOSED)
            self._change(LinkState.CLOSED)
            end_process(self._process, gone=gone)
            self._said.join()
            if self._quickener.ident is not None:
                self._quickener.join(END_SECONDS)
            with self._forwarding:
                local, self._local = self._local, []
            for path in [self._control, *local]:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def __enter__(self) -> SshLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change(self, to: LinkState | None = None) -> LinkState:
        """The state as it is now, after the step to `to` if there is one from here."""
        with self._state_lock:
            if to is LinkState.CLOSED or (to and self._state is LinkState.CONNECTING):
                self._state = to
            if self._state is LinkState.READY and self._process.poll() is not None:
                self._state = LinkState.BROKEN
            return self._state

    def _await_control(self, timeout: float) -> None:
        began = time.monotonic()
        deadline, look_at = began + timeout, began + _SILENT_SECONDS
        while not self._control.exists():
            if self._process.poll() is not None:
                self._said.join()
                raise failure_of(self.host, self._said.text())
            if time.monotonic() > deadline:
                raise HostUnreachable(
                    f"cannot connect to {self.host.name}",
                    why=f"{self.host.destination} port {self.host.port}: no end in {timeout:.0f} s",
                )
            if time.monotonic() > look_at:
                look_at = math.inf
                if not answers(self.host.destination, self.host.port):
                    raise HostUnreachable(
                        f"cannot connect to {self.host.name}",
                        why=f"{self.host.destination} port {self.host.port}: nothing answers there",
                    )
            time.sleep(0.01)

    def _quicken(self) -> None:
        """Have sshd send small packets at once: it turns Nagle's algorithm off when a session is
        opened, and not for forwards alone. Without this one answer in five waits up to 40 ms, or a
        round trip, for an acknowledgement. A host that allows no session stays slow."""
        argv = ["ssh", *self._through(), "-T", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR"]
        with contextlib.suppress(SatchelError, OSError):
            run_bounded([*argv, self.host.destination, "true"], _CONTROL_SECONDS)

    def _add(self, *forwards: _Forward) -> None:
        """All of them with one command. Where one fails, those before it may be there until the
        link is closed."""
        if not forwards:
            return
        with self._forwarding:
            self._require_ready()
            for forward in forwards:
                if forward.is_local:
                    remove_stale_socket(Path(forward.listen))
                    self._local.append(Path(forward.listen))
            self._forward(forwards)
            self._remote += [forward.listen for forward in forwards if not forward.is_local]

    def _remove_remote(self) -> None:
        if self._remote:
            with contextlib.suppress(SatchelError):
                self.run(["rm", "-f", "--", *self._remote], END_SECONDS)

    def _forward(self, forwards: Sequence[_Forward]) -> None:
        what = [word for forward in forwards for word in forward.argv()]
        argv = ["ssh", *self._through(), "-O", "forward", *what, self.host.destination]
        ran = run_bounded(argv, _CONTROL_SECONDS)
        if ran.exit_code == 0:
            return
        if self._ends_within(_VERDICT_SECONDS):
            raise self._broken()
        said = printable(ran.stderr.decode("utf-8", "replace").strip(), 500)
        why = " ".join(filter(None, [said, self._said.text()[-500:]]))
        fix = "" if all(forward.is_local for forward in forwards) else _REFUSED_FIX
        listens = ", ".join(f"{forward.flag} {forward.listen}" for forward in forwards)
        raise UnavailableError(f"{self.host.name}: cannot forward {listens}", why=why, fix=fix)

    def _through(self) -> list[str]:
        return ["-F", "none", "-S", str(self._control)]

    def _ends_within(self, seconds: float) -> bool:
        """Whether the connection has ended or does so now: ssh says 255 for that, but so may any
        command, and the master may end a moment after those that speak through it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.alive()

    def _require_ready(self) -> None:
        state = self.state
        if state is LinkState.BROKEN:
            raise self._broken()
        if state is not LinkState.READY:
            raise StateError(f"the link to {self.host.name} is {state.value}", why="not ready")

    def _broken(self) -> SatchelError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
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


def _require_keys(host: SshHost) -> None:
    for file, fix in (
        (host.identity, "it is the private key that may log in there: ssh-keygen makes one"),
        (host.known_hosts, "it has the hosts' public keys: compare what ssh-keyscan prints"),
    ):
        if not file.exists():
            raise NotFoundError(f"cannot connect to {host.name}", why=f"no file {file}", fix=fix)


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


def _end_leftover(control: Path) -> None:
    if control.exists():
        with contextlib.suppress(PeerTimeout):
            run_bounded(
                ["ssh", "-F", "none", "-S", str(control), "-O", "exit", "leftover"], END_SECONDS
            )
        control.unlink(missing_ok=True)
