# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The shipped service `files`: its guest and a mount at the client work on one folder of home's."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.built import built_image, cache_folder
from testbed.roles import Role
from tests.needs import requires
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import (
    PATIENCE_SECONDS,
    Reply,
    Site,
    kill,
    machines_at,
    said_by,
)
from tests.waiting import eventually

pytestmark = [*WHOLE, pytest.mark.nightly, requires("fuse")]

DOCTOR_SECONDS = 300.0

PAUSE_SECONDS = 1.0

OPENED, WAS_OPEN = 201, 204
"""What `files` answers to an append."""


class Laptop:
    """A person's programs: one uses the service's port, others the mounted folder."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.folder / "papers"
        self.folder.mkdir()

    def mounts(self) -> None:
        done = self.site.types("mount", "--background", "papers", self.folder)
        assert done.returncode == 0, done.stderr

    def unmounts(self) -> None:
        subprocess.run(["fusermount3", "-u", self.folder], check=True)

    def asks(self, method: str, path: str, body: str = "") -> Reply:
        return self.site.request(self.site.port(), method, path, body.encode())

    def appends(self, path: str, line: str) -> int:
        return self.asks("POST", path, line).status

    def reads(self, path: str) -> str:
        reply = self.asks("GET", path)
        assert reply.status == 200, reply
        return reply.body


def no_share_is_meant(home: Role, count: int) -> None:
    """A launch says so, and what to do."""
    said = said_by(home.host.run(home.argv("launch", "files"), timeout=PATIENCE_SECONDS))
    assert said.code == 3
    assert f"there are {count}" in said.line
    assert "satchel-home share add FOLDER --name files" in said.line


@pytest.fixture
def laptop(bed: Testbed, short_path: Path, tmp_path: Path) -> Iterator[Laptop]:
    built_image("files")

    def share(home: Role) -> None:
        no_share_is_meant(home, 0)
        for name in ("papers", "photos"):
            (tmp_path / name).mkdir()
            home.command("share", "add", tmp_path / name, "--json")
        no_share_is_meant(home, 2)
        home.command("share", "rm", "photos", "--json")

    with site_of("files", cache_folder(), bed, short_path, share) as site:
        laptop = Laptop(site)
        laptop.mounts()
        try:
            yield laptop
        finally:
            laptop.unmounts()


def test_guest_and_mount_work_on_one_folder(laptop: Laptop, tmp_path: Path) -> None:
    site, folder, papers = laptop.site, laptop.folder, tmp_path / "papers"
    site.run()
    each_sees_what_the_other_writes(laptop)

    assert laptop.appends("/log", "1") == OPENED
    assert laptop.appends("/log", "2") == WAS_OPEN
    site.home.command("checkpoint", "files", "--json")
    starts_home_again(laptop)
    assert laptop.appends("/log", "3") == WAS_OPEN
    assert (folder / "log").read_text() == "123"

    # What came after the checkpoint is executed again, and not written again.
    starts_home_again(laptop)
    assert eventually(lambda: site.at_home()["last_executed"] == site.at_home()["last_logged"])
    assert (folder / "log").read_text() == "123"
    assert laptop.appends("/log", "4") == WAS_OPEN
    assert laptop.reads("/log") == "1234"
    (folder / "log").rename(folder / "log.old")
    assert laptop.appends("/log", "5") == OPENED
    assert site.sees("stop", "files") == {"stopped": "files"}
    laptop.unmounts()
    assert (papers / "log.old").read_text() == "1234"
    assert (papers / "log").read_text() == "5"
    laptop.mounts()


def each_sees_what_the_other_writes(laptop: Laptop) -> None:
    """At once, whoever wrote, and while both have the file open."""
    folder = laptop.folder
    (folder / "letter").write_text("from the laptop")
    assert laptop.reads("/letter") == "from the laptop"
    assert laptop.asks("PUT", "/deep/down/reply", "from the guest").status == 204
    assert (folder / "deep/down/reply").read_text() == "from the guest"
    listed = json.loads(laptop.reads("/"))["entries"]
    assert [(row["name"], row["kind"], row["size"]) for row in listed] == [
        ("deep", "folder", 0),
        ("letter", "file", 15),
    ]
    expected = ""
    with (folder / "both").open("ab+", buffering=0) as file:
        for turn in range(10):
            assert laptop.appends("/both", f"guest {turn}\n") in (OPENED, WAS_OPEN)
            file.write(f"laptop {turn}\n".encode())
            expected += f"guest {turn}\nlaptop {turn}\n"
            assert os.pread(file.fileno(), 1000, 0).decode() == expected
            assert laptop.reads("/both") == expected
    (folder / "letter").unlink()
    assert laptop.asks("GET", "/letter").status == 404
    assert laptop.asks("DELETE", "/both").status == 204
    assert not (folder / "both").exists()


def starts_home_again(laptop: Laptop) -> None:
    site = laptop.site
    site.home.stop()
    site.restart_home()
    assert list(laptop.folder.iterdir())  # home waits for its nodes, the mount for its connection
    assert eventually(lambda: site.states()["home"] == "joined")


class Appends:
    """A program that appends a line after the other, whatever else happens; with a pause, in which
    three machines on two processors execute what they have to.

    asked: the lines, in order; lines: those that the service said it has
    """

    def __init__(self, laptop: Laptop) -> None:
        self.laptop = laptop
        self.asked: list[str] = []
        self.lines: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Appends":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def more(self, count: int) -> None:
        goal = len(self.lines) + count
        assert eventually(lambda: len(self.lines) >= goal)

    def _run(self) -> None:
        while not self._ending.is_set():
            line = f"line {len(self.asked)}\n"
            self.asked.append(line)
            self._ending.wait(PAUSE_SECONDS)
            if self.laptop.appends("/log", line) in (OPENED, WAS_OPEN):
                self.lines.append(line)


def stands_once(laptop: Laptop, appends: Appends) -> None:
    """Every line, in the file as mounts see it, whoever executed it how often; also one that was
    not answered in time, which stays an operation."""
    assert eventually(
        lambda: laptop.site.at_home()["last_executed"] == laptop.site.at_home()["last_logged"]
    )
    text = (laptop.folder / "log").read_text()
    lines = text.splitlines(keepends=True)
    assert set(appends.lines) <= set(lines)
    assert lines == [line for line in appends.asked if line in lines]
    assert laptop.reads("/log") == text
    assert laptop.site.status()["diverged"] == 0


def test_what_replicas_at_surrogates_write_is_there_once(laptop: Laptop) -> None:
    """On a walk from home to a surrogate and on to the next, and while one of them dies."""
    site = laptop.site
    site.run_with_media()
    # A machine that has just come up may need longer for its first answer than one may take.
    assert eventually(lambda: laptop.asks("GET", "/log").status == 404, 60.0)
    with Appends(laptop) as appends:
        appends.more(3)
        site.move("a")
        appends.more(10)
        site.home.command("checkpoint", "files", "--json")
        site.move("b")
        appends.more(10)
        for pid in (*machines_at(site.bed, "surrogate-b"), site.spots["b"].pid):
            kill(pid)
        appends.more(10)
        site.move("a")
        appends.more(5)
        site.roles.restart_surrogate("b", empty=False)
    assert appends.lines == appends.asked
    assert site.states() == {"home": "joined", "a": "joined"}
    stands_once(laptop, appends)
    assert laptop.asks("DELETE", "/log").status == 204
    each_sees_what_the_other_writes(laptop)
    assert site.status()["diverged"] == 0
    assert site.sees("stop", "files") == {"stopped": "files"}


TAKE_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except BlockingIOError:
        sys.exit(11)
"""


