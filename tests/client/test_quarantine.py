# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's replica that answers otherwise than home, in a whole session."""

import json
import logging
from pathlib import Path

import pytest

from client.moves import quarantine
from client.state.surrogate_keys import SurrogateBanned, SurrogateKeys
from replay import Operation
from replay.frames import AgentFrame
from tests.client.test_runner import replica_states
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.scripted import ScriptedGuest
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


class Straying(ScriptedGuest):
    """Where it is asked for /local, it answers with what no other machine has."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Straying.made += 1
        self.mine = Straying.made

    def _execute(self, request: AgentFrame, path: bytes) -> None:
        super()._execute(request, path)
        if path == b"/local":
            body = f"I am machine {self.mine}\n"
            self.answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_replica_that_strays_once_is_replaced_and_evidence_kept(
    carried: World, caplog: pytest.LogCaptureFixture
) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    first = runner.move("a")
    post(url)
    assert eventually(lambda: operations(runner).tally.later_responses == 1)
    guest = carried.spots["a"].driver.machines[-1].guest
    assert isinstance(guest, ScriptedGuest)
    guest.history = "bits have flipped in its memory"
    caplog.set_level(logging.ERROR)
    post(url)
    assert eventually(lambda: [q["restarted"] for q in runner.status()["quarantined"]] == [True])
    (told,) = (record.getMessage() for record in caplog.records)
    (quarantined,) = runner.status()["quarantined"]
    assert quarantined["operation"] == 2
    assert quarantined["replica"] == first.replica
    assert told == (
        "notes: the replica at a answered operation 2 otherwise than home and is in quarantine; "
        f"evidence: {quarantined['evidence']}; another one is brought up"
    )
    evidence = Path(quarantined["evidence"])
    facts = json.loads((evidence / "evidence.json").read_text())
    assert facts["checkpoint"] == runner.manifest.id
    assert Path(facts["journal"]).is_relative_to(carried.stick)
    assert facts["replica_digest"] != facts["home_digest"]
    operation = Operation.decode((evidence / "operation").read_bytes())
    assert operation == operations(runner).journal.get(operation.number)
    assert b"2 " in (evidence / "home.response").read_bytes()
    assert (evidence / "replica.response").exists()
    assert len(carried.spots["a"].replicas()) == 1
    for _ in range(3):
        assert post(url).status_code == 200
    assert eventually(lambda: replica_states(runner) == {"home": "joined", "a": "joined"})
    assert runner.status()["diverged"] == 1


def test_one_that_strays_again_and_again_is_brought_up_a_few_times_only(
    carried: World, caplog: pytest.LogCaptureFixture
) -> None:
    carried.spots["a"].driver.guest = Straying
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    assert post(url, "/local").status_code == 200
    started = quarantine.RESTARTS + 1

    def settled() -> bool:
        cases = runner.status()["quarantined"]
        return len(cases) == started and cases[-1]["restarted"] is False

    assert eventually(settled)
    assert len(carried.spots["a"].driver.machines) == started
    assert carried.spots["a"].replicas() == []
    assert f"that was attempt {started}, no other one is brought up" in caplog.text
    answer = post(url)
    assert answer.headers["X-Satchel-Leader"] == "home"
    carried.spots["a"].driver.guest = ScriptedGuest
    assert "a is banned: it was proved too often to lie" in caplog.text
    with pytest.raises(SurrogateBanned, match="a is banned"):
        runner.move("a")
    assert SurrogateKeys(runner.settings.state).forget("a")
    runner.move("a")
    assert post(url).status_code == 200
    assert eventually(lambda: replica_states(runner)["a"] == "joined")
    assert len(carried.spots["a"].driver.machines) == started + 1


def test_of_a_stateless_service_the_evidence_has_the_operation_which_no_log_has(
    world: World,
) -> None:
    world.home.launch("speech")
    world.home.carry("speech", world.stick)
    world.spots["a"].driver.guest = Straying
    runner = world.runner("speech")
    url = world.proxy(runner)
    runner.move("a")

    def strayed() -> bool:
        post(url, "/local")
        return bool(runner.status()["quarantined"])

    assert eventually(strayed)
    case = runner.status()["quarantined"][0]
    evidence = Path(case["evidence"])
    operation = Operation.decode((evidence / "operation").read_bytes())
    assert operation.number == case["operation"]
    assert operation.payload.startswith(b"POST /local ")
    assert json.loads((evidence / "evidence.json").read_text())["journal"] is None
    assert b"I am machine" in (evidence / "replica.response").read_bytes()
