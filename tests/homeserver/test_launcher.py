# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What ran runs again: after a start of home, after a crash, and until somebody stops it."""

import threading
import time

import pytest

from homeserver.services import launcher
from satchel.errors import NotFoundError
from tests.homeserver.conftest import Bench, make_image
from tests.needs import requires
from tests.scripted import operation
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@pytest.fixture(autouse=True)
def soon(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.service("notes")
    monkeypatch.setattr(launcher, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(launcher, "PAUSES", (0.1, 0.2))


def state(bench: Bench, name: str = "notes") -> str:
    return bench.home.service(name).view().state


def test_what_was_launched_runs_after_the_next_start_and_what_was_stopped_does_not(
    bench: Bench,
) -> None:
    make_image(bench.settings.images, "other")
    bench.home.add_service("other", "other")
    for name in ("notes", "other"):
        bench.home.launch(name)
    list(bench.home.service("notes").answer([operation(1)]))
    bench.home.stop("other")
    bench.reopen()
    bench.home.launch_wanted()
    assert eventually(lambda: state(bench) == "ready")
    list(bench.home.service("notes").answer([operation(2)]))
    assert bench.home.service("notes").view().last_executed == 2
    assert state(bench, "other") == "down"


def test_a_wish_starts_a_service_without_waiting_for_it(bench: Bench) -> None:
    bench.home.want("notes")
    assert eventually(lambda: state(bench) == "ready")
    bench.home.want("notes")
    bench.home.stop("notes")
    time.sleep(0.3)
    assert state(bench) == "down"
    with pytest.raises(NotFoundError):
        bench.home.want("nothing")


def test_a_machine_that_crashes_is_started_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.home.want("notes")
    assert eventually(lambda: state(bench) == "ready")
    list(bench.home.service("notes").answer([operation(1)]))
    first = bench.machine()
    first.crash("the power failed")
    assert eventually(lambda: state(bench) == "ready" and bench.machine() is not first)
    assert "service notes: it ended; it starts again in 0 s" in caplog.text
    list(bench.home.service("notes").answer([operation(2)]))


def test_a_service_that_cannot_start_is_tried_again_and_keeps_no_other_one_waiting(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    make_image(bench.settings.images, "broken")
    bench.home.add_service("broken", "broken")
    disk = bench.settings.images / "broken" / "disk"
    content = disk.read_bytes()
    disk.unlink()
    bench.home.want("broken")
    assert eventually(lambda: caplog.text.count("service broken: it does not start") >= 3)
    assert "next attempt in 0 s" in caplog.text
    bench.home.want("notes")
    assert eventually(lambda: state(bench) == "ready")
    disk.write_bytes(content)
    assert eventually(lambda: state(bench, "broken") == "ready")


def test_a_service_that_is_removed_while_it_starts_stays_away(bench: Bench) -> None:
    bench.home.want("notes")
    removing = threading.Thread(target=bench.home.remove_service, args=("notes",))
    removing.start()
    removing.join(20)
    assert not removing.is_alive()
    assert bench.left() == []
    with pytest.raises(NotFoundError):
        bench.home.service("notes")
