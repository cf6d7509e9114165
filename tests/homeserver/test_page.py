# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's page tells a browser."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from homeserver.page import home_page
from homeserver.shares import ShareRegistry, Shares
from media import Media
from shares.home import ShareRecord
from tests import localhost
from tests.browser import NOVNC
from tests.chunkstore.mounts import tmpfs
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.pages import require_every_look, require_keyboard, seen, text
from tests.waiting import eventually
from wire import Page

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


def rows(page: Page) -> dict[str, list[dict[str, Any]]]:
    """The rows of its sections, by title."""
    with localhost.client(base_url=f"http://{page.host}:{page.port}") as client:
        client.get(page.link)
        sections = client.get("/view").json()["sections"]
    return {section["title"]: section.get("rows", []) for section in sections}


@contextmanager
def page_of(bench: Bench, folder: Path) -> Iterator[Page]:
    """Of a home where a service runs and a folder is shared."""
    bench.running()
    settings = bench.settings
    shelf = ShareRegistry(settings.shares)
    with closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares:
        shares.add(ShareRecord(name="papers", path=str(folder)))
        with home_page(bench.home, shares, 0) as page:
            yield page


def test_it_shows_services_and_shares(bench: Bench, tmp_path: Path) -> None:
    with page_of(bench, tmp_path) as page:
        sections = rows(page)
    assert [(row["name"], row["state"]) for row in sections["Services"]] == [("notes", "ready")]
    assert [(row["name"], row["nodes"]) for row in sections["Shares"]] == [("papers", 0)]
    behind = sections["How far shares are behind"]
    assert [(row["share"], row["node"], row["behind_bytes"]) for row in behind] == [
        ("papers", "home", 0)
    ]


@requires("root", "mount")
def test_a_medium_is_ejected_by_its_button(bench: Bench, tmp_path: Path) -> None:
    stick, papers = tmp_path / "stick", tmp_path / "papers"
    papers.mkdir()
    with tmpfs(stick), page_of(bench, papers) as page:
        with Media.init(stick) as media:
            uuid = media.uuid
        with localhost.client(base_url=f"http://{page.host}:{page.port}") as client:
            assert client.post("/act/eject", json={"key": uuid}).status_code == 403
            client.get(page.link)
            assert client.post("/act/eject", json={"key": str(stick)}).status_code == 404
            assert stick.is_mount()
            assert client.post("/act/eject", json={"key": uuid}).status_code == 200
            assert not stick.is_mount()
            assert client.post("/act/eject", json={"key": uuid}).status_code == 404
        assert uuid not in str(rows(page)["Media"])
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(stick)], check=True)


@pytest.mark.nightly
@NOVNC
def test_every_look_is_accessible_and_fits(bench: Bench, tmp_path: Path) -> None:
    with page_of(bench, tmp_path) as page, seen(tmp_path / "browser", page.link) as browser:
        assert eventually(lambda: "papers" in text(browser), 30.0)
        require_every_look(browser, "home")
        require_keyboard(browser)
