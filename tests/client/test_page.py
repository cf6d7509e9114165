# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session's page tells a browser, of a session with a replica on a surrogate."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client.page import SessionView
from tests import localhost
from tests.browser import NOVNC
from tests.client.test_cli import Person
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.pages import require_every_look, require_keyboard, seen, text
from tests.waiting import eventually
from wire import Page

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def sources(view: Any) -> set[str | None]:
    """Where the blocks of a view's volumes came from."""
    (maps,) = [section["maps"] for section in view["sections"] if "maps" in section]
    return {part["source"] for volume in maps for part in volume["parts"]}


def test_it_shows_replicas_volumes_and_where_their_blocks_came_from(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    assert post(url).status_code == 200
    assert operations(runner).wait_stable(15.0)
    with (
        Page(SessionView(runner)) as page,
        localhost.client(base_url=f"http://{page.host}:{page.port}") as browser,
    ):
        browser.get(page.link)
        view = browser.get("/view").json()
    sections = {section["title"]: section for section in view["sections"]}
    assert {row["name"] for row in sections["Replicas"]["rows"]} == {"home", "a"}
    facts = sections["Log"]["facts"]
    assert facts["waiting_operations"] == 0
    assert sections["Medium"]["facts"]["media_free_bytes"] > 0
    routes = {(r["surrogate"], r["route"]) for r in sections["Routes elsewhere"]["rows"]}
    assert routes == {("b", "replay"), ("b", "handover"), ("b", "fresh")}
    assert all(r["predicted_seconds"] > 0 for r in sections["Routes elsewhere"]["rows"])
    assert (facts["last_operation"], facts["stable_operation"]) == (operations(runner).last,) * 2
    # What came ahead of the guest came from the surrogate's cache when the guest wanted it.
    assert sources(view) - {None} in ({"media"}, {"cache"}, {"media", "cache"})
    traffic = sections["Traffic by source"]["rows"]
    assert sum(row["bytes"] for row in traffic if row["source"] == "media") > 0


@pytest.mark.nightly
@NOVNC
def test_a_session_of_the_command_line_in_every_look(carried: World, tmp_path: Path) -> None:
    with closing(Person(carried)) as person:
        person.runs("notes", "--media", str(carried.stick), "--at", "a", "--web", "0")
        assert eventually(lambda: "web page: " in person.said(), 30.0)
        link = person.said().split("web page: ")[1].split()[0]
        with seen(tmp_path / "browser", link) as browser:
            assert eventually(lambda: "a, disk0" in text(browser), 60.0)
            require_every_look(browser, "session")
            require_keyboard(browser)
