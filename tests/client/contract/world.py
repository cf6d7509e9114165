# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One world for services of each contract, with guests that remember words."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from client import ClientSettings
from homeserver.services.service import NotLaunched
from hypervisor import MachineState
from replay.frames import REPLY_BIT, AgentFrame, FrameType
from replica import Replica
from satchel.errors import NotFoundError
from satchel.polling import POLL_SECONDS
from surrogate.replicas.hosted import HostedReplica
from tests.client.contract.sessions import NO_OVERRIDES, ContractSession
from tests.client.world import World, fake_image
from tests.scripted import ScriptedGuest
from tests.waiting import eventually
from wire import Identity, ReplicaStatus

PORTS = [{"front": "http", "port": 8888, "local": 0}, {"front": "tcp", "port": 22, "local": 0}]

SERVICES = {"replayed": "notes", "stateless": "speech", "carried": "kept"}
"""A service of each contract, whose image has the same name."""

CONTRACTS = tuple(SERVICES)
KEEPING = ("replayed", "carried")
"""Those whose services have a state, of which home has a copy."""


class RememberingGuest(ScriptedGuest):
    """A guest that remembers words: the bodies of operations, and the words of `run`."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def freeze(self) -> bytes:
        return json.dumps({"words": self.words, "rest": super().freeze().decode()}).encode()

    def thaw(self, memory: bytes) -> None:
        state = json.loads(memory)
        self.words = state["words"]
        super().thaw(state["rest"].encode())

    def _execute(self, request: AgentFrame, path: bytes) -> None:
        super()._execute(request, path)
        self.words.append(request.payload.split(b"\r\n\r\n", 1)[1].decode())

    def _reply(self, request: AgentFrame) -> bytes:
        if FrameType(request.type) is not FrameType.RUN:
            return super()._reply(request)
        self.words.append(request.payload.decode())
        kind = FrameType.RUN | REPLY_BIT
        return AgentFrame(kind, request.id, number=0, payload=request.payload).encode()


class ContractWorld:
    """Home with a launched service of each contract, surrogates, a stick."""

    def __init__(self, folder: Path) -> None:
        self.plain = World(folder)
        self.folder, self.stick = folder, self.plain.stick
        self.home, self.spots = self.plain.home, self.plain.spots
        self._away: set[str] = set()
        self.roomy = next(iter(self.spots.values())).host.settings.memory_mib
        for place in self.places.values():
            place.driver.guest = RememberingGuest
        fake_image(folder / "h" / "images", "kept", stateful=True)
        path = folder / "h" / "images" / "kept" / "image.json"
        image = json.loads(path.read_text())
        image["recipe"] |= {"contract": "carry", "behind": 1, "read_only": [], "ports": PORTS}
        path.write_text(json.dumps(image))
        for service in SERVICES.values():
            self.home.launch(service)

    @property
    def places(self) -> dict[str, Any]:
        return {"home": self.home, **self.spots}

    def replica(self, service: str, where: str) -> Replica | None:
        """The replica of a service at a place, or None."""
        if where == "home":
            try:
                return self.home.home.service(service).replica()
            except (NotLaunched, NotFoundError):
                return None
        found = [h for h in self.spots[where].host.replicas() if h.manifest.service == service]
        return found[0].replica if found else None

    def tidy(self) -> None:
        """Everybody can be reached, can run machines and has the stick."""
        for spot in self.spots.values():
            spot.driver.lacking, spot.driver.guest = (), RememberingGuest
            spot.host.settings = dataclasses.replace(spot.host.settings, memory_mib=self.roomy)
        for name in sorted(self._away):
            self.mend(name)
        if (self.folder / "pulled").exists():
            self.put_back()

    def cut(self, where: str) -> None:
        """Cut its network."""
        self.places[where].cut()
        self._away.add(where)

    def hang(self, where: str) -> None:
        """Its sshd does nothing more; its kernel still answers."""
        self.places[where].hang()
        self._away.add(where)

    def mend(self, where: str) -> None:
        """It can be reached again."""
        self.places[where].cut()
        self.places[where].mend()
        self._away.discard(where)

    def pull(self) -> None:
        """Take the stick out."""
        self.stick.rename(self.folder / "pulled")
        self.stick.mkdir()

    def put_back(self) -> None:
        shutil.rmtree(self.stick)
        (self.folder / "pulled").rename(self.stick)

    def close(self) -> None:
        self.plain.close()


class Service:
    """One service in one test: uses of it, and the places that remember them."""

    def __init__(self, world: ContractWorld, contract: str) -> None:
        self.world, self.contract = world, contract
        self.name = SERVICES[contract]
        self.home, self.spots, self.stick = world.home, world.spots, world.stick
        self.stateless = contract == "stateless"
        self.settings = world.plain.settings
        self._sessions: list[ContractSession] = []
        self._left: set[str] = set()

    def session(
        self,
        *,
        media: bool | Path = False,
        take_over: bool = False,
        accepted: Any = NO_OVERRIDES,
        trusted: tuple[str, ...] = ("a", "b"),
        service: str | None = None,
        **settings: Any,
    ) -> ContractSession:
        """One that has started. media: the stick, or another one"""
        peers = {
            name: dataclasses.replace(peer, trusted=name in trusted)
            for name, peer in self.settings.surrogates.items()
        }
        changed: ClientSettings = dataclasses.replace(
            self.settings, **{"surrogates": peers, **settings}
        )
        place = self.stick if media is True else media or None
        changed.run.mkdir(parents=True, exist_ok=True)
        made = ContractSession(
            self.contract, changed, self.name if service is None else service, place, self.tell
        )
        try:
            made.start(take_over=take_over, accepted=accepted)
        except BaseException:
            made.close()  # or its links are in the way of the next session's
            raise
        self._sessions.append(made)
        return made

    def carry(self) -> None:
        """Bring home's state onto the stick."""
        self.home.carry(self.name, self.stick)

    def tell(self, where: str, word: str) -> None:
        """Have the machine there hear a word, as programs do that have streams to it."""
        replica = self.world.replica(self.name, where)
        if replica is None:
            raise NotFoundError(f"nothing of {self.name} is at {where}")
        assert replica.run([word], 10.0) == (0, word.encode())

    def knows(self, word: str) -> set[str]:
        """The places with a running machine that remembers it."""
        return {where for where in self.world.places if word in self._words(where)}

    def _words(self, where: str) -> list[str]:
        replica = self.world.replica(self.name, where)
        if replica is None:
            return []
        machines = self.world.places[where].driver.machines
        (*_, newest) = (m for m in machines if m.wiring.run_dir == replica.run_dir)
        return list(newest.guest.words) if newest.state is MachineState.RUNNING else []

    def at(self, where: str) -> list[str]:
        """The replicas at a surrogate."""
        return self.spots[where].replicas()

    def crash(self, where: str) -> None:
        """The machine there ends."""
        self.spots[where].driver.machines[-1].crash("pulled the plug")

    def vanish(self, where: str) -> None:
        """End the machine there, and cut its network."""
        self.crash(where)
        self.world.cut(where)
        self.left_at(where)

    def left_at(self, where: str) -> None:
        """The replica there outlives its session."""
        self._left.add(where)

    @contextmanager
    def held(self, where: str) -> Iterator[threading.Event]:
        """Within it no replica there is said to be up, until the event is set."""
        go, true = threading.Event(), HostedReplica.status

        def status(hosted: HostedReplica) -> ReplicaStatus:
            found = true(hosted)
            if go.is_set() or hosted not in self.spots[where].host.replicas():
                return found
            time.sleep(POLL_SECONDS)
            return dataclasses.replace(found, state="starting")

        with mock.patch.object(HostedReplica, "status", status):
            try:
                yield go
            finally:
                go.set()

    def other_client(self) -> dict[str, Any]:
        """Settings of another device of the same name, with a key of its own."""
        path = self.world.folder / "other"
        other = Identity.open(path) if path.exists() else Identity.create(path)
        self.home.sshd.authorize(other.public)
        folder = self.world.folder / f"o-{self.contract}"
        peer = dataclasses.replace(self.settings.home, identity=other.path)
        return {"home": peer, **{part: folder / part for part in ("data", "state", "run")}}

    def close_sessions(self) -> None:
        while self._sessions:
            self._sessions.pop().close()

    def kill(self, session: ContractSession) -> None:
        """End a session without a message to home or a surrogate."""
        self._sessions.remove(session)
        session.kill()

    def end(self) -> None:
        """Every session ends. Nothing of one is left, whatever happened in it."""
        self.world.tidy()
        self.close_sessions()
        for where in self._left:  # a surrogate would end it much later
            for replica in self.at(where):
                self.spots[where].host.end_every(replica)
        for spot in self.spots.values():
            assert eventually(lambda spot=spot: spot.replicas() == []), spot.folder.name  # type: ignore[misc]
            assert eventually(lambda spot=spot: spot.forwarded() == [])  # type: ignore[misc]


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Run it in a thread; return that and a list that gets its error."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised
