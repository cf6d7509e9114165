# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A page of another site, in a browser of the person, and uplink's port, which needs no password
where the service needs none. The attacker knows the port and the names of services."""

import http.client
from collections.abc import Iterator

import pytest

from tests.uplink.gateway.recording import recorded

BROWSER = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, list[str]]]:
    with recorded(tmp_path_factory.mktemp("u")) as found:
        yield found


def ask(port: int, method: str, target: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, body=b"x" if method == "POST" else None, headers=named)
    status = connection.getresponse().status
    connection.close()
    return status


def test_sends_requests_from_its_own_site(place: tuple[int, list[str]]) -> None:
    port, came = place
    before = list(came)
    for method in ("POST", "PUT", "DELETE", "GET"):
        assert ask(port, method, "/cloud/a", Origin="https://evil.example") == 403
        assert ask(port, method, "/cloud/a", Origin="null") == 403
        assert ask(port, method, "/cloud/a", **BROWSER) == 403
    same = BROWSER | {"Sec-Fetch-Site": "same-site"}
    assert ask(port, "POST", "/cloud/a", **same, Origin=f"http://localhost:{port + 1}") == 403
    assert ask(port, "POST", "/cloud/a", Host="evil.example") == 403  # its own name for 127.0.0.1
    absolute = f"http://127.0.0.1:{port}/cloud/a"
    assert ask(port, "POST", absolute, Origin="https://evil.example") == 403
    assert came == before
    assert ask(port, "POST", "/cloud/a") == 200  # a program, which says nothing of a site
    assert came == [*before, "POST /dav/a"]


@pytest.mark.parametrize(
    "target",
    [
        *("/cloud/../admin", "/cloud/%2e%2e/admin", "/cloud/a/../../admin", "/cloud/.%2E/admin"),
        *("/cloud/..%2fadmin", "/cloud/a%2F..%2F..%2Fadmin", "/cloud/..\\admin"),
        *("/cloud/..%5cadmin", "/cloud/./../admin", "//cloud/../admin", "/cloud/..", "/cloud/..?x"),
    ],
)
def test_leaves_the_folder_of_the_service(place: tuple[int, list[str]], target: str) -> None:
    port, came = place
    before = list(came)
    for whole in (target, f"http://127.0.0.1:{port}{target}"):
        assert ask(port, "POST", whole) in (400, 404)
        move = {"Destination": f"http://127.0.0.1:{port}{target}"}
        if target.startswith("/cloud"):
            assert ask(port, "MOVE", "/cloud/a", **move) == 400
    assert came == before


def test_a_target_with_dots_stays_inside(place: tuple[int, list[str]]) -> None:
    port, came = place
    assert ask(port, "POST", "/cloud/a/./b/%2e%2e/c?d=/../e") == 200
    assert came[-1] == "POST /dav/a/c?d=/../e"
