# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session's page tells a browser, of a session with a replica on a surrogate."""

from __future__ import annotations

import httpx

from client.page import session_view
from tests.client.world import World, post
from tests.needs import requires
from wire import Page

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def test_it_shows_replicas_volumes_and_where_their_blocks_came_from(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    assert post(url).status_code == 200
    assert runner.session.wait_stable(15.0)
    with (
        Page(lambda: session_view(runner.status())) as page,
        httpx.Client(base_url=f"http://127.0.0.1:{page.port}") as browser,
    ):
        browser.get(page.link)
        view = browser.get("/view").json()
    sections = {section["title"]: section for section in view["sections"]}
    assert {row["name"] for row in sections["Replicas"]["rows"]} == {"home", "a"}
    facts = sections["Session"]["facts"]
    assert (facts["last_operation"], facts["stable_operation"]) == (runner.session.last,) * 2
    (maps,) = [s["maps"] for s in view["sections"] if "maps" in s]
    assert any(part["source"] == "media" for volume in maps for part in volume["parts"])
    traffic = sections["Traffic by source"]["rows"]
    assert sum(row["bytes"] for row in traffic if row["source"] == "media") > 0
