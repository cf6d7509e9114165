# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate cannot, has no room, dies: clear words, nothing left there, home goes on."""

import contextlib
import signal

import pytest

from testbed.roles import Role
from tests.system.needs import WHOLE
from tests.system.site import Site, Work, kill, machines_at
from tests.waiting import eventually

pytestmark = WHOLE


def settings(spot: Role, *lines: str) -> None:
    spot.config.write_text(spot.config.read_text() + "\n".join(lines) + "\n")


def refused_and_goes_on(site: Site, code: int, *words: str) -> None:
    """A move to surrogate a fails so, leaves nothing there; home answers, and surrogate b works."""
    site.run_with_media()
    port = site.port()
    site.adds(port, "before")
    said = site.fails("move", "notes", "--to", "a")
    assert said.code == code, said
    for word in words:
        assert word in said.line
    assert machines_at(site.bed, "surrogate-a") == []
    assert list((site.spots["a"].run_dir / "r").glob("*")) == []
    assert site.replicas_at("a") == []
    assert site.states() == {"home": "joined"}
    site.adds(port, "after")
    assert {"before", "after"} <= site.titles(port)


def test_no_memory(parts: Site) -> None:
    settings(parts.spots["a"], "memory-mib = 255")
    parts.start()
    refused_and_goes_on(parts, 7, "surrogate-a has no memory for a machine of 256 MiB")


def test_no_disk_to_begin_with(parts: Site) -> None:
    parts.small_data(parts.spots["a"], 64)
    parts.start()
    refused_and_goes_on(parts, 7, "surrogate-a has no disk", "1024 MiB are needed")


def test_the_disk_is_full_while_a_replica_is_resumed(parts: Site) -> None:
    settings(parts.spots["a"], "disk-mib = 0")
    parts.small_data(parts.spots["a"], 1)
    parts.start()
    refused_and_goes_on(parts, 7, "No space left on device")


def test_the_disk_is_full_in_the_middle_of_a_run(parts: Site) -> None:
    """The replica there is lost, the session is not."""
    settings(parts.spots["a"], "disk-mib = 1")
    data = parts.small_data(parts.spots["a"], 64)
    parts.start()
    parts.run_with_media()
    parts.move("a")
    port = parts.port()
    with Work(parts, port) as work:
        work.more(5)
        with contextlib.suppress(OSError), (data / "ballast").open("wb") as file:
            while file.write(bytes(1 << 20)):
                pass
        work.more(20)
    assert work.refused == []
    assert parts.move("b")["surrogate"] == "b"
    assert set(work.acknowledged) <= parts.titles(port)
    assert parts.status()["diverged"] == 0


def test_no_emulation_for_strangers(parts: Site) -> None:
    config = parts.spots["a"].config
    config.write_text(config.read_text().replace("allow-emulation = true", ""))
    parts.start()
    refused_and_goes_on(parts, 10, "surrogate-a does not run machines without hardware")


def test_killed_in_the_middle_of_a_run(site: Site) -> None:
    """The daemon and its machine, at once; what it had is brought up elsewhere, then there."""
    site.run_with_media()
    site.move("a")
    port = site.port()
    spot = site.spots["a"]
    with Work(site, port) as work:
        work.more(10)
        assert "a" in work.leaders
        for pid in (*machines_at(site.bed, "surrogate-a"), spot.pid):
            kill(pid)
        work.more(15)
        site.move("b")
        work.more(10)
    assert work.refused == []
    assert site.states() == {"home": "joined", "b": "joined"}
    assert site.status()["diverged"] == 0
    assert set(work.acknowledged) <= site.titles(port)
    site.roles.restart_surrogate("a", empty=False)
    assert site.replicas_at("a") == []
    assert machines_at(site.bed, "surrogate-a") == []
    site.move("a")
    assert set(work.acknowledged) <= site.titles(port)
    assert eventually(lambda: site.status()["stable_operation"] == site.status()["last_operation"])
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    assert set(work.acknowledged) <= site.titles_at_home()


@pytest.mark.parametrize(
    "program",
    [
        "qemu",
        pytest.param("nbdkit", marks=pytest.mark.nightly),
        pytest.param("daemon", marks=pytest.mark.nightly),
    ],
)
def test_one_program_of_a_surrogate_killed(site: Site, program: str) -> None:
    site.run_with_media()
    site.move("a")
    port = site.port()
    spot = site.spots["a"]
    with Work(site, port) as work:
        work.more(5)
        kill(spot.pid if program == "daemon" else only_pid(spot, program))
        work.more(10)
    assert work.refused == []
    assert eventually(lambda: "lost" in site.states().values())
    told = next(row["error"] for row in site.status()["replicas"] if row["name"] == "a")
    assert told
    if program == "daemon":
        site.roles.restart_surrogate("a", empty=False)
    site.move("a")
    assert site.states() == {"home": "joined", "a": "joined"}
    assert set(work.acknowledged) <= site.titles(port)


def only_pid(spot: Role, program: str) -> int:
    (path,) = (spot.run_dir / "r").glob(f"*/{program}.pid")
    return int(path.read_text())


@pytest.mark.nightly
def test_power_cut(site: Site) -> None:
    """Nobody says goodbye, and no packet comes back."""
    site.run_with_media()
    site.move("a")
    port = site.port()
    with Work(site, port) as work:
        work.more(5)
        site.spots["a"].crash()
        work.more(10)
        site.move("b")
        work.more(5)
    assert work.refused == []
    assert set(work.acknowledged) <= site.titles(port)


def test_a_session_that_is_killed_and_begun_again(site: Site) -> None:
    process = site.run_with_media()
    site.move("a")
    port = site.port()
    site.adds(port, *(f"note {n}" for n in range(5)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    site.run_with_media()
    site.move("a")
    assert {f"note {n}" for n in range(5)} <= site.titles(site.port())
    assert len(site.replicas_at("a")) == 1