def is_locked(path: Path) -> bool:
    """Whether another program has the lock of the file's first byte."""
    tried = subprocess.run([sys.executable, "-c", TAKE_LOCK, path], check=False)
    assert tried.returncode in (0, 11)
    return tried.returncode == 11


def test_open_files_go_along_with_a_move_from_one_surrogate_to_another(laptop: Laptop) -> None:
    """The guest's stays open, with the place where it writes; the laptop's, with a lock and an
    offset, is as good for what the guest writes at its next place."""
    site = laptop.site
    site.run_with_media()
    site.move("a")
    assert laptop.appends("/log", "one ") == OPENED
    log = laptop.folder / "log"
    with log.open("ab+", buffering=0) as mine:
        fcntl.lockf(mine, fcntl.LOCK_EX, 1)
        assert is_locked(log)
        mine.seek(4)
        site.move("b", "--route", "handover")
        assert eventually(lambda: site.states() == {"home": "joined", "b": "joined"})
        assert laptop.appends("/log", "two ") == WAS_OPEN
        assert mine.read(4) == b"two "
        mine.write(b"three ")
        assert laptop.appends("/log", "four") == WAS_OPEN
        mine.seek(14)  # an append leaves the offset where the kernel believed the end to be
        assert mine.read() == b"four"
        assert is_locked(log)
        assert laptop.reads("/log") == "one two three four"
    assert not is_locked(log)
    assert site.status()["diverged"] == 0
    assert site.sees("stop", "files") == {"stopped": "files"}


