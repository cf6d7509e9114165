# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home and surrogates on this machine, behind real sshds, with scripted machines.

Everything is as in use but for the guests: stores, volumes, logs, media, OpenSSH, HTTP.
"""

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from client import ClientSettings, ServiceSession
from client.contracts import Carried, Replayed
from client.fronts.proxy import Proxy
from client.platform.settings import HOME
from client.session.checkpoints import NOTHING, OwnerOverrides
from client.session.session import Session
from homeserver import Home, HomeSettings
from homeserver.api import MAX_BODY, home_app, serve_home
from homeserver.home import signers_line
from homeserver.media.carry import carry
from media import Media
from surrogate import Host, SurrogateSettings
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from testbed.sshd import Sshd
from tests.doors import door_of
from tests.scripted import scripted_driver
from wire import Identity, Peer, Server, serve

SERVICES = {"notes": True, "speech": False}
"""By name: whether it keeps state."""

LAPTOP = "laptop:1"

COPY_SECONDS = 120.0
"""The identity that the client has at surrogates."""


def fake_image(folder: Path, name: str, *, stateful: bool) -> None:
    """An image in which nothing is."""
    folder = folder / name
    folder.mkdir(parents=True)
    for part in ("disk", "kernel", "initrd"):
        (folder / part).write_bytes(b"\0" * 8192)
    recipe = {"name": name, "memory_mib": 64, "stateful": stateful, "contract": "replay"}
    recipe["read_only"] = ["/pages"]
    image = {"recipe": recipe, "cmdline": "", "key": "0" * 64}
    image |= {part: part for part in ("disk", "kernel", "initrd")}
    (folder / "image.json").write_text(json.dumps(image))


class Place:
    """A daemon behind an sshd of its own. It can be taken away and come back. keep_alive: of the
    sshd, in seconds"""

    keep_alive = 15.0

    def __init__(self, folder: Path, key: Identity, program: str, *words: str) -> None:
        """words: more arguments of its door"""
        self.folder = folder
        self.socket = folder / "run" / f"{program.removeprefix('satchel-')}.sock"
        self.socket.parent.mkdir(parents=True)
        self._door = door_of(program, self.socket.parent, *words)
        self._key = key
        self.sshd = self._start_sshd()
        self._server: Server | ExitStack | None = None

    def peer(self, name: str, known_hosts: Path) -> Peer:
        return self.sshd.peer(name, self._key.path, known_hosts)

    def _start_sshd(self, port: int = 0) -> Sshd:
        place, keys = self.folder / "sshd", [self._key.public]
        return Sshd.start(
            place, authorized=keys, port=port, door=self._door, keep_alive=self.keep_alive
        )

    def cut(self) -> None:
        """Nobody reaches it any more."""
        self.sshd.stop()

    def hang(self) -> None:
        """Its sshd does nothing more; this host's kernel still answers for it. `cut` ends that."""
        for pid in (self.sshd.pid, *self.sshd.processes()):
            os.kill(pid, signal.SIGSTOP)

    def mend(self) -> None:
        """It can be reached again, at the same port."""
        self.sshd = self._start_sshd(self.sshd.port)

    def close(self) -> None:
        self.sshd.stop()
        if self._server:
            self._server.close()


class HomePlace(Place):
    """A home with the services, each with a checkpoint."""

    def __init__(self, folder: Path, key: Identity) -> None:
        super().__init__(folder, key, "satchel-home")
        for name, stateful in SERVICES.items():
            fake_image(folder / "images", name, stateful=stateful)
        self.settings = HomeSettings(
            data=folder / "data", run=folder / "run", images=folder / "images"
        )
        Home.init(self.settings)
        self.driver = scripted_driver()
        self.home = Home(self.settings, self.driver)
        self._server = serve_home(home_app(self.home), self.socket, threads=8)

    def launch(self, name: str) -> None:
        self.home.add_service(name, name)
        self.home.service(name).launch()

    def carry(self, name: str, media: Path) -> None:
        carry(self.home.service(name), self.home.store, media)

    def executed(self, name: str) -> int:
        return self.home.service(name).view().last_executed

    def restart(self) -> None:
        """The daemon ends and starts again, with the service from its checkpoint."""
        assert self._server
        self._server.close()
        self.home.close()
        self.home = Home(self.settings, self.driver)
        self.home.service("notes").launch()
        self._server = serve_home(home_app(self.home), self.socket, threads=8)

    def close(self) -> None:
        super().close()
        self.home.close()


