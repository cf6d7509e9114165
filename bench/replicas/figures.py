# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How fast a replica that lags is brought up to date, and what a move costs its users.

Moves are in bench.replicas.moves.

A surrogate executes the log of `notes` in three ways, each on a fresh replica:

- the client's feed replays it, as after a move
- a client sends each operation after the previous response
- the host executes the operations directly, without a network

The users' pauses of ten seconds are skipped. The client reaches the surrogate's socket without
OpenSSH. Builds the image if it is missing.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import flask

from bench.harness import Figure, figure
from bench.notes import SERVICE, add_note, notes_home
from bench.replicas.moves import moves
from chunkstore import answering_places
from client import Journal, Session, Surrogate
from hypervisor import QemuDriver
from images import Manifest
from replay import Operation
from satchel.ids import OperationNumber, ReplicaId
from surrogate import Host, SurrogateSettings, surrogate_app
from wire import CreateReplica, HttpClient, Link, SourceAddress, chunk_routes, serve

OPERATIONS = 300
QUICK_OPERATIONS = 64
ROUNDS = 3
THINK_SECONDS = 10
GOAL = 0.9
WAIT_SECONDS = 300.0
MAX_BODY = 256 << 20


def replay(quick: bool) -> Iterator[Figure]:
    """The part `replay`."""
    return _figures(QUICK_OPERATIONS if quick else OPERATIONS, 1 if quick else ROUNDS)


@dataclass(frozen=True)
class _LocalLink:
    """A link to a socket of this machine."""

    http: HttpClient
    lost_seconds = 10.0

    def connect(self) -> None:
        """It is there."""


class _Spot:
    """A surrogate whose chunks come from home, and the fresh replicas that it makes."""

    def __init__(self, folder: Path, manifest: Manifest, chunks: Path) -> None:
        settings = SurrogateSettings(
            data=folder / "data", run=folder / "run", name="spot", allow_emulation=True
        )
        self.host = Host(settings, QemuDriver())
        self.socket = folder / "run" / "api.sock"
        self._manifest = manifest
        self._source = SourceAddress("home", str(chunks))
        self._names = (ReplicaId(f"bench-{n}") for n in itertools.count())

    def fresh(self) -> ReplicaId:
        """Nothing executed yet, and nothing left to be fetched ahead."""
        name, manifest = next(self._names), self._manifest.to_json()
        request = CreateReplica(name, SERVICE, manifest, (self._source,))
        hosted = self.host.create(request)
        hosted.wait_started(WAIT_SECONDS)
        while hosted.status().quiet_seconds:
            time.sleep(0.05)
        return name

    def endpoint(self, replica: ReplicaId) -> Surrogate:
        link = cast(Link, _LocalLink(HttpClient(self.socket, peer="spot")))
        return Surrogate("spot", link, replica, SERVICE, stateful=True)


def _figures(count: int, rounds: int) -> Iterator[Figure]:
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-bench-"))
        folder = Path(name)
        home = stack.enter_context(notes_home(folder))
        home.add_service(SERVICE, SERVICE)
        home.service(SERVICE).launch()
        manifest = home.service(SERVICE).checkpoint().manifest
        home.service(SERVICE).stop()
        forwarded = SurrogateSettings(data=folder / "s", run=folder / "s" / "run").forwarded
        forwarded.mkdir(parents=True, mode=0o700)
        chunks = forwarded / "h"
        source = flask.Flask("source")
        records = home.store.records
        source.register_blueprint(chunk_routes(records, answering_places(records)))
        stack.enter_context(serve(source, chunks, threads=8, max_body=MAX_BODY))
        spot = _Spot(folder / "s", manifest, chunks)
        stack.callback(spot.host.close)
        app = surrogate_app(spot.host)
        stack.enter_context(serve(app, spot.socket, threads=8, max_body=MAX_BODY))
        log = [_thoughtful(number) for number in range(1, count + 1)]
        yield from _compare(spot, folder, log, rounds)


def _compare(spot: _Spot, folder: Path, log: Sequence[Operation], rounds: int) -> Iterator[Figure]:
    ways: dict[str, Callable[[ReplicaId], float]] = {
        "replayed": lambda replica: _replay(spot, replica, folder, log),
        "sent": lambda replica: _send(spot, replica, log),
        "executed": lambda replica: _execute(spot, replica, log),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    first = spot.fresh()
    _execute(spot, first, log)  # fills the cache for all three
    spot.host.remove(first)
    for _ in range(rounds):
        for way, run in ways.items():
            replica = spot.fresh()
            seconds[way].append(run(replica))
            assert spot.host.replica(replica).status().last_operation == log[-1].number
            spot.host.remove(replica)
    rate = {way: len(log) / sorted(took)[len(took) // 2] for way, took in seconds.items()}
    sent = ("the same sent back to back", rate["sent"])
    yield figure("replay of a log", rate["replayed"], "operations/s", against=sent, at_least=GOAL)
    executed = ("the same executed beside the machine", rate["executed"])
    yield figure(
        "replay of a log, strictly",
        rate["replayed"],
        "operations/s",
        against=executed,
        at_least=GOAL,
    )
    thought = ("the session's own time", float(THINK_SECONDS * len(log)))
    yield figure("replay of a session", len(log) / rate["replayed"], "s", against=thought)


def _replay(spot: _Spot, replica: ReplicaId, folder: Path, log: Sequence[Operation]) -> float:
    """Seconds until a feed has brought the replica to the journal's end."""
    place = folder / f"log-{replica}"
    journal = Journal(place, place, "off")
    journal.extend(log)
    session = Session(journal, stateful=True, response_seconds=WAIT_SECONDS)
    began = time.monotonic()
    feed = session.add(spot.endpoint(replica), OperationNumber(0))
    while feed.cursor < log[-1].number:
        assert feed.error is None, feed.error
        time.sleep(0.005)
    seconds = time.monotonic() - began
    session.close()
    return seconds


def _send(spot: _Spot, replica: ReplicaId, log: Sequence[Operation]) -> float:
    endpoint = spot.endpoint(replica)
    began = time.monotonic()
    for operation in log:
        list(endpoint.execute([operation]))
    return time.monotonic() - began


def _execute(spot: _Spot, replica: ReplicaId, log: Sequence[Operation]) -> float:
    hosted = spot.host.replica(replica)
    began = time.monotonic()
    for operation in log:
        list(hosted.answer([operation]))
    return time.monotonic() - began


def _thoughtful(number: int) -> Operation:
    """Return this operation, after a pause to think."""
    return add_note(number, after_seconds=number * THINK_SECONDS)


PARTS = {"replay": replay, "moves": moves}
