# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session of a carried service: who leads, what home has, what is told when a surrogate is lost.

Home and surrogates are real, their machines are scripted: what a guest knows is a word in memory.
Streams are tests/replay/test_streams.py's, real guests tests/client/test_carried.py's.
"""

import dataclasses
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chunkstore import BlockState
from client.contracts import carried
from client.moves.handing import HOLD
from client.moves.mover import AWAIT_RUNNING
from client.moves.routes import Route
from client.platform.settings import HOME
from client.service import ServiceSession
from client.session.checkpoints import NOTHING, OwnerOverrides
from images import Manifest
from replay.frames import REPLY_BIT, AgentFrame, FrameType
from replica import Replica
from satchel.errors import AccessError, StateError, UnavailableError, UsageError
from satchel.ids import BLOCK_SIZE, CheckpointId
from testbed.roles import client_settings
from tests.client.commands import SATCHEL, Commands
from tests.client.world import World, carried_of, fake_image
from tests.leftovers import SHORT_PREFIX
from tests.scripted import ScriptedGuest
from tests.waiting import PATIENCE_SECONDS, eventually

SERVICE = "kept"

PORTS = [{"front": "http", "port": 8888, "local": 0}, {"front": "tcp", "port": 22, "local": 0}]


class Remembering(ScriptedGuest):
    """A guest that is told words by `run`, and says the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.word = "none"

    def freeze(self) -> bytes:
        return json.dumps({"word": self.word, "rest": super().freeze().decode()}).encode()

    def thaw(self, memory: bytes) -> None:
        state = json.loads(memory)
        self.word = state["word"]
        super().thaw(state["rest"].encode())

    def _reply(self, request: AgentFrame) -> bytes:
        if FrameType(request.type) is not FrameType.RUN:
            return super()._reply(request)
        if request.payload != b"word":
            self.word = request.payload.decode()
        kind = FrameType.RUN | REPLY_BIT
        return AgentFrame(kind, request.id, number=0, payload=self.word.encode()).encode()


class CarriedWorld:
    """The world, and its carried service."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.home, self.spots = self.world.home, self.world.spots
        for driver in (self.home.driver, *(spot.driver for spot in self.spots.values())):
            driver.guest = Remembering
        fake_image(folder / "h" / "images", SERVICE, stateful=True)
        path = folder / "h" / "images" / SERVICE / "image.json"
        image = json.loads(path.read_text())
        image["recipe"] |= {"contract": "carry", "behind": 1, "read_only": [], "ports": PORTS}
        path.write_text(json.dumps(image))
        self.home.launch(SERVICE)
        self._sessions: list[ServiceSession] = []

    def session(
        self,
        *,
        trusted: tuple[str, ...] = ("a", "b"),
        media: Path | Sequence[Path] | None = None,
        accepted: OwnerOverrides = NOTHING,
    ) -> ServiceSession:
        peers = {
            name: dataclasses.replace(peer, trusted=name in trusted)
            for name, peer in self.world.settings.surrogates.items()
        }
        settings = dataclasses.replace(self.world.settings, surrogates=peers)
        made = ServiceSession(settings, SERVICE, media=media)
        try:
            made.start(accepted=accepted)
        except BaseException:
            made.close()  # or its links are in the way of the next session's
            raise
        self._sessions.append(made)
        return made

    def kill(self, session: ServiceSession) -> None:
        """Nothing of that session is there any more, and it has said good-bye to nobody."""
        self._sessions.remove(session)
        carried_of(session)._started = False
        session.close()
        carried_of(session)._shipping.close()

    def replica(self, where: str) -> Replica:
        if where == "home":
            return self.home.home.service(SERVICE).replica()
        (hosted,) = self.spots[where].host.replicas()
        return hosted.replica

    def word(self, where: str) -> str:
        return self.replica(where).run(["word"], 10.0)[1].decode()

    def says(self, where: str, word: str) -> None:
        assert self.replica(where).run([word], 10.0) == (0, word.encode())

    def crash(self, where: str) -> None:
        """Its machine ends."""
        self.spots[where].driver.machines[-1].crash()

    def checkpoints(self) -> list[Manifest]:
        return self.home.home.service(SERVICE).shelf.all()

    def end_sessions(self) -> None:
        """Home leads, with the word that machines begin with."""
        while self._sessions:
            self._sessions.pop().close()
        self.says("home", "none")

    def close(self) -> None:
        self.end_sessions()
        self.world.close()


@pytest.fixture(scope="module")
def everything() -> Iterator[CarriedWorld]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    made = CarriedWorld(folder)
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture
def kept(everything: CarriedWorld) -> Iterator[CarriedWorld]:
    yield everything
    everything.end_sessions()


def copied(session: ServiceSession, more: int = 1) -> bool:
    """Wait until home has that many more copies."""
    wanted = session.status()["deltas"] + more
    return eventually(lambda: session.status()["deltas"] >= wanted)


@contextmanager
def no_copies(session: ServiceSession) -> Iterator[None]:
    """Within it nothing goes home by itself."""
    with carried_of(session)._changing:
        assert carried_of(session)._shipping.wait(PATIENCE_SECONDS)
        yield


def test_what_a_machine_touched_at_home_is_there_before_it_leads(kept: CarriedWorld) -> None:
    """The first answers of a machine that was moved waited 15 s for blocks of home's."""
    session = kept.session()
    with (kept.replica("home").run_dir / "memory" / "ram").open("r+b") as memory:
        memory.seek(1000 * BLOCK_SIZE)
        memory.write(b"of use" * 500)
    session.move("a")
    block = kept.replica("a").volumes()["ram"].map.entry(1000)
    assert block.state is not BlockState.ABSENT


