# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The desktop in real guests: the same log gives the same screens, and a viewer works on it."""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client.fronts import open_front
from client.fronts.screen import Screen
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.session import Session
from images import Rehearsal
from replay import Operation
from replay.adapters import rfb
from satchel.ids import OperationNumber
from testbed.built import built_image
from testbed.desktop import edit
from tests.client.replicas import InProcess
from tests.images.guest import Guest, running
from tests.needs import requires

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get"),
]

TIME = 1_700_000_000 * 10**9
MENU, TITLE = "click 45 55", "click 300 33"
BATCHES = (
    "type hello",
    "key ctrl+o",
    "type letter.txt\nkey return",
    "key ctrl+home\ntype Inserted.",
    MENU,
    "key escape",
    "click 100 150",
    "click 100 150",
    "click 100 150\nclick 100 150",
    "key ctrl+s",
    "key ctrl+w",
    "click 800 600",
)
"""The ninth clicks twice within a batch, which selects a word; those before do so in two."""


class InGuest(InProcess):
    """A replica that is a guest."""

    def __init__(self, guest: Guest) -> None:
        super().__init__(HOME, patience=60.0)

        def says(operation: Operation) -> bytes:
            return rfb.normalise(guest.channel.execute(operation, 60.0).payload, operation)

        self.says = says


def operation(number: int, written: str) -> Operation:
    time_ns = TIME + number * 10**9
    asked = Rehearsal(body=written)
    payload = rfb.request(asked, number=number, time_ns=time_ns, seed=number)
    return Operation(OperationNumber(number), time_ns, number, payload)


def screens(guest: Guest, *, think: float) -> list[bytes]:
    """The screen's digest after each operation, checked against what a client keeps."""
    found: list[bytes] = []
    screen = None
    for number, written in enumerate(("", *BATCHES), 1):
        asked = operation(number, written)
        time.sleep(think)
        began = time.monotonic()
        answer = rfb.normalise(guest.channel.execute(asked, 60.0).payload, asked)
        update = rfb.decode(answer)
        print(f"{time.monotonic() - began:.2f} s, {len(answer)} bytes: {written!r}")
        if screen is None:
            screen = Screen(update.width, update.height)
        assert screen.apply(update)
        pixels = b"".join(screen.content(area) for area in screen.areas)
        found.append(hashlib.sha256(pixels).digest())
    return found


@contextlib.contextmanager
def desktops(folder: Path, names: str) -> Iterator[list[Guest]]:
    """Guests that boot at once."""
    image = built_image("desktop")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        for name in names:
            (folder / name).mkdir()
        made = [running(image, folder / name) for name in names]
        guests = list(pool.map(stack.enter_context, made))
        print("ready after", [f"{guest.ready_seconds:.1f} s" for guest in guests])
        yield guests


def test_the_same_log_gives_the_same_screens_and_a_viewer_edits_a_document(
    tmp_path: Path, short_path: Path
) -> None:
    with desktops(short_path, "ab") as (first, second):
        with ThreadPoolExecutor() as pool:
            slow = pool.submit(screens, first, think=0.4)
            quick = pool.submit(screens, second, think=0.0)
            assert slow.result() == quick.result()
        seen = slow.result()
        assert seen[7] == seen[8] != seen[9]
        assert len(set(seen)) >= 10
        letters = {guest.shell("cat /var/lib/desktop/letter.txt") for guest in (first, second)}
        assert len(letters) == 1
        assert letters.pop().startswith("Inserted.Dear reader,")
        check_a_viewer(first, tmp_path)


def check_a_viewer(guest: Guest, folder: Path) -> None:
    """The paper's workload, by an unmodified RFB client, through the client's front."""
    done = len(BATCHES) + 1
    session = Session(Journal(folder, folder), stateful=True, response_seconds=60.0)
    session.journal.restart(OperationNumber(done))
    replica = InGuest(guest)
    replica.last = done
    session.add(replica, OperationNumber(done))
    front = open_front("rfb", session, 0)
    edit(front.port, text="Typed by a viewer. ", think=0.0)
    deadline = time.monotonic() + 60
    while "Typed" not in guest.shell("cat /var/lib/desktop/letter.txt"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    letter = guest.shell("cat /var/lib/desktop/letter.txt")
    assert letter.startswith("Typed by a viewer. Inserted.Dear reader,")
    assert session.journal.last > done
    session.close()
    front.close()
