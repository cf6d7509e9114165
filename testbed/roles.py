# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The roles of Satchel as real processes on the hosts of a testbed, each with its own sshd.

Every role has a folder of its own below one work folder: its settings, its data, its log. What is
called here is what a person calls: `satchel-home`, `satchel-surrogate`, `satchel`.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from replica import sweep
from satchel.errors import SatchelError
from testbed.bed import Host
from testbed.sshd import Sshd
from testbed.starting import START_SECONDS, await_up
from testbed.topology import HOME, Topology, surrogate_host
from wire import Identity, Peer

PROGRAMS = Path(sys.executable).parent

COMMAND_SECONDS = 1800.0

PAGE = "web page: "
"""What a program with --web says before the login link."""


class CommandFailed(SatchelError):
    """A command of the story ended with an error."""


class Role:
    """A daemon on a host: its folder, its settings, its sshd, its process.

    serving: more arguments of `serve`
    """

    def __init__(self, host: Host, program: str, folder: Path, settings: str) -> None:
        self.host = host
        self.folder = folder
        self.program = program
        self.run_dir = folder / "run"
        self.config = folder / "settings.toml"
        self.log = folder / "daemon.log"
        self.run_dir.mkdir(parents=True, mode=0o700)
        self.config.write_text(f'run = "{self.run_dir}"\ndata = "{folder}/data"\n{settings}')
        self.serving: Sequence[str] = ()
        self._sshd: Sshd | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self._ending = False

    @property
    def page(self) -> str:
        """The login link of its web page; it is served with --web."""
        return page_link(self.log)

    @property
    def sshd(self) -> Sshd:
        assert self._sshd is not None
        return self._sshd

    @property
    def pid(self) -> int:
        """Of the running daemon."""
        assert self._daemon is not None
        return self._daemon.pid

    def start(self, name: str, authorized: Sequence[str]) -> None:
        """Start the sshd and the daemon. Return when the daemon answers at the socket `name`."""
        self.begin(authorized)
        self.await_up(name)

    def begin(self, authorized: Sequence[str]) -> None:
        """Start the sshd and the daemon, and do not wait for the daemon."""
        self._sshd = Sshd.start(
            self.folder / "sshd",
            authorized=authorized,
            address=self.host.address,
            port=self.host.ssh_port,
            prefix=self.host.prefix,
            door=self.argv("door"),
        )
        self._daemon = self.host.popen(self.argv("serve", *self.serving), log=self.log)
        self._ending = False

    def await_up(self, name: str) -> None:
        """Wait until the daemon answers at the socket `name`. Raise UnavailableError if it ends."""
        assert self._daemon is not None
        await_up(self.program, self._daemon, lambda: listens(self.run_dir / name), self.log)

    def end(self, number: signal.Signals) -> int:
        """Send the daemon a signal that ends it; its exit code. The sshd goes on."""
        assert self._daemon is not None
        self._daemon.send_signal(number)
        code = self._daemon.wait(timeout=START_SECONDS)
        self._daemon = None
        return code

    def stop(self) -> None:
        """End the daemon and the sshd in an orderly way."""
        self.ask_to_end()
        if self._daemon:
            self._daemon.wait(timeout=START_SECONDS)
            self._daemon = None
        if self._sshd:
            self._sshd.stop()
            self._sshd = None

    def ask_to_end(self) -> None:
        """Send the daemon SIGTERM if it runs, once, and do not wait."""
        if self._daemon and not self._ending:
            self._daemon.terminate()
            self._ending = True

    def crash(self) -> None:
        """Cut the power of the host: every process is gone at once, and with it every mount and
        all in the folder for what lives no longer than the host runs."""
        self.host.crash()
        sweep(self.run_dir / "r")
        shutil.rmtree(self.run_dir)
        self.run_dir.mkdir(mode=0o700)
        self._daemon = None
        if self._sshd:
            self._sshd.stop()
            self._sshd = None

    def command(self, *argv: str | Path) -> Any:
        """Run a command of the role's program on its host; its JSON answer."""
        return run_json(self.host, self.argv(*argv))

    def argv(self, *argv: str | Path) -> list[str | Path]:
        """The role's program with its settings and these arguments."""
        return [PROGRAMS / self.program, "--config", self.config, *argv]


class Bed(Protocol):
    """What the roles are on: a Testbed, or a Loopback."""

    @property
    def topology(self) -> Topology: ...

    @property
    def client(self) -> Host: ...

    def host(self, name: str) -> Host: ...