def test_copies_become_checkpoints_that_home_signs(kept: CarriedWorld) -> None:
    session = kept.session()
    session.move("a")
    before = [manifest.id for manifest in kept.checkpoints()]
    kept.says("a", "new")
    assert copied(session, more=2)
    with no_copies(session):
        newest = session.manifest
        assert kept.checkpoints()[-1] == newest
    assert newest.id not in before
    status = session.status()
    assert status["copies"][0]["place"] == "home"
    assert status["copies"][0]["seconds_behind"] >= 0
    assert status["delta_failure"] is None


def test_home_goes_on_from_the_newest_copy_when_a_surrogate_is_lost(kept: CarriedWorld) -> None:
    session = kept.session()
    session.move("a")
    kept.says("a", "copied")
    assert copied(session, more=2)
    kept.crash("a")
    kept.spots["a"].cut()
    assert eventually(lambda: carried_of(session).losses)
    (loss,) = carried_of(session).losses
    assert loss.surrogate == "a"
    assert loss.since < loss.until
    assert session.leader == "home"
    assert kept.word("home") == "copied"
    assert str(loss) in session.status()["losses"]
    kept.spots["a"].mend()


def test_a_session_goes_along_to_trusted_surrogates_and_stays_a_while(kept: CarriedWorld) -> None:
    session = kept.session(trusted=("a",))
    contract = carried_of(session)
    assert contract.held_seconds("b") is None
    assert contract.held_seconds("a") == carried.HELD_SECONDS
    before = contract.use().exchanges
    went = session.move("a", traced=True)
    assert contract.held_seconds("a") is None
    contract._led_since -= carried.STAY_SECONDS
    assert contract.held_seconds("a") == went.held_seconds
    assert contract.use().exchanges == before
    assert [route.route for route in session.plan("b").routes] == [Route.HANDOVER]
    with pytest.raises(StateError, match="cannot go there by replay"):
        contract.admit(HOME, Route.REPLAY)
    hosts = {host["host"]: host["spans"] for host in session.trace.to_json()}
    assert set(hosts) == {"client", "home", "a"}
    assert all(hosts.values())
    assert {HOLD, AWAIT_RUNNING} <= {span["name"] for span in hosts["client"]}


