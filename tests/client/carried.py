# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home and two surrogates on this machine, behind real sshds, with real guests of one carried
service; and programs that have connections to it."""

import contextlib
import dataclasses
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client import ClientSettings
from client.fronts.ports import LocalPort
from client.service import ServiceSession
from homeserver import Home, HomeSettings
from homeserver.api import MAX_BODY, home_app, serve_home
from homeserver.home import signers_line
from hypervisor import QemuDriver
from surrogate import Host, SurrogateSettings
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from testbed.built import cache_folder
from tests.client.world import LAPTOP, Place
from tests.leftovers import SHORT_PREFIX
from wire import Identity, serve


class CarriedHome(Place):
    """A home with that service, launched."""

    def __init__(self, folder: Path, key: Identity, service: str) -> None:
        super().__init__(folder, key, "satchel-home")
        self.settings = HomeSettings(
            data=folder / "data", run=folder / "run", images=cache_folder(), settle=False
        )
        Home.init(self.settings)
        self.home = Home(self.settings, QemuDriver())
        self._server = serve_home(home_app(self.home), self.socket, threads=8)
        self.home.add_service(service, service)
        self.home.service(service).launch()

    def close(self) -> None:
        super().close()
        self.home.close()


class CarriedSpot(Place):
    """A surrogate."""

    def __init__(self, folder: Path, key: Identity) -> None:
        super().__init__(folder, key, "satchel-surrogate", "--guest", LAPTOP)
        settings = SurrogateSettings(
            data=folder / "data",
            run=folder / "run",
            name=folder.name,
            allow_emulation=True,
            disk_mib=1,
        )
        self.host = Host(settings, QemuDriver())
        self._sockets = TenantSockets(self.host)
        app = operator_app(self.host, self._sockets)
        self._server = serve(app, self.socket, threads=8, max_body=MAX_BODY)

    def close(self) -> None:
        super().close()
        self._sockets.close()
        self.host.close()


class CarriedWorld:
    """See the module."""

    def __init__(self, folder: Path, service: str) -> None:
        self.service = service
        self.key = Identity.create(folder / "me")
        self.home = CarriedHome(folder / "h", self.key, service)
        self.spots = {name: CarriedSpot(folder / name, self.key) for name in ("a", "b")}
        signers, known = folder / "allowed_signers", folder / "known_hosts"
        signers.write_text(signers_line(self.home.settings) + "\n")
        peers = {name: spot.peer(name, known) for name, spot in self.spots.items()}
        self.settings = ClientSettings(
            name="laptop",
            data=folder / "c" / "data",
            state=folder / "c" / "state",
            run=folder / "c" / "run",
            home=self.home.peer("home", known),
            surrogates={n: dataclasses.replace(peer, trusted=True) for n, peer in peers.items()},
            allowed_signers=signers,
        )
        self.settings.make_folders()
        self.sessions: list[ServiceSession] = []

    def session(self, *, media: Path | None = None, **settings: Any) -> ServiceSession:
        """A session that has started, with its fronts."""
        changed = dataclasses.replace(self.settings, **settings)
        made = ServiceSession(changed, self.service, media=media)
        self.sessions.append(made)
        made.start()
        made.open_fronts([LocalPort(0)])
        return made

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for spot in self.spots.values():
            spot.close()
        self.home.close()


@contextmanager
def carried_world(service: str) -> Iterator[CarriedWorld]:
    """In a folder of its own, whose path is short."""
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    try:
        with contextlib.closing(CarriedWorld(folder, service)) as world:
            yield world
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def redis_cli(port: int, *words: str) -> str:
    """What redis-cli says."""
    argv = ["redis-cli", "-p", str(port), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


class RedisConnection:
    """One connection that stays: commands in lines, as people type them into telnet."""

    def __init__(self, port: int, timeout: float = 120.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._stream = self._socket.makefile("rb")

    def says(self, command: str) -> str:
        """The first line of the answer."""
        self._socket.sendall(command.encode() + b"\r\n")
        line = self._stream.readline()
        if not line:
            raise ConnectionResetError("the connection ended")
        return line.decode().strip()

    def asks(self, *words: bytes) -> bytes:
        """A command with words of any length; the answer, of a string without its length."""
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)]
        self._socket.sendall(b"".join(parts))
        line = self._stream.readline().rstrip()
        if not line.startswith(b"$"):
            return line
        answer = self._stream.read(int(line[1:]) + 2)
        return answer[:-2]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