class Roles:
    """Home, a surrogate at each hotspot, and the client, on a started testbed."""

    def __init__(self, bed: Bed, folder: Path, images: Path) -> None:
        """Make keys and settings; nothing is started."""
        self.bed = bed
        self.folder = folder
        client_folder = folder / "c"
        client_folder.mkdir(parents=True, mode=0o700)
        self.identity = Identity.create(client_folder / "id_ed25519", comment="satchel client")
        self.home = Role(bed.host(HOME), "satchel-home", folder / "h", f'images = "{images}"\n')
        self.surrogates = {
            name: Role(
                bed.host(surrogate_host(name)),
                "satchel-surrogate",
                folder / name,
                f'name = "{surrogate_host(name)}"\nallow-emulation = true\n',
            )
            for name in bed.topology.hotspots
        }
        self.client_config = client_folder / "client.toml"

    def start(self) -> None:
        """Make a home, start every daemon, and tell the client where they are."""
        made = self.home.command("init", "--json")
        self.serve(made["allowed_signers"])

    def serve(self, allowed_signers: str) -> None:
        """Start every daemon, for a home that has been made, and tell the client where they are.

        allowed_signers: the line that home's owner is known by
        """
        sockets = {self.home: "home.sock"} | dict.fromkeys(
            self.surrogates.values(), "surrogate.sock"
        )
        for role in sockets:
            role.begin([self.identity.public])
        for role, name in sockets.items():
            role.await_up(name)
        signers = self.client_config.with_name("allowed_signers")
        signers.write_text(allowed_signers + "\n")
        self._write_client_config()

    def stop(self) -> None:
        """End every daemon and sshd that runs, all at the same time."""
        roles = (self.home, *self.surrogates.values())
        for role in roles:
            role.ask_to_end()
        for role in roles:
            role.stop()

    def restart_surrogate(self, name: str, *, empty: bool) -> None:
        """Start a surrogate again, if `empty` with nothing but its keys."""
        role = self.surrogates[name]
        role.stop()
        if empty:
            self.empty_surrogate(name)
        role.start("surrogate.sock", [self.identity.public])
        self._write_client_config()

    def empty_surrogate(self, name: str) -> None:
        """Stop a surrogate, and leave it nothing but its keys: the client knows them."""
        role = self.surrogates[name]
        role.stop()
        for kept in (role.folder / "data").glob("*"):
            if kept.name != "identity":
                shutil.rmtree(kept) if kept.is_dir() else kept.unlink()

    def satchel(self, *argv: str | Path) -> Any:
        """Run a command of the client's program at the client; its JSON answer."""
        return run_json(
            self.bed.client, [PROGRAMS / "satchel", "--config", self.client_config, *argv]
        )

    def control(self, service: str) -> Path:
        """The socket of the client's session of a service, where there is one."""
        return self.folder / "c" / "run" / f"{service}.sock"

    def start_session(self, *argv: str | Path, log: Path) -> subprocess.Popen[bytes]:
        """Start `satchel run` in the background; returns when its control socket answers."""
        service = str(argv[0])
        program = [PROGRAMS / "satchel", "--config", self.client_config, "run", *argv]
        process = self.bed.client.popen(program, log=log)
        answers = partial(listens, self.control(service))
        await_up(f"satchel run {service}", process, answers, log, COMMAND_SECONDS)
        return process

    def _write_client_config(self) -> None:
        folder = self.client_config.parent
        known_hosts = folder / "known_hosts"
        known_hosts.write_text("")
        roles = {"home": self.home}
        roles |= {f"surrogates.{spot}": role for spot, role in self.surrogates.items()}
        peers = {
            table: role.sshd.peer("host", self.identity.path, known_hosts)
            for table, role in roles.items()
        }
        text = client_settings(
            peers,
            run=folder / "run",
            data=folder / "data",
            state=folder / "state",
            allowed_signers=folder / "allowed_signers",
        )
        self.client_config.write_text(text)


def client_settings(peers: Mapping[str, Peer], **settings: object) -> str:
    """A client.toml of a client called laptop, which moves by itself only where a setting says so.
    peers: by the names of their tables."""
    tables = {"": {"name": "laptop", "auto": "off", **settings}} | {
        n: asdict(p) for n, p in peers.items()
    }
    return "\n".join(
        f"[{table}]\n" * bool(table)
        + "".join(f"{key} = {json.dumps(value, default=str)}\n" for key, value in values.items())
        for table, values in tables.items()
    )


def page_link(log: Path) -> str:
    """What a program has said of its web page. Raises CommandFailed where it has not."""
    for line in log.read_text().splitlines():
        if line.startswith(PAGE):
            return line.removeprefix(PAGE)
    raise CommandFailed(f"no page is named in {log}")


def listens(path: Path) -> bool:
    """Whether somebody listens at a Unix socket: one that a killed program left is only a file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def run_json(host: Host, argv: Sequence[str | Path]) -> Any:
    """Run a command with --json on a host; what it printed. Raises CommandFailed."""
    done = host.run(argv, timeout=COMMAND_SECONDS)
    if done.returncode != 0:
        shown = " ".join(str(part) for part in (*argv[:1], *argv[3:]))
        raise CommandFailed(
            f"`{shown}` ended with exit code {done.returncode}", why=done.stderr[-2000:].strip()
        )
    return json.loads(done.stdout)