def test_the_old_leader_goes_on_where_the_new_one_does_not_come_up(
    kept: CarriedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = kept.session()
    session.move("a")
    kept.says("a", "kept")

    def refuse(*_: Any, **__: Any) -> None:
        raise UsageError("this delta is of no use")

    monkeypatch.setattr("surrogate.replicas.carried.Standby.take", refuse)
    with pytest.raises(UsageError):
        session.move("b")
    assert session.leader == "a"
    assert kept.word("a") == "kept"
    assert kept.spots["b"].replicas() == []
    monkeypatch.undo()
    session.move("b")
    assert kept.word("b") == "kept"


def test_commands_use_it_as_any_service(kept: CarriedWorld) -> None:
    settings = kept.world.settings
    peers = {"home": settings.home}
    for name, peer in settings.surrogates.items():
        peers[f"surrogates.{name}"] = dataclasses.replace(peer, trusted=name == "b")
    config = kept.world.folder / "client.toml"
    where = {name: getattr(settings, name) for name in ("run", "data", "state", "allowed_signers")}
    config.write_text(client_settings(peers, **where))
    satchel = Commands(config)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    words = [str(SATCHEL), "--config", str(config), "run", SERVICE, "--at", "b"]
    words += ["--port", f"{free}:22"]
    with (kept.world.folder / "session.log").open("wb") as log:
        session = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        check_commands(kept, satchel)
        assert session.wait(PATIENCE_SECONDS) == 0
    finally:
        session.kill()
        session.wait()
    said = (kept.world.folder / "session.log").read_text()
    assert "http://127.0.0.1:" in said
    assert f"tcp://127.0.0.1:{free}" in said
    assert kept.word("home") == "by commands"


def check_commands(kept: CarriedWorld, satchel: Commands) -> None:
    """Of a session that was told to go to b, until it has ended."""

    def at_b() -> bool:
        done = satchel.types("status", SERVICE, "--json")
        return done.returncode == 0 and json.loads(done.stdout)["leader"] == "b"

    assert eventually(at_b, 3 * PATIENCE_SECONDS)
    shown = satchel.types("status", SERVICE).stdout
    assert "leader" in shown
    assert "tcp://127.0.0.1:" in shown
    ports = satchel.sees("status", SERVICE)["ports"]
    assert [(port["front"], port["port"]) for port in ports] == [("http", 8888), ("tcp", 22)]
    refused = satchel.types("move", SERVICE, "--to", "a")
    assert refused.returncode == AccessError.exit_code
    assert "trusted = true" in refused.stderr
    kept.says("b", "by commands")
    assert satchel.sees("move", SERVICE, "--to", "home")["surrogate"] == "home"
    (plan,) = satchel.sees("plan", SERVICE, "--at", "a")["plans"]
    assert [route["route"] for route in plan["routes"]] == ["fresh"]
    check_the_doctor(satchel)
    assert satchel.sees("stop", SERVICE) == {"stopped": SERVICE}


def check_the_doctor(satchel: Commands) -> None:
    """A copy at home is visited. No port of a scripted guest answers."""
    done = satchel.types("doctor", SERVICE, "--json")
    assert done.returncode == UnavailableError.exit_code
    report = json.loads(done.stdout)
    assert (report["differs"], report["first_operation"]) == (None, None)
    assert [(one["port"], one["seconds"]) for one in report["ports"]] == [(8888, None), (22, None)]
    shown = satchel.types("doctor", SERVICE).stdout.splitlines()
    assert shown[0].startswith(f"a copy of checkpoint {report['checkpoint'][:12]} ran after ")
    assert shown[1].startswith("port 8888 (http) did not answer: ")


def test_who_leads_is_not_moved_to_where_it_is(kept: CarriedWorld) -> None:
    session = kept.session()
    with pytest.raises(StateError, match="is at home already"):
        session.move("home")


def test_home_takes_no_delta_that_leads_elsewhere(kept: CarriedWorld) -> None:
    session = kept.session()
    session.move("a")
    with no_copies(session):
        check_deltas_are_looked_at(kept, session)


def check_deltas_are_looked_at(kept: CarriedWorld, session: ServiceSession) -> None:
    """What leads elsewhere, or comes in no order, leaves home as it was."""
    (hosted,) = kept.spots["a"].host.replicas()
    kept.says("a", "true")
    made = hosted.deltas.make(session.manifest.volumes)
    http, path = carried_of(session)._home.link.http, f"/v1/services/{SERVICE}/deltas/{made.digest}"
    volumes = made.offer(hold=False)["volumes"]
    good = {"parent": session.manifest.id, "volumes": volumes}
    with pytest.raises(Exception, match="damaged"):
        http.post_json(f"{path}/keep", good)
    half = len(made.data) // 2
    http.post_bytes(f"{path}?offset=0", made.data[:half])
    assert http.get_json(path)["size"] == half
    with pytest.raises(Exception, match="not due"):
        http.post_bytes(f"{path}?offset={half + 1}", made.data[half:])
    http.post_bytes(f"{path}?offset={half}", made.data[half:])
    before = [manifest.id for manifest in kept.checkpoints()]
    false = volumes | {"ram": kept.checkpoints()[0].volumes["ram"].to_json()}
    with pytest.raises(Exception, match="is not what it says"):
        http.post_json(f"{path}/keep", good | {"volumes": false})
    with pytest.raises(Exception, match="later state"):
        http.post_json(f"{path}/keep", good | {"parent": CheckpointId("0" * 16)})
    assert [manifest.id for manifest in kept.checkpoints()] == before
    kept_one = http.post_json(f"{path}/keep", good)
    assert Manifest.from_bytes(kept_one["manifest"].encode()).volumes == made.frozen.volumes
