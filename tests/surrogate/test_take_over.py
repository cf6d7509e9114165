# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate that is killed and started again: its machines go on, and it goes on with them."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import pytest

from chunkstore import Store
from replay import Operation, Response, encode_operations, responses_in
from replay.adapters import http
from replica import sweep
from satchel.errors import AccessError, NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber, ReplicaId
from surrogate.operator import credentials
from surrogate.tenants.register import folder_name
from tests.leftovers import below
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.surrogate.sources import StoreSource
from tests.waiting import eventually
from wire import (
    CreateReplica,
    HttpClient,
    ReplicaStatus,
    Server,
    SourceAddress,
    chunk_routes,
    install_errors,
    serve,
)

pytestmark = [requires(*MACHINE), pytest.mark.machine]

REPLICA = "r1"
LAPTOP = "laptop:1"
PATIENCE = 300.0


class Spot:
    """`satchel-surrogate serve` as a process of its own, and a home in this one."""

    def __init__(self, folder: Path, checkpoint: NotesCheckpoint) -> None:
        self.folder = folder
        self.checkpoint = checkpoint
        self.store = Store.open(checkpoint.copy_store(folder / "home"))
        self.source = StoreSource("home", self.store)
        self.run = folder / "run"
        self.forwarded = self.run / "f" / folder_name(LAPTOP)
        self.forwarded.mkdir(parents=True, mode=0o700)
        self.offer = self.forward()
        settings = f'data = "{folder / "data"}"\nrun = "{self.run}"\nallow-emulation = true\n'
        (folder / "satchel").mkdir()
        (folder / "satchel" / "surrogate.toml").write_text(settings)
        self.http = HttpClient(self.run / "none")  # of the tenant, from `start` on
        self.daemon: subprocess.Popen[bytes] | None = None

    def forward(self) -> Server:
        app = flask.Flask("source")
        install_errors(app)
        app.register_blueprint(chunk_routes(self.source.fetch))
        return serve(app, self.forwarded / "h", threads=4, max_body=1 << 20)

    def start(self, *command: str) -> None:
        program = command or (str(Path(sys.executable).parent / "satchel-surrogate"), "serve")
        environment = os.environ | {"XDG_CONFIG_HOME": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(program, env=environment, stderr=log)
        assert eventually(self.answers, PATIENCE), (self.folder / "log").read_text()
        self.http.close()
        self.http = HttpClient(self.admit(LAPTOP), peer="the surrogate")

    def operator(self, *command: str) -> Any:
        """What a command of the operator's says, as JSON."""
        program = str(Path(sys.executable).parent / "satchel-surrogate")
        environment = os.environ | {"XDG_CONFIG_HOME": str(self.folder)}
        argv = [program, *command, "--json"]
        done = subprocess.run(
            argv, env=environment, check=False, capture_output=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def admit(self, identity: str) -> Path:
        """The socket of that tenant."""
        headers = credentials(self.run) | {"Content-Type": "application/json"}
        body = json.dumps({"identity": identity}).encode()
        with HttpClient(self.run / "surrogate.sock") as daemon:
            answer = daemon.request("POST", "/v1/tenants", body=body, headers=headers)
        return Path(json.loads(answer.body)["socket"])

    def answers(self) -> bool:
        with (
            contextlib.suppress(UnavailableError, OSError),
            HttpClient(self.run / "surrogate.sock") as daemon,
        ):
            daemon.request("GET", "/v1/status", headers=credentials(self.run))
            return True
        return False

    def kill(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def leave(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGHUP)
        assert self.daemon.wait(PATIENCE) == 0

    def end(self) -> None:
        assert self.daemon is not None
        self.daemon.terminate()
        assert self.daemon.wait(PATIENCE) == 0

    def create(self, replica: str = REPLICA) -> ReplicaStatus:
        manifest = self.checkpoint.manifest.to_json()
        source = SourceAddress("home", str(self.offer.path))
        request = CreateReplica(ReplicaId(replica), "notes", manifest, (source,))
        self.http.post_json("/v1/replicas", request.to_json())
        assert eventually(lambda: self.status(replica, 10).state != "starting", PATIENCE)
        return self.status(replica)

    def status(self, replica: str = REPLICA, wait: int = 0) -> ReplicaStatus:
        answer = self.http.get_json(f"/v1/replicas/{replica}?wait={wait}", timeout=90)
        return ReplicaStatus.from_json(answer)

    def execute(self, *operations: Operation) -> list[Response]:
        body = encode_operations(operations)
        path = f"/v1/replicas/{REPLICA}/operations"
        return list(responses_in([self.http.post_bytes(path, body, timeout=None)]))

    def pids(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.run / "r").glob("*/*.pid")}

    def close(self) -> None:
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        if self.source.silent:
            self.source.silent.set()
        sweep(self.run / "r")
        self.http.close()
        self.offer.close()
        self.store.close()


@pytest.fixture
def spot(short_path: Path, notes_checkpoint: NotesCheckpoint) -> Iterator[Spot]:
    made = Spot(short_path, notes_checkpoint)
    yield made
    made.close()


def note(number: int) -> Operation:
    body = f'{{"title": "note {number}", "text": "at the hotspot"}}'.encode()
    payload = http.encode("POST", "/api/notes", [], body, number=number, time_ns=1, seed=number)
    return Operation(OperationNumber(number), 1, number, payload)


def test_machines_go_on_and_a_miss_under_way_is_answered_by_the_next_daemon(spot: Spot) -> None:
    spot.start()
    status = spot.create()
    assert status.state == "ready", status.error
    last = status.last_operation
    assert [answer.number for answer in spot.execute(note(last + 1))] == [last + 1]
    pids = spot.pids()
    assert {"qemu.pid", "nbdkit.pid", "memory.pid"} <= set(pids)

    spot.source.silent = threading.Event()  # the next operation waits for a block
    lost: list[BaseException] = []

    def ask() -> None:
        try:
            spot.http.post_json(f"/v1/replicas/{REPLICA}/digest", {"paths": ["/usr/bin"]})
        except SatchelError as error:
            lost.append(error)

    asked = len(spot.source.asked)
    reader = threading.Thread(target=ask)
    reader.start()
    assert eventually(lambda: len(spot.source.asked) > asked)
    spot.kill()
    reader.join(30)
    assert isinstance(lost[0], UnavailableError)
    spot.source.silent.set()
    spot.source.silent = None

    spot.start()
    assert spot.pids() == pids
    status = spot.status()
    assert (status.state, status.last_operation) == ("ready", last + 1)
    again = spot.execute(note(last + 1), note(last + 2))
    assert [answer.number for answer in again] == [last + 1, last + 2]
    assert [http.decode(answer.payload).status for answer in again] == [201, 201]
    assert spot.status().last_operation == last + 2
    spot.leave()
    assert spot.pids() == pids
    spot.start()
    assert [answer.number for answer in spot.execute(note(last + 3))] == [last + 3]
    assert spot.pids() == pids
    assert [row["replica"] for row in spot.operator("ls")] == [REPLICA]
    assert spot.operator("end", REPLICA) == {"ended": REPLICA}
    assert spot.operator("ls") == []
    assert spot.operator("status")["replicas"] == []
    assert below(spot.run / "r") == []
    spot.end()


def test_a_client_that_is_away_meanwhile_is_asked_again_when_it_is_back(spot: Spot) -> None:
    spot.start()
    assert spot.create().state == "ready"
    spot.kill()
    spot.offer.close()
    assert not spot.offer.path.exists()

    def back() -> None:
        spot.offer = spot.forward()

    soon = threading.Timer(10.0, back)  # the surrogate has looked for it by then
    soon.start()
    spot.start()
    soon.join()
    asked = len(spot.source.asked)
    path = f"/v1/replicas/{REPLICA}/digest"
    assert spot.http.post_json(path, {"paths": ["/usr/bin"]}, timeout=PATIENCE)["digest"]
    assert len(spot.source.asked) > asked
    spot.end()


WITHOUT_PAGES = """
import sys
from surrogate.__main__ import main
from surrogate.fetching import ChunksUnavailable, Fetcher

def pages(self, root, blocks, priority=None):
    raise ChunksUnavailable("the pages cannot be had")

Fetcher.pages = pages
sys.argv[1:] = ["serve"]
main()
"""


def test_a_hand_over_that_fails_before_the_freeze_leaves_a_machine_that_can_be_taken_over(
    spot: Spot,
) -> None:
    spot.start(sys.executable, "-c", WITHOUT_PAGES)
    last = spot.create().last_operation
    spot.execute(note(last + 1))
    pids = spot.pids()
    with pytest.raises(UnavailableError, match="the pages cannot be had"):
        spot.http.post_json(f"/v1/replicas/{REPLICA}/hand-over", {}, timeout=PATIENCE)
    spot.kill()
    spot.start()
    assert spot.pids() == pids
    status = spot.status()
    assert (status.state, status.last_operation) == ("ready", last + 1)
    assert [answer.number for answer in spot.execute(note(last + 2))] == [last + 2]
    spot.end()


def test_a_machine_that_ended_meanwhile_is_cleared(spot: Spot) -> None:
    spot.start()
    assert spot.create().state == "ready"
    spot.kill()
    os.kill(int(spot.pids()["qemu.pid"]), signal.SIGKILL)
    spot.start()
    with pytest.raises(NotFoundError):
        spot.status()
    assert below(spot.run / "r") == []
    assert list((spot.run / "r").iterdir()) == []
    spot.end()


def test_the_operator_sees_ends_and_bans_a_tenant_also_after_a_restart(spot: Spot) -> None:
    spot.start()
    place = spot.admit("anna.cafe")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    told = spot.operator("tenants")
    assert [tenant["identity"] for tenant in told["tenants"]] == ["account", LAPTOP, "anna.cafe"]
    assert spot.operator("tenants", "end", "anna.cafe") == {"ended": "anna.cafe"}
    assert not place.exists()
    spot.operator("tenants", "ban", "anna.cafe")
    with HttpClient(spot.run / "metrics.sock") as metrics:
        assert b"satchel_replicas" in metrics.request("GET", "/metrics").body
    spot.end()
    spot.start()
    with pytest.raises(AccessError, match="banned"):
        spot.admit("anna.cafe")
    assert spot.operator("tenants")["banned"] == ["anna.cafe"]
    spot.operator("tenants", "unban", "anna.cafe")
    assert spot.admit("anna.cafe").exists()
    spot.end()