def test_home_that_is_killed_and_begins_again_writes_nothing_twice(laptop: Laptop) -> None:
    """While a replica at a surrogate asks it; also the surrogate's daemon dies meanwhile, whose
    machine goes on with the next."""
    site = laptop.site
    site.run_with_media()
    with Appends(laptop) as appends:
        appends.more(2)
        site.move("a")
        appends.more(5)
        kill(site.home.pid)
        site.home.stop()
        site.restart_home()
        appends.more(5)
        kill(site.spots["a"].pid)
        site.roles.restart_surrogate("a", empty=False)
        appends.more(5)
    assert eventually(lambda: site.states()["home"] == "joined")
    stands_once(laptop, appends)
    assert site.sees("doctor", "files", seconds=DOCTOR_SECONDS)["differs"] is None
    stands_once(laptop, appends)
    assert site.sees("stop", "files") == {"stopped": "files"}


def test_a_node_at_a_surrogate_writes_what_everybody_sees(laptop: Laptop) -> None:
    """Its guest's files are written there, by grant; at home, at the laptop and at the next place
    they are the same, also after that surrogate has died."""
    site = laptop.site
    for place in ("a", "b"):
        site.home.command("share", "grant", "papers", "files", place, "--json")
    site.run_with_media()
    site.move("a")
    assert eventually(lambda: laptop.asks("PUT", "/paper", "0").status == 204, 60.0)
    for turn in range(1, 12):
        assert laptop.asks("PUT", "/paper", f"{turn} from the guest").status == 204
        assert laptop.reads("/paper") == f"{turn} from the guest"
        assert (laptop.folder / "paper").read_text() == f"{turn} from the guest"
    led = "does what is asked from operation"
    assert eventually(lambda: led in site.spots["a"].log.read_text())
    assert laptop.asks("DELETE", "/paper").status == 204
    each_sees_what_the_other_writes(laptop)
    assert laptop.asks("PUT", "/paper", "11 from the guest").status == 204
    site.move("b", "--route", "handover")
    assert laptop.reads("/paper") == "11 from the guest"
    assert laptop.asks("PUT", "/paper", "12 from the guest").status == 204
    for pid in (*machines_at(site.bed, "surrogate-b"), site.spots["b"].pid):
        kill(pid)
    assert laptop.reads("/paper") == "12 from the guest"
    assert laptop.asks("PUT", "/paper", "13 from home").status == 204
    assert (laptop.folder / "paper").read_text() == "13 from home"
    site.roles.restart_surrogate("b", empty=False)
    assert site.status()["diverged"] == 0
    assert site.sees("stop", "files") == {"stopped": "files"}
