# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real machine that fills its disk on a surrogate is ended, and its neighbour goes on."""

import contextlib
from pathlib import Path

import pytest

from replay import Operation, encode_operations
from replay.adapters import http
from satchel.errors import NotFoundError, SatchelError
from satchel.ids import OperationNumber
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.surrogate.test_take_over import PATIENCE, REPLICA, Spot, note
from tests.waiting import eventually

pytestmark = [requires(*MACHINE), pytest.mark.machine]

NEIGHBOUR = "r2"
NOTES = 60
"""Of NOTE bytes each: more than OVERLAY_MIB."""

NOTE = 60 << 10
OVERLAY_MIB = 2


def test_a_guest_that_fills_its_disk_is_ended_and_no_other(
    short_path: Path, notes_checkpoint: NotesCheckpoint
) -> None:
    spot = Spot(short_path, notes_checkpoint)
    settings = short_path / "satchel" / "surrogate.toml"
    settings.write_text(settings.read_text() + f"overlay-mib = {OVERLAY_MIB}\n")
    try:
        spot.start()
        for name in (NEIGHBOUR, REPLICA):
            status = spot.create(name)
            assert status.state == "ready", status.error
        last = status.last_operation
        with contextlib.suppress(SatchelError):  # it is ended meanwhile
            for number in range(last + 1, last + 1 + NOTES):
                execute(spot, REPLICA, large(number))
        assert eventually(lambda: is_gone(spot, REPLICA), PATIENCE)
        assert spot.status(NEIGHBOUR).state == "ready"
        execute(spot, NEIGHBOUR, note(last + 1))
        assert spot.status(NEIGHBOUR).last_operation == last + 1
        spot.end()
    finally:
        spot.close()


def execute(spot: Spot, replica: str, operation: Operation) -> None:
    path = f"/v1/replicas/{replica}/operations"
    spot.http.post_bytes(path, encode_operations([operation]), timeout=None)


def is_gone(spot: Spot, replica: str) -> bool:
    with contextlib.suppress(NotFoundError):
        spot.status(replica)
        return False
    return True


def large(number: int) -> Operation:
    text = f"{number:06d}" * (NOTE // 6)
    body = f'{{"title": "note {number}", "text": "{text}"}}'.encode()
    payload = http.encode("POST", "/api/notes", [], body, number=number, time_ns=1, seed=number)
    return Operation(OperationNumber(number), 1, number, payload)
