# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home is out of reach or dies: the surrogate answers, the stick has the log, home catches up."""

import time

import pytest

from tests.system.needs import WHOLE
from tests.system.site import Site, Work, kill, machines_at
from tests.waiting import eventually

pytestmark = WHOLE


@pytest.mark.parametrize(
    ("silent", "long"),
    [
        (True, False),
        pytest.param(False, True, marks=pytest.mark.nightly),
        pytest.param(True, True, marks=pytest.mark.nightly),
    ],
)
def test_unreachable_in_the_middle_of_a_run(site: Site, silent: bool, long: bool) -> None:
    """For a moment, or for so long that the connection ends. The person knows that home is off."""
    site.run_with_media("--provisional", "unlimited")
    site.move("a")
    port = site.port()
    with Work(site, port, pause=0.1) as work:
        work.more(5)
        site.cut_home(silent=silent)
        stable = site.status()["stable_operation"]
        work.more(20)
        assert set(work.leaders[-15:]) == {"a"}
        if long:
            assert eventually(lambda: site.states()["home"] == "silent")
        assert site.status()["stable_operation"] <= stable + 5
        site.mend_home()
        work.more(5)
    assert work.refused == []
    assert eventually(site.all_is_stable)
    assert eventually(lambda: site.states()["home"] == "joined")
    status = site.status()
    assert (status["diverged"], status["journal_failure"]) == (0, None)
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    assert set(work.acknowledged) <= site.titles_at_home()


def test_unreachable_before_the_start(site: Site) -> None:
    """The stick alone is enough; without it there is nothing to go on from."""
    site.cut_home(silent=False)
    said = site.fails("run", "notes")
    assert said.code == 8
    assert "cannot connect to home" in said.line
    site.run_with_media()
    assert "going on with the medium alone" in site.said
    assert site.move("a")["fetched_bytes"]["home"] == 0
    port = site.port()
    with Work(site, port) as work:
        work.more(10)
    assert work.refused == []
    assert set(work.leaders) == {"a"}
    assert site.status()["stable_operation"] == 0
    site.mend_home()
    assert eventually(site.all_is_stable)
    assert eventually(lambda: site.states() == {"home": "joined", "a": "joined"})
    assert site.status()["diverged"] == 0


def test_never_back_before_the_end(site: Site) -> None:
    """What only the stick has is executed at home when it is back there."""
    site.run_with_media()
    site.move("a")
    port = site.port()
    site.adds(port, "both have it")
    assert eventually(site.all_is_stable)
    site.cut_home(silent=False)
    with Work(site, port) as work:
        work.more(10)
    assert work.refused == []
    assert site.sees("stop", "notes")["unsent"]["last"] >= len(work.acknowledged)
    site.mend_home()
    made = site.home.command("checkpoint", "notes", "--media", site.media, "--json")
    assert made["reconciled"] > 0  # not all: the end of the session may have found home again
    assert {"both have it", *work.acknowledged} <= site.titles_at_home()


@pytest.mark.parametrize("program", ["qemu", pytest.param("daemon", marks=pytest.mark.nightly)])
def test_home_dies_and_comes_back(site: Site, program: str) -> None:
    site.run_with_media("--provisional", "unlimited")
    site.move("a")
    port = site.port()
    with Work(site, port) as work:
        work.more(5)
        for pid in machines_at(site.bed, "home"):
            kill(pid)
        if program == "daemon":
            kill(site.home.pid)
        work.more(20)
        assert work.leaders[-1] == "a"
        if program == "daemon":
            site.home.stop()
            site.home.start("home.sock", [site.roles.identity.public])
        site.home.command("launch", "notes", "--json")
        work.more(5)
    assert work.refused == []
    assert eventually(site.all_is_stable)
    assert eventually(lambda: site.states()["home"] == "joined")
    assert eventually(lambda: site.at_home()["last_executed"] == site.at_home()["last_logged"])
    assert site.status()["diverged"] == 0


def test_neither_home_nor_surrogate_nor_stick(site: Site) -> None:
    """Nothing is acknowledged that could be lost, and what was logged is executed later."""
    site.run_with_media()
    port = site.port()
    site.adds(port, "before")
    site.cut_home(silent=False)
    refused = site.add(port, "in the dark")
    assert refused.status == 503
    assert "got no response in 8 s" in refused.error["what"]
    assert "do not send it again" in refused.error["fix"]
    site.stick.pull()
    began = time.monotonic()
    again = site.add(port, "darker still")
    assert again.status == 503
    assert time.monotonic() - began < 30
    site.mend_home()
    assert eventually(site.all_is_stable)
    assert {"before", "in the dark", "darker still"} <= site.titles(port)
