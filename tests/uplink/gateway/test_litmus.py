# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The public suite of WebDAV says through uplink what it says without."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, Apache, DavServer, WsgiDav, site

VERDICT = re.compile(r"^ *\d+\. (\w+)\.* (pass|FAIL|WARNING|SKIPPED)", re.MULTILINE)

pytestmark = requires("litmus", "rclone")


def verdicts(url: str, folder: Path) -> list[tuple[str, str]]:
    said = subprocess.run(
        ["litmus", "-k", f"{url}/", USER, PASSWORD],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
    ).stdout
    return VERDICT.findall(said)


@requires("apache2")
def test_litmus_at_apache(short_path: Path) -> None:
    says_the_same(short_path, Apache)


@pytest.mark.nightly
def test_litmus_at_wsgidav(short_path: Path) -> None:
    says_the_same(short_path, WsgiDav)


def says_the_same(folder: Path, kind: type[DavServer]) -> None:
    folder.chmod(0o755)
    with site(folder, kind, 'background = ["basic", "copymove", "props", "locks"]') as cloud:
        direct = verdicts(cloud.server.url, folder)
        cloud.hold()
        through = verdicts(cloud.url, folder)
        assert len(direct) > 80
        assert through == direct
        assert cloud.ask("stats")["held"] > 10
