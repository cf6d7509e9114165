# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon's page as somebody who is not its owner meets it, and as its owner does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import httpx2
import pytest

from satchel.errors import UnavailableError
from tests import localhost
from tests.waiting import eventually
from wire import Page, View
from wire.http.pages import VIEWERS

ENDED: list[str] = []
FAILS: list[bool] = []


def view() -> View:
    if FAILS:
        raise UnavailableError("nobody knows")
    return {"title": "Here", "sections": []}


@pytest.fixture
def page() -> Iterator[Page]:
    ENDED.clear()
    FAILS.clear()
    with Page(view, actions={"end": ENDED.append}) as made:
        yield made


@pytest.fixture
def owner(page: Page) -> Iterator[httpx2.Client]:
    with localhost.client(
        base_url=f"http://{page.host}:{page.port}", follow_redirects=True
    ) as client:
        assert client.get(page.link).status_code == 200
        yield client


@pytest.mark.parametrize("path", ["/", "/view", "/events", "/act/end"])
def test_without_the_cookie_nothing_is_told_or_done(page: Page, path: str) -> None:
    place = f"http://{page.host}:{page.port}{path}"
    method = "POST" if path.startswith("/act") else "GET"
    answer = localhost.request(method, place, json={"key": "r1"})
    assert (answer.status_code, answer.json()["code"], ENDED) == (403, "access", [])
    wrong = {b"Cookie": f"satchel-{page.port}=\xe9".encode("latin-1")}
    assert localhost.request(method, place, json={"key": "r1"}, headers=wrong).status_code == 403


def test_a_wrong_token_gives_no_cookie(page: Page) -> None:
    answer = localhost.get(f"http://{page.host}:{page.port}/login?token=guess")
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_the_cookie_is_for_no_script_and_no_other_site(page: Page) -> None:
    said = localhost.get(page.link).headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    assert page.link.split("=")[1] not in said


def test_the_owner_sees_and_acts(owner: httpx2.Client) -> None:
    assert owner.get("/view").json()["title"] == "Here"
    assert owner.post("/act/end", json={"key": "r1"}).status_code == 200
    assert ENDED == ["r1"]
    assert owner.post("/act/other", json={"key": "r1"}).status_code == 404
    assert owner.post("/act/end", json={"key": 1}).status_code == 400
    assert ENDED == ["r1"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_site_is_refused_in_spite_of_the_cookie(
    owner: httpx2.Client, headers: dict[str, str]
) -> None:
    assert owner.post("/act/end", json={"key": "r1"}, headers=headers).status_code == 403
    assert ENDED == []


def test_every_answer_forbids_what_is_not_from_here(owner: httpx2.Client) -> None:
    for path in ("/", "/view", "/page/page.js", "/nowhere"):
        assert "default-src 'self'" in owner.get(path).headers["content-security-policy"]


def test_files_outside_of_the_folder_are_not_served(owner: httpx2.Client) -> None:
    for path in ("/page/../pages.py", "/page/%2e%2e/pages.py", "/page/%2e%2e%2fpages.py"):
        assert owner.get(path).status_code == 404


def test_events_go_on_after_a_look_that_failed(owner: httpx2.Client) -> None:
    with owner.stream("GET", "/events") as answer:
        told = (json.loads(line[6:]) for line in answer.iter_lines() if line)
        assert next(told)["title"] == "Here"
        FAILS.append(True)
        assert any("error" in seen for seen in told)
        FAILS.clear()
        assert any("title" in seen for seen in told)


def test_viewers_are_bounded_and_one_that_leaves_makes_room(owner: httpx2.Client) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(VIEWERS):
            answer = stack.enter_context(owner.stream("GET", "/events"))
            assert answer.status_code == 200
        assert owner.get("/events").status_code == 507
        assert owner.get("/view").status_code == 200

    def room() -> bool:
        with owner.stream("GET", "/events") as answer:
            return answer.status_code == 200

    assert eventually(room, 30.0)
