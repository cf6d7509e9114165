# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The stick is absent, full, read-only, pulled out, damaged: clear words, and nothing is lost."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.system.needs import WHOLE
from tests.system.site import Site, Work, end
from tests.waiting import eventually

pytestmark = WHOLE

FLIP_EVERY = 128 << 10

LARGE, LARGE_NOTES = 60_000, 20
"""Bytes of a note, and how many of them the room of a log's segment, 1 MiB, does not hold."""


def fill(site: Site) -> Path:
    """Take every byte that the stick has left."""
    ballast = site.stick.root / "holiday.mp4"
    ballast.touch()
    os.truncate(ballast, shutil.disk_usage(site.stick.root).free)
    assert shutil.disk_usage(site.stick.root).free == 0
    return ballast


def test_everything_works(site: Site) -> None:
    """What all the other tests differ from."""
    site.run_with_media()
    moved = site.move("a")
    assert moved["fetched_bytes"]["media"] > 0
    port = site.port()
    with Work(site, port) as work:
        work.more(20)
    assert work.refused == []
    assert eventually(lambda: site.status()["stable_operation"] == len(work.acknowledged))
    status = site.status()
    assert status["diverged"] == 0
    assert status["journal_failure"] is None
    assert status["first_responses"].get("a", 0) > 0
    assert set(work.acknowledged) <= site.titles(port)
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    assert site.left_by_sessions() == []
    assert set(work.acknowledged) <= site.titles_at_home()


def test_absent(site: Site) -> None:
    site.stick.eject()
    said = site.fails("run", "notes", "--media", site.media)
    assert said.code == 3
    assert f"cannot open the medium at {site.media}" in said.line
    assert "check that it is mounted" in said.line
    assert list(site.stick.root.iterdir()) == []
    assert site.left_by_sessions() == []
    site.run()
    assert site.move("a")["fetched_bytes"].keys() == {"home"}
    site.adds(site.port(), "without a stick")


@pytest.mark.parametrize("seen", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_pulled_out_in_the_middle_of_a_run(site: Site, seen: bool) -> None:
    site.run_with_media()
    site.move("a")
    port = site.port()
    with Work(site, port) as work:
        work.more(10)
        site.stick.pull(seen=seen)
        work.more(20)
    assert work.refused == []
    assert said_where_the_log_goes_on(site)
    assert site.status()["stable_operation"] >= len(work.acknowledged)
    assert sum(site.move("b")["fetched_bytes"].values()) > 0, "home and surrogate a have it too"
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    site.stick.plug()
    site.run_with_media()
    assert site.status()["journal_failure"] is None
    site.adds(site.port(), "with the stick again")
    assert set(work.acknowledged) | {"with the stick again"} <= site.titles(site.port())


def test_full_in_the_middle_of_a_run(site: Site) -> None:
    site.run_with_media()
    site.move("a")
    port = site.port()
    with Work(site, port) as work:
        work.more(5)
        ballast = fill(site)
        body = "x" * LARGE
        replies = [site.add(port, f"large {n}", body) for n in range(LARGE_NOTES)]
        assert {reply.status for reply in replies} == {201}
        work.more(5)
    assert work.refused == []
    assert said_where_the_log_goes_on(site)
    assert "free space on the medium" in site.said
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    ballast.unlink()
    site.run_with_media()
    assert site.status()["journal_failure"] is None
    assert {*work.acknowledged, f"large {LARGE_NOTES - 1}"} <= site.titles(site.port())
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    made = site.home.command("checkpoint", "notes", "--media", site.media, "--json")
    assert made["operation"] == site.at_home()["last_logged"]


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_full_or_read_only_at_the_start(site: Site, how: str) -> None:
    if how == "full":
        fill(site)
    else:
        site.stick.eject()
        site.stick.plug(read_only=True)
    site.run_with_media()
    assert said_where_the_log_goes_on(site)
    port = site.port()
    assert site.move("a")["fetched_bytes"]["media"] > 0
    with Work(site, port) as work:
        work.more(10)
    assert work.refused == []
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    assert set(work.acknowledged) <= site.titles_at_home()
    code = {"full": 7, "read-only": 9}[how]
    said = site.home_fails("checkpoint", "notes", "--media", site.media)
    assert said.code == code, said
    assert site.media in said.line


def said_where_the_log_goes_on(site: Site) -> bool:
    """In the session's log and in its status."""
    failure = site.status()["journal_failure"]
    spare = site.folder / "c" / "data" / "log" / "notes"
    return f"{failure}; operations are logged in {spare} from here on" in site.said


def test_damaged_chunks(site: Site) -> None:
    """Every chunk of the stick that is damaged comes from home, and a person can see that."""
    for pack in (site.stick.root / "satchel" / "packs").glob("*.pack"):
        with pack.open("r+b") as file:
            for place in range(FLIP_EVERY // 2, pack.stat().st_size, FLIP_EVERY):
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ 0x5A]))
    site.run_with_media()
    site.move("a")
    port = site.port()
    with Work(site, port) as work:
        work.more(20)
    assert work.refused == []
    status = site.status()
    assert status["diverged"] == 0
    assert status["damaged_chunks_on_media"] > 10
    assert site.said.count("is damaged") == status["damaged_chunks_on_media"]
    fetched = status["surrogates"]["a"]["fetched_bytes"]
    assert fetched["media"] > fetched["home"] > 0
    assert set(work.acknowledged) <= site.titles(port)
    shown = site.types("status", "notes").stdout
    assert "damaged chunks on media" in shown
    assert "ERROR" not in site.spots["a"].log.read_text()


def test_ctrl_c_while_the_daemon_brings_a_checkpoint_onto_it(site: Site) -> None:
    """The command ends, and the daemon's work: no generation, and nothing in the way of the next
    call or of the service. Where it was quicker than Ctrl-C, once more."""
    for number in range(5):
        root = site.folder / f"other-{number}"
        root.mkdir()
        site.home.command("media", "init", root, "--unsealed", "--json")
        argv = site.home.argv("checkpoint", "notes", "--media", root)
        process = site.home.host.popen(argv, log=site.folder / "checkpoint.log")
        assert eventually(lambda root=root: packed_bytes(root) > 1 << 20)  # type: ignore[misc]
        if end(process, signal.SIGINT) == 130:
            break
    else:
        raise AssertionError("it was too quick, five times")
    assert site.home.command("media", "ls", root, "--json") == []
    made = site.home.command("checkpoint", "notes", "--media", root, "--json")
    assert made["generation"] == 1
    assert site.home.command("media", "verify", root, "--json")["ok"]
    site.run("--media", root)
    site.move("a")
    site.adds(site.port(), "after it")


def packed_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.pack"))
