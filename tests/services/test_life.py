# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A carried guest after a resume: its clock is right, it draws what no other machine draws, and its
memory, disk and timers are as they were.

SATCHEL_MOVES: how often the service moves, by default 100; 1,000 before a release.
"""

import base64
import datetime
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from homeserver.services.machines import PreparedReplica
from images import build, target
from replay import agent_program
from replica import Replica
from testbed.built import cache_folder
from tests.client.carried import CarriedWorld, carried_world
from tests.client.world import carried_of
from tests.machines import MACHINE
from tests.needs import requires
from tests.services import life
from tests.waiting import eventually

MOVES = int(os.environ.get("SATCHEL_MOVES", "100"))

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    pytest.mark.timeout(600 + 90 * MOVES),
    requires(*MACHINE, "apt-get", "sshd", "ssh"),
]

CLOSE_SECONDS = 1.0
DAY = 86_400.0
INSIDE = "/usr/lib/life/life.py"
PORT = 7000
RECIPE = f"""
name = "life"
extends = "base"
packages = ["stress-ng", "memtester"]
command = "exec /usr/bin/python3 {INSIDE} serve {PORT}"
port = {PORT}
contract = "carry"
behind = 600
memory-mib = 256
disk-mib = 1024
ports = [{{ front = "tcp", port = {PORT} }}]
state = ["/var/lib/life"]
"""


def make_image(folder: Path) -> None:
    inside = folder / "life" / "files" / "usr" / "lib" / "life"
    inside.mkdir(parents=True)
    (folder / "life" / "files" / "var" / "lib" / "life").mkdir(parents=True)
    (folder / "life" / "files" / "var" / "lib" / "life" / "README").write_text("state\n")
    (folder / "life" / "recipe.toml").write_text(RECIPE)
    shutil.copy(life.__file__, inside)
    build(target(str(folder / "life")), cache_folder() / "life", agent=agent_program())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CarriedWorld]:
    make_image(tmp_path)
    with carried_world("life") as made:
        yield made


def made_now() -> str:
    """A certificate that is valid from this moment, and its key: PEM, in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "life")])
    now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("life")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return base64.b64encode(private + made.public_bytes(serialization.Encoding.PEM)).decode()


class Guest:
    """The service, asked by `ask`; and all that it has drawn, with every other guest of a test."""

    drawn: set[str]

    def __init__(self, ask: Any, drawn: set[str]) -> None:
        self.ask, self.drawn = ask, drawn

    def behind(self) -> float:
        """By how many seconds its clock is away from this host's."""
        before = time.time()
        now = float(self.ask("now")[0])
        return max(before - now, now - time.time(), 0.0)

    def check(self) -> None:
        """Its clock, its randomness, a handshake, and what checks itself inside."""
        assert self.behind() < CLOSE_SECONDS
        numbers = self.ask("draw")
        assert not self.drawn & set(numbers)
        self.drawn.update(numbers)
        version, _ = self.ask("trust", made_now())
        assert version == "TLSv1.3"
        assert self.ask("state")["failures"] == []


def test_a_service_that_moves_often_notices_nothing(world: CarriedWorld) -> None:
    session = world.session()
    guest = Guest(lambda *words: life.ask(session.port, *words), set())
    began = guest.ask("state")
    words: list[str] = []
    for number, place in zip(range(MOVES), itertools.cycle(("a", "b", "home")), strict=False):
        guest.ask("arm", f"timer{number}", "3")
        moved = session.move(place)
        guest.check()
        words.append(f"word{number}")
        rows = guest.ask("add", words[-1])
        assert (rows["words"], rows["sound"]) == (words, "ok")
        state = guest.ask("state")
        assert (state["nonce"], state["boot"]) == (began["nonce"], began["boot"])
        print(f"{number}: to {place} in {moved.seconds:.1f} s", flush=True)
    fired = {f"timer{number}": 1 for number in range(MOVES)}
    assert eventually(lambda: guest.ask("state")["fired"] == fired)
    assert carried_of(session).relay.counts().reset == 0


class HostClock:
    """The wall clock of this process, ahead by so many seconds: it is put, or the host slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        seconds, nanoseconds = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: seconds() + self.ahead)
        monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + round(self.ahead * 1e9))


def guest_in(replica: Replica, drawn: set[str]) -> Guest:
    def ask(*words: str) -> Any:
        argv = ["/usr/bin/python3", INSIDE, "ask", str(PORT), *words]
        status, said = replica.run(argv, 300.0)
        assert status == 0, said.decode()
        return json.loads(said)

    return Guest(ask, drawn)


def started(prepared: PreparedReplica) -> Replica:
    prepared.start()
    return prepared.replica


def test_one_checkpoint_twice_at_once_later_and_after_a_sleep(
    world: CarriedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, drawn = HostClock(monkeypatch), set[str]()
    service = world.home.home.service("life")
    first = guest_in(service.replica(), drawn)
    first.check()
    began = first.ask("state")
    first.ask("arm", "over", "600")
    first.ask("arm", "soon", "5")
    manifest = service.checkpoint().manifest
    service.stop()
    machines, record = service._machines, service.record

    def resumed() -> PreparedReplica:
        return machines.resume(manifest, record)

    def check(guest: Guest) -> None:
        guest.check()
        state = guest.ask("state")
        assert (state["nonce"], state["boot"]) == (began["nonce"], began["boot"])
        assert eventually(lambda: guest.ask("state")["fired"] == {"over": 0, "soon": 1})
        assert guest.ask("add", "one") == {"words": ["one"], "sound": "ok"}

    with ThreadPoolExecutor() as pool:
        pair = list(pool.map(started, [resumed(), resumed()]))
    for replica in pair:
        check(guest_in(replica, drawn))
    for replica in pair:
        replica.stop()
    clock.ahead = 30 * DAY
    replica = started(resumed())
    guest = guest_in(replica, drawn)
    check(guest)
    clock.ahead += DAY / 3
    assert eventually(lambda: guest.behind() < CLOSE_SECONDS), "the host was asleep"
    check_again(guest)
    replica.checkpoint(hold=True)
    time.sleep(5.0)
    replica.go_on()
    check_again(guest)
    machine = replica._machine
    assert machine is not None
    os.kill(machine.pid, signal.SIGSTOP)
    time.sleep(5.0)
    os.kill(machine.pid, signal.SIGCONT)
    check_again(guest)


def check_again(guest: Guest) -> None:
    guest.check()
    assert guest.ask("state")["fired"] == {"over": 0, "soon": 1}
