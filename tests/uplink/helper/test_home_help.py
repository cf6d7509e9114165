# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home asks a service for the mobile, and puts whole files together."""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, as_second_writer
from tests.uplink.gateway.test_crawls import RCLONE, plant
from tests.uplink.gateway.test_holding import put
from tests.uplink.helper.helping_home import Helped, helped_site

pytestmark = requires("rclone", "curl", "sshd")

BEAT = 96
"""Bytes of OpenSSH's, with its answer."""

SIZE, CHANGED = 20_000_000, 200_000


def crawl(site: Helped) -> list[str]:
    """What rclone lists, when nothing that uplink keeps of lists is fresh."""
    time.sleep(0.5)
    return sorted(site.cloud.run(*RCLONE).stdout.splitlines())


def test_home_tells_what_has_changed(short_path: Path) -> None:
    with helped_site(short_path) as site:
        files = site.cloud.server.files
        names = plant(site.cloud)
        assert crawl(site) == names
        assert site.through_home()["trees"] == 1
        (files / "a &" / "x" / "new").write_bytes(b"new")
        (files / "b &" / "y" / "file ü").unlink()
        shutil.rmtree(files / "c &")
        there = [n for n in names if not n.startswith("c") and n != "b &/y/file ü"]
        before = len(site.cloud.server.requests("PROPFIND"))
        assert crawl(site) == sorted([*there, "a &/x/new"])
        assert site.through_home()["trees"] == 2
        assert len(site.cloud.server.requests("PROPFIND")) == before + 1  # home's


def test_an_idle_link_to_home_has_no_beats_of_ours(short_path: Path) -> None:
    """They would keep a mobile's radio awake for ever. The sshd of the testbed has its own, every
    5 s, which is its administrator's to say."""
    with helped_site(short_path) as site:
        names = plant(site.cloud)
        assert crawl(site) == names
        said = []
        for _ in range(4):  # the last streams of a crawl may end late
            said.append(site.link.carried)
            time.sleep(10)
        assert said[0] > 0
        assert site.link.carried - said[3] <= 2 * BEAT  # one in 3 s would be three and more
        assert crawl(site) == names
        assert site.through_home()["trees"] == 2
        assert site.link.carried - said[-1] < 1200


def test_a_home_that_was_started_again_or_is_away_changes_nothing(short_path: Path) -> None:
    with helped_site(short_path) as site:
        names = plant(site.cloud)
        assert crawl(site) == names
        site.home.end(signal.SIGKILL)
        (site.cloud.server.files / "new").write_bytes(b"new")
        assert crawl(site) == sorted([*names, "new"])


def test_home_helps_only_the_account_whose_password_it_has(short_path: Path) -> None:
    with helped_site(short_path, user="another") as site:
        names = plant(site.cloud)
        assert crawl(site) == names
        assert crawl(site) == names
        assert site.through_home()["trees"] == 0


def test_only_what_has_changed_of_a_large_file_crosses_the_link(short_path: Path) -> None:
    content = bytearray(os.urandom(SIZE))
    with helped_site(short_path) as site:
        large = site.cloud.server.files / "large"
        large.write_bytes(content)
        site.cloud.list_folder()
        at = SIZE // 3
        content[at : at + CHANGED] = os.urandom(CHANGED)
        assert put(site.cloud, "large", bytes(content)) == 204
        site.cloud.flush()
        assert site.cloud.states() == {"confirmed": 1}
        assert site.through_home()["files"] == 1
        assert hashlib.sha256(large.read_bytes()).digest() == hashlib.sha256(content).digest()
        assert site.cloud.ask("stats")["bytes_up"] < 0.03 * SIZE
        assert list((site.home.folder / "data" / "uplink").iterdir()) == []
        held = [path for path in short_path.rglob("*") if path.is_file()]
        told = {path.name for path in held if PASSWORD.encode() in path.read_bytes()}
        assert told == {"home-password", "credentials", "wsgidav.json"}  # those of this test


def test_home_does_not_overwrite_what_another_device_has_changed(short_path: Path) -> None:
    content = os.urandom(500_000)
    with helped_site(short_path) as site:
        large = site.cloud.server.files / "large"
        large.write_bytes(content)
        site.cloud.list_folder()
        assert put(site.cloud, "large", content + b"mine") == 204
        theirs = content + b"from the other device"
        as_second_writer(site.cloud.server, "/large", theirs)
        site.cloud.flush()
        assert site.cloud.states() == {"conflict": 1}
        assert large.read_bytes() == theirs
        copies = [p for p in site.cloud.server.files.iterdir() if "conflict" in p.name]
        assert [p.read_bytes() for p in copies] == [content + b"mine"]


def test_others_can_not_read_the_password_that_home_has(short_path: Path) -> None:
    with helped_site(short_path) as site:
        password = short_path / "home-password"
        password.chmod(0o644)
        site.home.end(signal.SIGTERM)
        said = subprocess.run(
            [str(word) for word in site.home.argv("serve")],
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert said.returncode != 0
        assert "others can read" in said.stderr
