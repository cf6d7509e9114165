# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real machine that goes on on another surrogate as it is, and on a third one after that."""

from collections.abc import Iterator
from pathlib import Path

import flask
import pytest

from satchel.ids import ReplicaId
from surrogate.cache.chunk_app import chunks_of
from surrogate.replicas.handover import TooMuchChanged, taken_over
from surrogate.replicas.hosted import HostedReplica
from tests.machines import MACHINE, START_SECONDS, NotesCheckpoint
from tests.needs import requires
from tests.surrogate.test_machine import Spot, note
from tests.waiting import eventually
from wire import CreateReplica, HandoverState, Server, SourceAddress, install_errors, serve

pytestmark = [requires(*MACHINE), pytest.mark.machine]

STATE = ["/var/lib/notes"]


class Chain:
    """Surrogates with empty caches. Each but the first also reaches the one before it."""

    def __init__(self, folder: Path, checkpoint: NotesCheckpoint) -> None:
        self.checkpoint = checkpoint
        self.spots = [Spot(folder / name, checkpoint) for name in "abc"]
        self.servers: list[Server] = []

    def hand(self, number: int, handed: HandoverState) -> HostedReplica:
        """Have the spot of that number take over from the one before."""
        giver, taker = self.spots[number - 1 : number + 1]
        app = flask.Flask("giver")
        install_errors(app)
        app.register_blueprint(chunks_of(giver.host.store.records))
        path = taker.settings.forwarded / "giver"
        self.servers.append(serve(app, path, threads=4, max_body=1 << 20))
        sources = [("giver", path), ("home", taker.server.path)]
        request = CreateReplica(
            ReplicaId("r"),
            "notes",
            self.checkpoint.manifest.to_json(),
            tuple(SourceAddress(name, str(socket)) for name, socket in sources),
        )
        hosted = taker.host.create(taken_over(request, handed))
        hosted.wait_started(START_SECONDS)
        assert hosted.status().state == "ready", hosted.status().error
        return hosted

    def close(self) -> None:
        for server in self.servers:
            server.close()
        for spot in self.spots:
            spot.close()


@pytest.fixture
def chain(short_path: Path, notes_checkpoint: NotesCheckpoint) -> Iterator[Chain]:
    for name in "abc":
        (short_path / name).mkdir()
    made = Chain(short_path, notes_checkpoint)
    yield made
    made.close()


def test_a_machine_goes_on_elsewhere_as_it_is(chain: Chain) -> None:
    first = chain.spots[0].create("r")
    list(first.answer([note(1, "one"), note(2, "two")]))
    handed = first.hand_over()
    assert handed.operation == 2
    assert 0 < handed.paused_seconds < START_SECONDS
    second = chain.hand(1, handed)
    assert second.status().last_operation == 2
    operation = note(3, "three")
    assert list(second.answer([operation])) == list(first.answer([operation]))
    assert second.replica.digest(STATE) == first.replica.digest(STATE)
    assert eventually(lambda: second.status().independent, START_SECONDS)
    assert handed.pages
    chain.spots[0].host.remove("r")
    chain.servers[0].close()
    handed = second.hand_over()
    assert handed.pages
    third = chain.hand(2, handed)
    assert third.status().last_operation == 3
    operation = note(4, "four")
    assert list(third.answer([operation])) == list(second.answer([operation]))
    assert third.replica.digest(STATE) == second.replica.digest(STATE)


def test_more_changed_blocks_than_are_told_are_not_left_out(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = chain.spots[0].create("r")
    list(first.answer([note(1, "one")]))
    monkeypatch.setattr("surrogate.replicas.handover.WORKING_SET_LIMIT", 1)
    with pytest.raises(TooMuchChanged):
        first.hand_over()
    assert [answer.number for answer in first.answer([note(2, "two")])] == [2]
    monkeypatch.undo()
    assert first.hand_over().operation == 2
