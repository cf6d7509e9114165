# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody else at the same surrogate, who reaches its socket as every client does."""

import stat
from collections.abc import Iterator

import pytest

from satchel.errors import AccessError, NotFoundError, SatchelError
from surrogate.operator import TOKEN, credentials
from tests.client.world import World, post
from wire import CreateReplica, HttpClient


@pytest.fixture
def other(carried: World) -> Iterator[HttpClient]:
    """At the socket of a surrogate on which somebody's replica runs."""
    runner = carried.runner()
    runner.move("a")
    assert post(carried.proxy(runner)).status_code == 200
    with HttpClient(carried.spots["a"].socket) as client:
        yield client
    assert len(carried.spots["a"].replicas()) == 1
    assert post(carried.proxy(runner)).status_code == 200


def test_sees_no_replica_and_no_numbers(carried: World, other: HttpClient) -> None:
    (replica,) = carried.spots["a"].replicas()
    told = other.request("GET", "/v1/status").body.decode()
    assert '"replicas":[]' in told.replace(" ", "")
    assert replica not in told
    for token in ("x", "0" * 64, "0" * 4000):
        with pytest.raises(AccessError, match="operator"):
            other.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(AccessError, match="operator"):
        other.request("GET", "/metrics")


def test_guesses_no_id(carried: World, other: HttpClient) -> None:
    (replica,) = carried.spots["a"].replicas()
    drawn = {CreateReplica.new_id("notes").rpartition("-")[2] for _ in range(1000)}
    assert len(drawn) == 1000
    assert {len(id) for id in drawn} == {32}
    for guess in ("notes", replica[:-1], replica[:-32], replica.rpartition("-")[0]):
        for method, rest in (
            ("GET", ""),
            ("POST", "/operations"),
            ("POST", "/reads"),
            ("POST", "/hand-over"),
            ("POST", "/digest"),
            ("GET", "/streams"),
            ("POST", "/go-on"),
            ("POST", "/more"),
            ("DELETE", ""),
        ):
            with pytest.raises(SatchelError) as caught:
                other.request(method, f"/v1/replicas/{guess}{rest}", body=b"")
            assert replica not in str(caught.value)
            if rest not in ("/digest", "/more"):
                assert isinstance(caught.value, NotFoundError)


def test_the_operator_is_told_of_all(carried: World, other: HttpClient) -> None:
    (replica,) = carried.spots["a"].replicas()
    run = carried.spots["a"].host.settings.run
    assert stat.S_IMODE((run / TOKEN).stat().st_mode) == 0o600
    headers = credentials(run)
    assert replica in other.request("GET", "/v1/status", headers=headers).body.decode()
    assert b"satchel_replicas" in other.request("GET", "/metrics", headers=headers).body
