# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real machine on a surrogate: resumed lazily, ended in time when its chunks cannot be had."""

import time
from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from chunkstore import Store
from hypervisor import QemuDriver
from replay import Operation
from replay.adapters import http
from satchel.errors import SatchelError, UnavailableError
from satchel.ids import OperationNumber, ReplicaId
from surrogate import Host, SurrogateSettings
from surrogate.fetching import fetcher
from surrogate.replicas.hosted import HostedReplica
from tests.machines import MACHINE, START_SECONDS, NotesCheckpoint
from tests.needs import requires
from tests.surrogate.sources import StoreSource, flipped
from wire import CreateReplica, SourceAddress, chunk_routes, install_errors, serve

pytestmark = [requires(*MACHINE), pytest.mark.machine]


class Spot:
    """A host for real machines, whose one source is a store."""

    def __init__(
        self, folder: Path, checkpoint: NotesCheckpoint, operation_seconds: float = 300.0
    ) -> None:
        self.checkpoint = checkpoint
        self.store = Store.open(checkpoint.copy_store(folder / "home"))
        self.source = StoreSource("home", self.store)
        self.settings = SurrogateSettings(
            data=folder / "data",
            run=folder / "run",
            name="spot",
            allow_emulation=True,
            operation_seconds=operation_seconds,
        )
        self.host = Host(self.settings, QemuDriver())
        app = flask.Flask("source")
        install_errors(app)
        app.register_blueprint(chunk_routes(self._records))
        self.server = serve(app, self.settings.forwarded / "h", threads=4, max_body=1 << 20)

    def _records(self, refs: bytes) -> bytes:
        """Of the source as it is now: tests replace its `fetch`."""
        return self.source.fetch(refs)

    def create(self, name: str, seconds: float = START_SECONDS) -> HostedReplica:
        manifest = self.checkpoint.manifest.to_json()
        source = SourceAddress("home", str(self.server.path))
        hosted = self.host.create(CreateReplica(ReplicaId(name), "notes", manifest, (source,)))
        hosted.wait_started(seconds)
        return hosted

    def close(self) -> None:
        self.host.close()
        self.server.close()
        self.store.close()


@pytest.fixture
def spot(short_path: Path, notes_checkpoint: NotesCheckpoint) -> Iterator[Spot]:
    made = Spot(short_path, notes_checkpoint)
    yield made
    made.close()


def note(number: int, title: str) -> Operation:
    body = f'{{"title": "{title}", "text": "at the hotspot"}}'.encode()
    time_ns, seed = time.time_ns(), number
    payload = http.encode("POST", "/api/notes", [], body, number=number, time_ns=time_ns, seed=seed)
    return Operation(OperationNumber(number), time_ns, seed, payload)


def test_notes_is_resumed_from_chunks_that_come_as_they_are_needed(spot: Spot) -> None:
    hosted = spot.create("r1")
    assert hosted.status().state == "ready", hosted.status().error
    answers = list(hosted.answer([note(1, "first"), note(2, "second")]))
    assert [http.decode(answer.payload).status for answer in answers] == [201, 201]
    status = hosted.status()
    assert status.first_response_bytes is not None
    assert status.first_response_bytes["home"] < 0.5 * spot.store.stats().pack_bytes
    spot.host.remove("r1")
    assert list((spot.settings.run / "r").iterdir()) == []


def test_a_first_operation_may_wait_long_for_its_blocks(
    short_path: Path, notes_checkpoint: NotesCheckpoint
) -> None:
    def slow(records: bytes) -> bytes:
        time.sleep(0.1)
        return records

    limit = 0.3
    spot = Spot(short_path, notes_checkpoint, operation_seconds=limit)
    try:
        spot.source.spoil = slow
        hosted = spot.create("r1")
        began = time.monotonic()
        (answer,) = list(hosted.answer([note(1, "first")]))
        assert time.monotonic() - began > limit, "the link was too fast to show anything"
        assert http.decode(answer.payload).status == 201
    finally:
        spot.close()


def test_a_second_replica_is_fed_from_the_cache(spot: Spot) -> None:
    list(spot.create("r1").answer([note(1, "first")]))
    hosted = spot.create("r2")
    list(hosted.answer([note(1, "first")]))
    fetched = sum(hosted.status().fetched_bytes.values())
    assert fetched < 0.1 * sum(spot.host.replica("r1").status().fetched_bytes.values()) + 300_000


def test_a_machine_whose_chunks_cannot_be_had_ends_in_time_and_says_why(
    spot: Spot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 2.0)
    asked = 0

    def some(refs: bytes, *rest: object) -> bytes:
        nonlocal asked
        asked += 1
        if asked > 8:
            raise UnavailableError("the link is gone")
        return spot.store.records(refs)

    spot.source.fetch = some  # type: ignore[method-assign, assignment]
    hosted = spot.create("r1", seconds=5 * START_SECONDS)
    status = hosted.status()
    assert status.state == "failed"
    assert status.error is not None
    assert "chunks cannot be had: home: the link is gone" in str(status.error.to_error())
    assert list((spot.settings.run / "r").iterdir()) == []
    assert status.faults["home"] > 0


def test_a_machine_whose_source_lies_never_runs_on_what_it_says(
    spot: Spot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 2.0)
    spot.source.spoil = flipped
    hosted = spot.create("r1", seconds=5 * START_SECONDS)
    status = hosted.status()
    assert status.state == "failed"
    assert status.faults["home"] > 0


def test_a_guest_that_reads_what_nobody_has_gets_an_error_in_time(
    spot: Spot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 2.0)
    hosted = spot.create("r1")
    spot.source.dead = True
    began = time.monotonic()
    with pytest.raises(SatchelError):
        hosted.replica.digest(["/usr"])
    assert time.monotonic() - began < 100
    spot.host.remove("r1")
    assert list((spot.settings.run / "r").iterdir()) == []
