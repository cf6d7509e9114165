# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A private sshd: own host key, own port, own authorized_keys, as the user who starts it.

    with Sshd.start(folder, authorized=[identity.public]) as sshd:
        host = sshd.host("home", identity.path, known_hosts)

It lets in only the starting user by public key, and forwards nothing. With a door its sessions are
that and nothing else, as at a host in use. As root it needs sshd's privilege separation folder,
which it makes. Its folder is the home of its sessions, because what a person's shell does at its
start is no part of a test.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from satchel.errors import UnsupportedError
from testbed.starting import await_up
from wire import Identity, Peer, SshHost, door_settings, known_hosts_line

_KILL_SECONDS = 10.0
_SEPARATION = Path("/run/sshd")

_CONFIG = """\
Port {port}
ListenAddress {address}
HostKey "{folder}/host_key"
PidFile none
AuthorizedKeysFile "{folder}/authorized_keys"
AllowUsers {user}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PermitTTY no
PermitUserRC no
SetEnv {variables}
DisableForwarding yes
ClientAliveInterval {alive}
ClientAliveCountMax 3
MaxStartups 100
MaxSessions 100
LoginGraceTime 20
LogLevel VERBOSE
"""


class Sshd:
    """One running sshd. Made by `start`."""

    def __init__(
        self, folder: Path, address: str, port: int, process: subprocess.Popen[bytes]
    ) -> None:
        self.folder = folder
        self.address = address
        self.port = port
        self.host_key = Identity.open(folder / "host_key")
        self._process = process

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        authorized: Iterable[str] = (),
        address: str = "127.0.0.1",
        port: int = 0,
        prefix: Sequence[str] = (),
        keep_alive: float = 15.0,
        door: Sequence[str | Path] = (),
        environment: Mapping[str, str] | None = None,
        options: Iterable[str] = (),
    ) -> Sshd:
        """Return once it listens.

        folder: its files (host_key is kept if it is there, so a host keeps its identity);
        authorized: public lines that may log in; port: 0 for a free one of this namespace;
        prefix: what to write before the command, such as `ip netns exec NAME`, that executes it
        under the same pid; keep_alive: seconds of silence after which a client is given up;
        door: the command that sessions are, if they are one; environment: more variables of
        sessions; options: more lines of sshd_config, which win. Raises UnsupportedError without
        sshd, UnavailableError with the tail of its log if it does not come up.
        """
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if program is None:
            raise UnsupportedError("no sshd", fix="install openssh-server")
        if os.getuid() == 0:
            _SEPARATION.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / "host_key").exists():
            Identity.create(folder / "host_key", comment="host key")
        (folder / "authorized_keys").write_text("".join(f"{line}\n" for line in authorized))
        port = port or _free_port(address)
        config = _CONFIG.format(
            port=port,
            address=address,
            folder=folder,
            user=_user(),
            alive=max(1, round(keep_alive / 3)),
            variables=_variables({"HOME": str(folder)} | dict(environment or {})),
        )
        forced = door_settings(shlex.join(map(str, door))) if door else {}
        lines = [*options, *(f"{keyword} {value}" for keyword, value in forced.items())]
        (folder / "sshd_config").write_text("".join(f"{line}\n" for line in lines) + config)
        log = folder / "sshd.log"
        argv = [*prefix, program, "-D", "-e", "-f", str(folder / "sshd_config")]
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        sshd = cls(folder, address, port, process)
        try:
            await_up("sshd", process, lambda: b"Server listening on" in log.read_bytes(), log)
        except BaseException:
            sshd.stop()
            raise
        return sshd

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def user(self) -> str:
        """Who may log in: the user who started it."""
        return _user()

    @property
    def known_hosts_line(self) -> str:
        return known_hosts_line(self.address, self.port, self.host_key.public)

    def host(
        self, name: str, identity: Path, known_hosts: Path, *, options: tuple[str, ...] = ()
    ) -> SshHost:
        """How a client reaches it. Appends its key to the file `known_hosts`."""
        with known_hosts.open("a", encoding="utf-8") as file:
            file.write(self.known_hosts_line + "\n")
        destination = f"{self.user}@{self.address}"
        return SshHost(name, destination, identity, known_hosts, self.port, options)

    def peer(self, name: str, identity: Path, known_hosts: Path) -> Peer:
        """The same, as settings name it."""
        host = self.host(name, identity, known_hosts)
        return Peer(host.destination, host.port, identity, known_hosts)

    def authorize(self, public: str) -> None:
        """Let one more key log in, from now on."""
        with (self.folder / "authorized_keys").open("a", encoding="utf-8") as file:
            file.write(public + "\n")

    def alive(self) -> bool:
        return self._process.poll() is None

    def sessions(self) -> list[int]:
        """One pid for each connection that it serves."""
        return _children().get(self.pid, [])

    def processes(self) -> list[int]:
        """Pids of all that serves its connections and runs in them."""
        return _descendants(self.pid)

    def drop_sessions(self) -> None:
        """Cut every connection as a crash would; new ones are accepted."""
        _kill(self.processes())

    def stop(self) -> None:
        """End it and every connection and command in it. A second call does nothing."""
        if self.alive():
            self._process.send_signal(signal.SIGSTOP)  # it accepts nobody while we look
            processes = self.processes()
            self._process.kill()
            self._process.wait()
            _kill(processes)

    def __enter__(self) -> Sshd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _variables(environment: dict[str, str]) -> str:
    """Those of sessions, which import what this process does."""
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return " ".join(f'{name}="{value}"' for name, value in environment.items())


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    return children


def _descendants(pid: int) -> list[int]:
    children = _children()
    found, level = [], [pid]
    while level := [child for parent in level for child in children.get(parent, [])]:
        found += level
    return found


def _kill(pids: Iterable[int]) -> None:
    waiting = list(pids)
    for pid in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_SECONDS
    while any(_runs(pid) for pid in waiting) and time.monotonic() < deadline:
        time.sleep(0.005)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
