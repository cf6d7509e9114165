# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a divergence: whole, readable, and no more than was allowed."""

import json
from pathlib import Path

from client.platform.settings import HOME
from client.session.comparison import Divergence, ReplicaAnswer
from client.session.evidence import Case, Evidence
from replay import Operation, Response
from satchel.ids import CheckpointId, OperationNumber, ReplicaId
from tests.client.test_comparison import feed

CHECKPOINT = CheckpointId("c" * 64)


def case(number: int, *, payload: bytes = b"ask", said: bytes = b"lie") -> Case:
    operation = Operation(OperationNumber(number), 1, 2, payload)
    lie, truth = (Response(operation.number, text) for text in (said, b"truth"))
    return Case(
        service="notes",
        checkpoint=CHECKPOINT,
        surrogate="cafe",
        replica=ReplicaId("notes-1"),
        journal=Path("/stick/log"),
        operation=operation,
        divergence=Divergence(
            operation.number,
            feed("cafe"),
            ReplicaAnswer(lie.digest, lie.payload),
            feed(HOME),
            ReplicaAnswer(truth.digest, truth.payload),
        ),
    )


def test_a_case_has_everything_in_the_form_that_its_page_says(tmp_path: Path) -> None:
    place = Evidence(tmp_path / "evidence", 1 << 20).keep(case(17))
    assert place == tmp_path / "evidence" / "notes" / "17-notes-1"
    facts = json.loads((place / "evidence.json").read_text())
    facts.pop("created")
    assert facts == {
        "version": 2,
        "service": "notes",
        "checkpoint": "c" * 64,
        "surrogate": "cafe",
        "replica": "notes-1",
        "handed_over_by": [],
        "operation": 17,
        "journal": "/stick/log",
        "replica_digest": "c8b1a1a3e6bcee8660ad4a4ab2e2d318295fadc325f85525285f09a16e50ebc4",
        "home_digest": "c5c4bad89ee44b4da0321344964f145dd3023fc1ab0d9c2473e2716b788481ae",
    }
    assert Operation.decode((place / "operation").read_bytes()).number == 17
    assert (place / "replica.response").read_bytes() == b"lie"
    assert (place / "home.response").read_bytes() == b"truth"
    assert {path.name for path in place.parent.iterdir()} == {"17-notes-1"}


def test_the_oldest_go_when_there_is_no_room(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path, 20_000)
    for number in range(1, 8):
        evidence.keep(case(number, said=b"x" * 4_000))
    kept = sorted(path.name for path in (tmp_path / "notes").iterdir())
    assert kept == ["4-notes-1", "5-notes-1", "6-notes-1", "7-notes-1"]


def test_of_what_is_too_large_the_beginning_is_kept(tmp_path: Path) -> None:
    place = Evidence(tmp_path, 4_000).keep(case(1, payload=b"p" * 9_000, said=b"x" * 9_000))
    assert (place / "replica.response").read_bytes() == b"x" * 1_000
    assert sum(path.stat().st_size for path in place.iterdir()) <= 4_000
