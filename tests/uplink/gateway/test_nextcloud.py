# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nextcloud's desktop client, unmodified, through uplink. Its server is a small one of the tests'
own (small_nextcloud.py)."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, DavServer, Site, describe, site

pytestmark = [pytest.mark.nightly, requires("nextcloudcmd")]


class SmallNextcloudServer(DavServer):
    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def argv(self) -> list[str]:
        program = [sys.executable, "-m", "tests.uplink.gateway.small_nextcloud"]
        return [*program, str(self.files), str(self.port), USER, PASSWORD]


@pytest.fixture
def cloud(short_path: Path) -> Iterator[Site]:
    describe(short_path, "nextcloud")
    kind = SmallNextcloudServer
    with site(short_path, kind, service='description = "nextcloud"') as made:
        made.hold()
        yield made


def sync(cloud: Site, url: str = "") -> Path:
    """The folder that the client keeps, after it has synchronised it."""
    local = cloud.folder / "local"
    local.mkdir(exist_ok=True)
    time.sleep(0.5)  # nothing that uplink keeps of lists is fresh
    words = ["nextcloudcmd", "--non-interactive", "-u", USER, "-p", PASSWORD]
    done = subprocess.run(
        [*words, str(local), url or cloud.url],
        check=False, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(cloud.folder), "SATCHEL_UPLINK": "background"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return local


def contents(folder: Path) -> dict[str, bytes]:
    """Of files, and of folders nothing; not what the client keeps for itself."""
    found = [path for path in folder.rglob("*") if not path.name.startswith(".")]
    return {
        str(path.relative_to(folder)): b"" if path.is_dir() else path.read_bytes() for path in found
    }


def plant(cloud: Site) -> None:
    for outer in "abc":
        for inner in "xyz":
            folder = cloud.server.files / f"{outer} &" / inner
            folder.mkdir(parents=True)
            (folder / "file ü").write_bytes(os.urandom(2000))


def test_both_sides_have_the_same_in_the_end(cloud: Site) -> None:
    plant(cloud)
    local = sync(cloud)
    assert contents(local) == contents(cloud.server.files)
    (local / "a &" / "new").mkdir()
    (local / "a &" / "new" / "mine").write_bytes(os.urandom(300_000))
    (local / "b &" / "x" / "file ü").unlink()
    (cloud.server.files / "c &" / "y" / "theirs").write_bytes(b"theirs")
    (cloud.server.files / "c &" / "z" / "file ü").write_bytes(b"changed")
    expected = contents(cloud.server.files) | {
        "a &/new": b"",
        "a &/new/mine": (local / "a &" / "new" / "mine").read_bytes(),
    }
    del expected["b &/x/file ü"]
    sync(cloud)
    assert contents(local) == expected
    assert contents(cloud.server.files) == expected
    (local / "a &" / "new").rename(local / "moved")
    sync(cloud)
    assert contents(local) == contents(cloud.server.files)
    assert (cloud.server.files / "moved" / "mine").is_file()
    assert cloud.ask("stats")["requests"] > 30


def test_its_uploads_are_answered_by_the_service(cloud: Site) -> None:
    """It needs the file id and the time that only the service can say."""
    local = sync(cloud)
    (local / "mine").write_bytes(b"mine")
    sync(cloud)
    assert (cloud.server.files / "mine").read_bytes() == b"mine"
    assert cloud.ask("stats")["held"] == 0


def test_nothing_is_overwritten_when_both_sides_change_a_file(cloud: Site) -> None:
    (cloud.server.files / "notes.txt").write_bytes(b"before")
    local = sync(cloud)
    time.sleep(1.1)  # the client looks at times in seconds
    (local / "notes.txt").write_bytes(b"written here")
    (cloud.server.files / "notes.txt").write_bytes(b"written elsewhere, longer")
    sync(cloud)
    assert (cloud.server.files / "notes.txt").read_bytes() == b"written elsewhere, longer"
    kept = {path.read_bytes() for path in local.iterdir() if path.suffix == ".txt"}
    assert kept == {b"written here", b"written elsewhere, longer"}


def test_what_has_not_changed_is_asked_for_once(cloud: Site) -> None:
    """The first look of a client at a tree of which uplink has mirrors: two, as this client asks
    for one property more of the root."""
    plant(cloud)
    for number in range(2):
        sync(cloud)
        (cloud.folder / "local").rename(cloud.folder / f"local{number}")
    direct = len(cloud.server.requests("PROPFIND"))
    local = sync(cloud)
    assert contents(local) == contents(cloud.server.files)
    assert len(cloud.server.requests("PROPFIND")) - direct < 7  # folders: 13
    assert cloud.ask("stats")["trees"] > 0
