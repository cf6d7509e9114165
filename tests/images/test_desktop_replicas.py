# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A desktop's replicas, resumed from one checkpoint, under one viewer that notices nothing."""

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from client.fronts.desktop import DesktopFront
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.session import Session
from homeserver import Home, HomeSettings
from hypervisor import QemuDriver
from replay.adapters import rfb
from replica import Replica
from satchel.ids import OperationNumber
from testbed.built import built_image, cache_folder
from testbed.desktop import edit
from tests.client.replicas import InProcess
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.machine import resumed

pytestmark = [pytest.mark.machine, pytest.mark.nightly, requires(*MACHINE)]

EDITS = 3

LAST_KEY = "w"
"""With ctrl, what an edit ends with; it is in nothing that is typed."""

HEAD_BYTES = 12
"""Of an operation, before its events."""


class OfReplica(InProcess):
    """An endpoint in front of a real machine."""

    def __init__(self, name: str, replica: Replica) -> None:
        super().__init__(name, patience=60.0)
        self.replica = replica
        self.says = lambda operation: replica.execute(operation, 60.0).payload


def checkpointed(folder: Path) -> NotesCheckpoint:
    """A home at rest with a checkpoint of the desktop."""
    image = built_image("desktop")
    settings = HomeSettings(data=folder / "data", run=folder / "run", images=cache_folder())
    Home.init(settings)
    home = Home(settings, QemuDriver())
    try:
        home.add_service("desktop", "desktop")
        service = home.service("desktop")
        service.launch()
        manifest = service.shelf.latest()
        assert manifest is not None
        return NotesCheckpoint(image, settings, manifest, service.shelf.signature(manifest.id))
    finally:
        home.close()


def numbers(first: int, last: int) -> Iterable[OperationNumber]:
    return map(OperationNumber, range(first, last + 1))


def all_entered(journal: Journal) -> bool:
    """Whether the last key of every edit is logged, and let go. A viewer that has sent its last
    events is gone before those that wait for an answer are an operation."""
    held: Counter[int] = Counter()
    closed = 0
    for operation in filter(None, map(journal.get, numbers(1, journal.last))):
        at = HEAD_BYTES
        while at < len(operation.payload):
            kind = operation.payload[at]
            if kind == rfb.KEY_EVENT:
                _, down, keysym = rfb.KEY.unpack_from(operation.payload, at)
                held[keysym] += 1 if down else -1
                closed += bool(down) and keysym == ord(LAST_KEY)
            at += rfb.SIZES[kind]
    return closed == EDITS and not +held


def test_a_viewer_goes_on_when_the_leading_replica_is_gone(
    short_path: Path, tmp_path: Path
) -> None:
    from chunkstore import Store

    began = time.monotonic()
    checkpoint = checkpointed(short_path / "h")
    print(f"first boot and checkpoint: {time.monotonic() - began:.1f} s")
    with (
        Store.open(checkpoint.store) as store,
        resumed(checkpoint, store, short_path / "a") as one,
        resumed(checkpoint, store, short_path / "b") as other,
    ):
        session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=60.0)
        home, near = OfReplica(HOME, one), OfReplica("near", other)
        home.slow = 0.5
        for endpoint in (home, near):
            session.add(endpoint, OperationNumber(0))
        desktop = DesktopFront(session)
        for number in range(EDITS):
            seconds = edit(desktop.port, text=f"{number} ", think=0.0)
            print(f"edit {number}: {seconds:.1f} s, operation {session.journal.last}")
            if number == 0:
                session.drop("near")
        deadline = time.monotonic() + 60
        while not all_entered(session.journal) or home.last < session.journal.last:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        near.execute(
            [op for op in map(session.journal.get, numbers(near.last + 1, home.last)) if op]
        )
        assert session.tally.first_responses["near"] > 0 < session.tally.first_responses[HOME]
        assert session.tally.later_responses > 0 == session.tally.diverged
        assert {n: r.digest for n, r in home._answers.items()} == {
            n: r.digest for n, r in near._answers.items()
        }
        letters = {r.digest(["/var/lib/desktop/letter.txt"]) for r in (one, other)}
        assert len(letters) == 1
        session.close()
        desktop.close()
