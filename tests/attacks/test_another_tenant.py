# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody else at the same surrogate, who reaches its socket as every client does."""

import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.errors import AccessError, NotFoundError, SatchelError
from surrogate.operator import TOKEN, credentials
from tests.client.world import World, post
from wire import CreateReplica, HttpClient

ONLY_FORWARDS = 'restrict,port-forwarding,command="/bin/false"'


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


def test_gets_no_shell_with_a_key_that_only_forwards(carried: World) -> None:
    """The line that docs/security.md has for authorized_keys. A client needs no more."""
    for spot in carried.spots.values():
        keys = spot.sshd.folder / "authorized_keys"
        lines = keys.read_text().splitlines()
        keys.write_text("".join(f"{ONLY_FORWARDS} {line}\n" for line in lines))
    assert f"`{ONLY_FORWARDS} ssh-ed25519" in Path("docs/security.md").read_text(encoding="utf-8")
    runner = carried.runner()
    url = carried.proxy(runner)
    for place in ("a", "b"):
        runner.move(place)
        assert post(url).status_code == 200
    peer = carried.settings.surrogates["b"]
    made = carried.spots["b"].folder / "made"
    known = f"UserKnownHostsFile={peer.known_hosts}"
    argv = ["ssh", "-F", "none", "-o", known, "-i", str(peer.identity), "-p", str(peer.port)]
    done = subprocess.run(
        [*argv, peer.destination, "touch", str(made)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert not made.exists()