class SpotPlace(Place):
    """A surrogate."""

    def __init__(self, folder: Path, key: Identity, **settings: Any) -> None:
        super().__init__(folder, key, "satchel-surrogate", "--guest", LAPTOP)
        self.driver = scripted_driver()
        defaults = SurrogateSettings(
            data=folder / "data", run=folder / "run", name=folder.name, allow_emulation=True
        )
        self.host = Host(dataclasses.replace(defaults, disk_mib=1, **settings), self.driver)
        self.sockets = TenantSockets(self.host, idle_seconds=3600.0)
        app = operator_app(self.host, self.sockets)
        self._server = serve(app, self.socket, threads=8, max_body=MAX_BODY)

    def door(self, identity: str) -> Path:
        """The socket of that tenant's API."""
        return self.sockets.open(self.host.tenants.admit(identity))

    def forwarded(self) -> list[Path]:
        """The sockets that the tenant LAPTOP forwarded."""
        return [*self.host.tenants.admit(LAPTOP).forwarded.iterdir()]

    def replicas(self) -> list[str]:
        return [hosted.id for hosted in self.host.replicas()]

    def crash(self) -> None:
        """The machines end, and nobody reaches what is left."""
        for machine in self.driver.machines:
            machine.crash()
        self.cut()

    def close(self) -> None:
        super().close()
        self.sockets.close()
        self.host.close()


def operations(session: ServiceSession) -> Session:
    """The operations of a replayed service."""
    assert isinstance(session.contract, Replayed)
    return session.contract.session


def carried_of(session: ServiceSession) -> Carried:
    """The contract of a carried service."""
    assert isinstance(session.contract, Carried)
    return session.contract


def copy_now(session: ServiceSession) -> None:
    """Have home get a copy now, and wait for it."""
    carried = carried_of(session)
    with carried._changing:
        if carried.leader != HOME and carried._shipping.wait(COPY_SECONDS):
            carried._copy()
    assert carried._shipping.wait(COPY_SECONDS)
    assert not carried._shipping.failure


class World:
    """A home, two surrogates, media, and what a client has to know of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = Identity.create(folder / "me")
        self.home = HomePlace(folder / "h", self.key)
        self.spots = {name: SpotPlace(folder / name, self.key) for name in ("a", "b")}
        self.stick = folder / "stick"
        self.stick.mkdir()
        Media.init(self.stick).close()
        signers = folder / "allowed_signers"
        signers.write_text(signers_line(self.home.settings) + "\n")
        known_hosts = folder / "known_hosts"
        self.settings = ClientSettings(
            name="laptop",
            data=folder / "c" / "data",
            state=folder / "c" / "state",
            run=folder / "c" / "run",
            home=self.home.peer("home", known_hosts),
            surrogates={name: spot.peer(name, known_hosts) for name, spot in self.spots.items()},
            allowed_signers=signers,
            response_seconds=15.0,
            media_seconds=0,
        )
        self.settings.run.mkdir(parents=True)
        self._closing: list[Callable[[], None]] = []

    def mislabel(self, service: str, name: str) -> None:
        """Put the checkpoint of a service onto the stick under another service's name."""
        with Media.open(self.stick) as media:
            checkpoint, *_ = media.checkpoints(service)
            media.put_checkpoint(name, checkpoint.id, *media.signed(checkpoint))
            media.commit([dataclasses.replace(checkpoint, service=name)], [], keep_packs=True)

    def runner(
        self,
        service: str = "notes",
        *,
        media: bool | Sequence[Path] = True,
        take_over: bool = False,
        accepted: OwnerOverrides = NOTHING,
        **settings: object,
    ) -> ServiceSession:
        """A session that has started."""
        changed = dataclasses.replace(self.settings, **settings)  # type: ignore[arg-type]
        named = [self.stick] if media is True else media or ()
        made = ServiceSession(changed, service, media=named)
        self._closing.append(made.close)
        try:
            made.start(take_over=take_over, accepted=accepted)
        except BaseException:
            made.close()
            raise
        return made

    def proxy(self, runner: ServiceSession) -> str:
        """The URL of a proxy for that session."""
        made = Proxy(operations(runner))
        self._closing.append(made.close)
        return f"http://127.0.0.1:{made.port}"

    def close(self) -> None:
        for close in reversed(self._closing):
            close()
        for spot in self.spots.values():
            spot.close()
        self.home.close()


def post(url: str, path: str = "/api/notes", body: bytes = b"x") -> httpx2.Response:
    return httpx2.post(url + path, content=body, timeout=30, trust_env=False)
