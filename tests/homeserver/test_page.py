# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's page tells a browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from homeserver.page import home_view
from homeserver.shares import Shares, ShareShelf
from shares.home import ShareRecord
from tests.homeserver.conftest import Bench
from tests.needs import requires
from wire import Page

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


def seen(page: Page) -> dict[str, list[dict[str, Any]]]:
    """The rows of its sections, by title."""
    with httpx.Client(base_url=f"http://127.0.0.1:{page.port}") as client:
        client.get(page.link)
        sections = client.get("/view").json()["sections"]
    return {section["title"]: section.get("rows", []) for section in sections}


def test_it_shows_services_and_shares(bench: Bench, tmp_path: Path) -> None:
    bench.running()
    settings = bench.settings
    shelf = ShareShelf(settings.shares)
    with closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares:
        shares.add(ShareRecord(name="papers", path=str(tmp_path)))
        with Page(lambda: home_view(bench.home, shares)) as page:
            sections = seen(page)
    assert [(row["name"], row["state"]) for row in sections["Services"]] == [("notes", "ready")]
    assert [(row["name"], row["nodes"]) for row in sections["Shares"]] == [("papers", 0)]
